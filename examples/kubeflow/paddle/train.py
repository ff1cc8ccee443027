"""MNIST with Paddle over gloo, started by paddle.distributed.launch, which reads PADDLE_* from the PaddleJob.

Every process trains on its own part of the data; the gradients are averaged by hand, in one message per step.
"""

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import paddle
from paddle import distributed, nn

BATCH, EPOCHS, TARGET = 100, 2, 0.95  # examples per process and step


def load(kind):
    """Images as rows between 0 and 1, and their labels."""
    folder = Path(os.environ["DATA_DIR"])
    with gzip.open(folder / f"{kind}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    with gzip.open(folder / f"{kind}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)
    return images, labels


def average(parameters, size):
    """Give every process the mean of all gradients, in one message."""
    whole = paddle.concat([parameter.grad.flatten() for parameter in parameters])
    distributed.all_reduce(whole)
    parts = paddle.split(whole / size, [parameter.size for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad.set_value(part.reshape(parameter.shape))


def main():
    paddle.set_device("cpu")
    distributed.init_parallel_env()
    rank, size = distributed.get_rank(), distributed.get_world_size()
    paddle.seed(1)  # every process begins with the same model
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = paddle.optimizer.Adam(0.003, parameters=model.parameters())
    images, labels = load("train")
    test_images, test_labels = load("t10k")
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(labels))[rank::size][: len(labels) // size]
        print(f"rank {rank} of {size} begins epoch {epoch + 1}", flush=True)
        for batch in np.split(order, range(BATCH, len(order), BATCH)):
            loss = nn.functional.cross_entropy(model(paddle.to_tensor(images[batch])), paddle.to_tensor(labels[batch]))
            loss.backward()
            average(model.parameters(), size)
            optimizer.step()
            optimizer.clear_grad()
    answers = model(paddle.to_tensor(test_images)).argmax(axis=1).numpy()
    accuracy = float((answers == test_labels).mean())
    print(f"rank {rank} of {size}: accuracy {accuracy:.4f}", flush=True)
    sys.exit(accuracy < TARGET)


if __name__ == "__main__":
    main()
