"""Three real trainings for benchmarks of searches: a network of one hidden layer on digits, breast cancer and MNIST.

Plain NumPy, small enough for thousands of runs, and the same numbers for the same values: the loss on held-out examples
after so many epochs. Digits and breast cancer come with scikit-learn (``pip install scikit-learn``); of MNIST the first
thousand training images, made half as wide and high, are read from a folder with its four files (``GANGLINE_MNIST``, or
data/mnist beside this repository).

As a program it is a trial of a sweep: it reads its values from the environment, reports the loss of every epoch and the
best so far (that of the model somebody would keep), saves checkpoints and goes on from the latest. ``TRAINING_PAUSE``
seconds are added to every epoch, as a larger model takes.
"""

import gzip
import json
import math
import os
import struct
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np

Array = np.ndarray
NAMES = ("digits", "cancer", "mnist")
FOLDER = Path(__file__).resolve().parent.parent / "data" / "mnist"


@cache
def examples(name: str) -> tuple[Array, Array, Array, Array]:
    """Return training inputs and labels, then held-out ones; the same division every time."""
    images, labels = _read_mnist() if name == "mnist" else _read_sklearn(name)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = images[order].astype(np.float64), labels[order]
    scale = images.std(axis=0)
    images = (images - images.mean(axis=0)) / np.where(scale == 0, 1, scale)
    held_out = len(labels) // 3
    return images[held_out:], labels[held_out:], images[:held_out], labels[:held_out]


def _read_sklearn(name: str) -> tuple[Array, Array]:
    from sklearn import datasets

    found = datasets.load_digits() if name == "digits" else datasets.load_breast_cancer()
    return found.data, found.target


def _read_mnist() -> tuple[Array, Array]:
    folder = Path(os.environ.get("GANGLINE_MNIST", FOLDER))
    pixels, labels = (_idx(folder / f"train-{part}") for part in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    return pixels[:1000].reshape(1000, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(1000, -1), labels[:1000]


def _idx(path: Path) -> Array:
    content = path.read_bytes() if path.exists() else gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes())
    (magic,) = struct.unpack(">I", content[:4])
    shape = struct.unpack(f">{magic & 255}I", content[4 : 4 + 4 * (magic & 255)])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


State = dict[str, Array]


def new_state(inputs: int, classes: int, hidden: int) -> State:
    source = np.random.default_rng(1)
    weights = {
        "w1": source.normal(0, inputs**-0.5, (inputs, hidden)),
        "b1": np.zeros(hidden),
        "w2": source.normal(0, hidden**-0.5, (hidden, classes)),
        "b2": np.zeros(classes),
    }
    return weights | {f"v-{name}": np.zeros_like(each) for name, each in weights.items()}


def _probabilities(state: State, images: Array) -> tuple[Array, Array]:
    inner = np.tanh(images @ state["w1"] + state["b1"])
    scores = inner @ state["w2"] + state["b2"]
    scores -= scores.max(axis=1, keepdims=True)
    odds = np.exp(scores)
    return inner, odds / odds.sum(axis=1, keepdims=True)


def train_epoch(name: str, state: State, epoch: int, values: Mapping[str, float]) -> float:
    """Go through the training examples once; return the loss on the held-out ones, at most 100."""
    images, labels, held_images, held_labels = examples(name)
    order = np.random.default_rng(epoch).permutation(len(labels))
    rate, decay, momentum = values["rate"], values["decay"], values["momentum"]
    with np.errstate(all="ignore"):
        for start in range(0, len(order), 32):
            batch = order[start : start + 32]
            inner, odds = _probabilities(state, images[batch])
            odds[np.arange(len(batch)), labels[batch]] -= 1
            back = (odds @ state["w2"].T) * (1 - inner**2)
            slopes = {"w1": images[batch].T @ back, "b1": back.sum(0), "w2": inner.T @ odds, "b2": odds.sum(0)}
            for each, slope in slopes.items():
                state[f"v-{each}"] = momentum * state[f"v-{each}"] - rate * (slope / len(batch) + decay * state[each])
                state[each] = state[each] + state[f"v-{each}"]
        odds = _probabilities(state, held_images)[1]
        loss = -np.log(np.maximum(odds[np.arange(len(held_labels)), held_labels], 1e-300)).mean()
    return float(min(loss, 100.0)) if np.isfinite(loss) else 100.0


def losses(name: str, values: Mapping[str, float], epochs: int) -> Iterator[float]:
    """Train from the beginning; return the loss of every epoch."""
    images, labels, _, _ = examples(name)
    state = new_state(images.shape[1], int(labels.max()) + 1, int(values["hidden"]))
    for epoch in range(1, epochs + 1):
        yield train_epoch(name, state, epoch, values)


def main() -> None:
    from gangline import runtime

    name, epochs = os.environ["TRAINING"], int(os.environ["TRAINING_EPOCHS"])
    values = {key: float(value) for key, value in json.loads(os.environ["TRIAL_PARAMETERS"]).items()}
    checkpoints = runtime.Checkpoints(os.environ["CHECKPOINT_DIR"])
    images, labels, _, _ = examples(name)
    first, state = 0, new_state(images.shape[1], int(labels.max()) + 1, int(values["hidden"]))
    best = math.inf
    found = checkpoints.latest()
    if found is not None:
        first, state = found.step, dict(np.load(found.path / "state.npz"))
        best = float(state.pop("best"))
    for epoch in range(first + 1, epochs + 1):
        if runtime.stopping():
            return
        loss = train_epoch(name, state, epoch, values)
        best = min(best, loss)
        saved = state | {"best": np.array(best)}
        checkpoints.save(epoch, lambda path, saved=saved: np.savez(path / "state.npz", **saved))
        runtime.report(step=epoch, loss=loss, best_loss=best)
        print("epoch", epoch, flush=True)
        until = time.monotonic() + float(os.environ.get("TRAINING_PAUSE", "0"))
        while time.monotonic() < until and not runtime.stopping():
            time.sleep(0.02)


if __name__ == "__main__":
    main()
