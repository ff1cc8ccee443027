"""MNIST with JAX on several processes: one program over all their devices, the batch divided among them.

The JAXJob tells each process who coordinates, how many there are and which one it is.
"""

import gzip
import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

BATCH, EPOCHS, RATE, TARGET = 200, 3, 0.1, 0.95  # examples per step, all processes together


def load(kind):
    """Images as rows between 0 and 1, and their labels."""
    folder = Path(os.environ["DATA_DIR"])
    with gzip.open(folder / f"{kind}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    with gzip.open(folder / f"{kind}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int32)
    return images, labels


def scores_of(weights, images):
    first, first_bias, second, second_bias = weights
    return jax.nn.relu(images @ first + first_bias) @ second + second_bias


def loss_of(weights, images, labels):
    chances = jax.nn.log_softmax(scores_of(weights, images))
    return -jnp.take_along_axis(chances, labels[:, None], axis=1).mean()


@jax.jit
def step(weights, velocity, images, labels):
    loss, slopes = jax.value_and_grad(loss_of)(weights, images, labels)
    velocity = jax.tree.map(lambda v, slope: 0.9 * v + slope, velocity, slopes)
    return jax.tree.map(lambda w, v: w - RATE * v, weights, velocity), velocity, loss


def main():
    coordinator = f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}"
    jax.distributed.initialize(coordinator, int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"]))
    number, count = jax.process_index(), jax.process_count()
    mesh = jax.make_mesh((jax.device_count(),), ("batch",))
    everywhere, divided = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("batch"))

    def spread(sharding, mine):
        return jax.make_array_from_process_local_data(sharding, mine)

    random = np.random.default_rng(1)  # the same on every process: all begin with the same weights
    shapes = [(784, 128), (128,), (128, 10), (10,)]
    weights = [spread(everywhere, random.normal(0, 0.05, shape).astype(np.float32)) for shape in shapes]
    velocity = [spread(everywhere, np.zeros(shape, np.float32)) for shape in shapes]
    images, labels = load("train")
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(labels))
        for batch in order.reshape(-1, BATCH):
            mine = batch[number::count]
            weights, velocity, loss = step(
                weights, velocity, spread(divided, images[mine]), spread(divided, labels[mine])
            )
        print(f"process {number} of {count}, epoch {epoch + 1}: loss {float(loss):.4f}", flush=True)
    test_images, test_labels = load("t10k")
    mine = [np.asarray(weight.addressable_data(0)) for weight in weights]
    accuracy = float((np.argmax(scores_of(mine, test_images), axis=1) == test_labels).mean())
    print(f"process {number} of {count}: accuracy {accuracy:.4f}", flush=True)
    sys.exit(accuracy < TARGET)


if __name__ == "__main__":
    main()
