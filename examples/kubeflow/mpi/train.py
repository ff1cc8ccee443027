"""MNIST with NumPy and MPI: every rank computes gradients on its share of a batch, and all take their mean.

The launcher of the MPIJob starts it on the workers with mpirun.
"""

import gzip
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # ranks share the cores: one thread each, before NumPy loads

import numpy as np
from mpi4py import MPI

BATCH, EPOCHS, RATE, TARGET = 400, 3, 0.2, 0.95  # examples per step, all ranks together


def load(kind):
    """Images as rows between 0 and 1, and their labels."""
    folder = Path(os.environ["DATA_DIR"])
    with gzip.open(folder / f"{kind}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    with gzip.open(folder / f"{kind}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images, labels


def slopes_of(weights, images, labels):
    """Loss and gradients of a network with one hidden layer, by hand."""
    first, first_bias, second, second_bias = weights
    hidden = np.maximum(images @ first + first_bias, 0)
    scores = hidden @ second + second_bias
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    right = np.arange(len(labels)), labels
    loss = -np.log(chances[right] + 1e-12).mean()
    chances[right] -= 1
    delta = chances / len(labels)
    back = (delta @ second.T) * (hidden > 0)
    return loss, [images.T @ back, back.sum(axis=0), hidden.T @ delta, delta.sum(axis=0)]


def main():
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    random = np.random.default_rng(1)  # the same on every rank: all begin with the same weights
    weights = [random.normal(0, 0.05, shape).astype(np.float32) for shape in [(784, 128), (128,), (128, 10), (10,)]]
    velocity = [np.zeros_like(weight) for weight in weights]
    ends = np.cumsum([weight.size for weight in weights])[:-1]  # where one's slopes end among all of them
    images, labels = load("train")
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(labels))
        for batch in order.reshape(-1, BATCH):
            mine = batch[rank::size]
            loss, slopes = slopes_of(weights, images[mine], labels[mine])
            total = np.concatenate([slope.ravel() for slope in slopes])
            world.Allreduce(MPI.IN_PLACE, total, MPI.SUM)  # all in one message: each costs a round trip
            for weight, speed, part in zip(weights, velocity, np.split(total, ends), strict=True):
                speed[...] = 0.9 * speed + part.reshape(weight.shape) / size
                weight[...] -= RATE * speed
        print(f"rank {rank} of {size}, epoch {epoch + 1}: loss {loss:.4f}", flush=True)
    test_images, test_labels = load("t10k")
    first, first_bias, second, second_bias = weights
    scores = np.maximum(test_images @ first + first_bias, 0) @ second + second_bias
    accuracy = float((scores.argmax(axis=1) == test_labels).mean())
    print(f"rank {rank} of {size}: accuracy {accuracy:.4f}", flush=True)
    sys.exit(accuracy < TARGET)


if __name__ == "__main__":
    main()
