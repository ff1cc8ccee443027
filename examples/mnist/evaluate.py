"""A step of the pipeline: how good the model is on the test images, and whether that is better than in production."""

import argparse
import json
from pathlib import Path

import numpy as np
from train import forward, load, normalise


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--model", "--data", "--accuracy", "--better", "--reason"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--production", type=json.loads, required=True, help="the metrics of that model, in JSON")
    options = parser.parse_args()
    images, labels = load(options.data, "t10k")
    right = forward(dict(np.load(options.model)), normalise(images))[1].argmax(axis=1) == labels
    accuracy, known = float(right.mean()), options.production.get("accuracy")
    better = known is None or accuracy > known
    options.accuracy.write_text(repr(accuracy))
    options.better.write_text("true" if better else "false")
    compared = "there is no model in production" if known is None else f"production has {known:.4f}"
    options.reason.write_text(f"accuracy {accuracy:.4f}: {compared}")
    print(options.reason.read_text())


if __name__ == "__main__":
    main()
