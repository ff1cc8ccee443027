"""Fit a line with JAX on every process. The coordinator's address comes from Gangline; alone it trains alone."""

import os

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

from gangline import runtime

replica = runtime.current()
if replica.world_size > 1:
    coordinator = f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}"
    jax.distributed.initialize(coordinator, replica.world_size, replica.rank)

inputs = jnp.linspace(-1, 1, 1024)[replica.rank :: replica.world_size]
outputs = 3 * inputs + 1
weights = jnp.zeros(2)
STEPS = 50


@jax.jit
def gradients_of(weights):
    """The loss and its gradients."""

    def loss(weights):
        return jnp.mean((weights[0] * inputs + weights[1] - outputs) ** 2)

    return jax.value_and_grad(loss)(weights)


for step in range(STEPS):
    loss, gradients = gradients_of(weights)
    if replica.world_size > 1:
        gradients = jnp.mean(multihost_utils.process_allgather(gradients), axis=0)
    weights = weights - 0.3 * gradients
    runtime.report(step=step, total_steps=STEPS, loss=float(loss))
print(f"loss {float(loss):.6f}", flush=True)
