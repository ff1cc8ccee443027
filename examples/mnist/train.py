"""Train a multi-layer network on MNIST with parameter servers. Every role of the job runs this one file.

Bare (python train.py --epochs 5) it trains alone. In a job `ps` holds the model, workers train, the chief watches.
"""

# ruff: noqa: E402  # the linear algebra library reads its settings when NumPy loads it
import os

for library in ("OMP", "OPENBLAS", "MKL"):  # several workers share few cores: one thread each, before NumPy loads
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import argparse
import gzip
import json
import time
from itertools import pairwise

import numpy as np

from gangline import ps, runtime

WIDTH, BATCH, SHARD = 128, 100, 1000


def load(directory, kind):
    """Images as rows of bytes, and their labels."""
    with gzip.open(directory / f"{kind}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(directory / f"{kind}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images, labels


def normalise(images):
    return (images.astype(np.float32) / 255 - 0.1307) / 0.3081


def new_model(hidden_layers, seed):
    random = np.random.default_rng(seed)
    sizes = [784, *[WIDTH] * hidden_layers, 10]
    model = {}
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        model[f"weight{number}"] = random.normal(0, (2 / inputs) ** 0.5, (inputs, outputs)).astype(np.float32)
        model[f"bias{number}"] = np.zeros(outputs, np.float32)
    return model


def forward(model, images):
    """The input of every layer, and the scores that come out of the last."""
    inputs, layers = [images], len(model) // 2
    for number in range(layers):
        sums = inputs[-1] @ model[f"weight{number}"] + model[f"bias{number}"]
        inputs.append(np.maximum(sums, 0) if number < layers - 1 else sums)
    return inputs[:-1], inputs[-1]


def gradients_of(model, images, labels):
    """Cross-entropy loss and its gradients, by hand."""
    inputs, scores = forward(model, images)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances = scores / scores.sum(axis=1, keepdims=True)
    right = np.arange(len(labels)), labels
    loss = -np.log(chances[right] + 1e-12).mean()
    chances[right] -= 1
    delta, gradients = chances / len(labels), {}
    for number in reversed(range(len(inputs))):
        gradients[f"weight{number}"] = inputs[number].T @ delta
        gradients[f"bias{number}"] = delta.sum(axis=0)
        delta = (delta @ model[f"weight{number}"].T) * (inputs[number] > 0)
    return float(loss), gradients


def train(session, gradients_of, directory, epochs, seed):
    images, labels = load(directory, "train")
    for shard in session.shards(examples=len(labels), size=SHARD, epochs=epochs, seed=seed):
        rate = 1 - (shard.epoch + shard.leased.start / len(labels)) / epochs  # falls from 1 to 0
        for batch in shard.batches(BATCH):
            loss, gradients = gradients_of(session.parameters, normalise(images[batch]), labels[batch])
            session.push_pull(gradients, loss=loss, scale=rate)


def watch(session, directory, began):
    """The chief's part: evaluate now and then, and once more when all is done."""
    images, labels = load(directory, "t10k")
    for progress in session.follow(every_seconds=2):
        right = forward(session.parameters, normalise(images))[1].argmax(axis=1) == labels
        result = {"accuracy": float(right.mean()), "seconds": time.time() - began}
        runtime.report(step=progress.examples_done, total_steps=progress.examples_total or None, **result)
        print(f"{progress.examples_done:>8} examples, accuracy {result['accuracy']:.4f}", flush=True)
    return result | {"examples": progress.examples_done}


def main(gradients_of=gradients_of):
    began, here = time.time(), runtime.current()
    defaults = {"--hidden-layers": 3, "--learning-rate": 0.01, "--epochs": 5, "--seed": 1}
    defaults |= {"--data": here.data_directory, "--model": here.result_directory / "model" / "weights.npz"}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in defaults.items():
        parser.add_argument(name, type=type(default), default=default)
    options = parser.parse_args()
    # Adam wants about a tenth of the rate that plain descent does.
    settings = ps.Settings(optimizer="adam", learning_rate=options.learning_rate / 10, non_finite="skip")
    if here.role == "ps":
        ps.serve(settings)
        return
    chief, watching = here.role == "chief", here.role == "chief" and bool(here.peers("worker"))
    with ps.connect(new_model(options.hidden_layers, options.seed), settings=settings, observer=watching) as session:
        if not watching:
            train(session, gradients_of, options.data, options.epochs, options.seed)
        if chief:
            result = watch(session, options.data, began)
            options.model.parent.mkdir(parents=True, exist_ok=True)
            with options.model.open("wb") as file:
                np.savez(file, **session.parameters)
            (here.result_directory / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
