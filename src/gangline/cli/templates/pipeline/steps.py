"""The steps of the pipeline: make data, fit a line, measure it."""

import sys
from pathlib import Path

import numpy as np


def prepare(examples, data):
    """Make examples of a line."""
    inputs = np.linspace(-1, 1, int(examples))
    Path(data).mkdir(parents=True, exist_ok=True)
    np.savez(Path(data, "data.npz"), inputs=inputs, outputs=3 * inputs + 1)


def train(data, model):
    """Fit a line to them."""
    found = np.load(Path(data, "data.npz"))
    Path(model).mkdir(parents=True, exist_ok=True)
    np.save(Path(model, "model.npy"), np.polyfit(found["inputs"], found["outputs"], 1))


def evaluate(data, model, loss):
    """Write how far off it is."""
    found, weights = np.load(Path(data, "data.npz")), np.load(Path(model, "model.npy"))
    wrong = np.polyval(weights, found["inputs"]) - found["outputs"]
    Path(loss).write_text(str(float((wrong**2).mean())))


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    {"prepare": prepare, "train": train, "evaluate": evaluate}[name](*arguments)
