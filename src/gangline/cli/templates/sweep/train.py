"""Fit a line; what the sweep varies are options."""

import argparse

import numpy as np

from gangline import runtime

options = argparse.ArgumentParser()
options.add_argument("--learning-rate", type=float, default=0.1)
options.add_argument("--momentum", type=float, default=0.0)
given = options.parse_args()

inputs = np.linspace(-1, 1, 1_000)
outputs = 3 * inputs + 1
weights, speed = np.zeros(2), np.zeros(2)
for step in range(50):
    wrong = weights[0] * inputs + weights[1] - outputs
    speed = given.momentum * speed - given.learning_rate * np.array([(wrong * inputs).mean(), wrong.mean()])
    weights += speed
    runtime.report(step=step, total_steps=50, loss=float((wrong**2).mean()))
print(f"loss {float((wrong**2).mean()):.6f}")
