"""Stands in for the programs of Katib's example images: takes their flags and writes numbers in the forms that they do.

Usage: training.py PROGRAM [FLAG]... It tries nothing; the better the learning rate fits, the lower is the loss.
"""

import argparse
import json
import os
import struct
import sys
import time
from pathlib import Path

STEPS = 8
"""Reports of an epoch: the programs print after every few batches, and early stopping counts those."""
PAUSE_SECONDS = 0.3


def main(arguments: list[str]) -> None:
    """Write what the program would have written."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("lr", "learning-rate", "epochs", "num-epochs", "num-steps", "batch-size"):
        parser.add_argument(f"--{name}", type=float)
    parser.add_argument("--log-path")
    parser.add_argument("--logger", default="standard")
    given, _ = parser.parse_known_args(arguments)
    rate = next((each for each in (given.lr, given.learning_rate) if each is not None), 0.03)
    epochs = int(given.epochs or given.num_epochs or 3)
    for step in range(1, max(epochs, 1) * STEPS + 1):
        loss = 20 * abs(rate - 0.03) + 1 / (step + 1)
        report(given, step, loss, 1 / (1 + loss))
        time.sleep(PAUSE_SECONDS)


def report(given: argparse.Namespace, step: int, loss: float, accuracy: float) -> None:
    """Write the numbers of one step to standard output, to a file, or to an event file."""
    numbers = {"loss": loss, "accuracy": accuracy, "Validation-accuracy": accuracy, "Train-accuracy": accuracy}
    if given.log_path and given.logger == "hypertune":
        with Path(given.log_path).open("a", encoding="utf-8") as file:
            texts = {name: str(value) for name, value in numbers.items()}
            file.write(json.dumps({"epoch": step, "timestamp": float(step), **texts}) + "\n")
    elif given.log_path and not Path(given.log_path).suffix:
        write_events(Path(given.log_path) / "test", step, numbers)
    elif given.log_path:
        lines = "\n".join(f"{{metricName: {name}, metricValue: {value:.4f}}};" for name, value in numbers.items())
        with Path(given.log_path).open("a", encoding="utf-8") as file:
            file.write(f"{lines}\n")
    else:
        sys.stdout.write(f"step {step}: {' '.join(f'{name}={value:.4f}' for name, value in numbers.items())}\n")


def write_events(folder: Path, step: int, numbers: dict[str, float]) -> None:
    """Append an event as TensorFlow frames it."""
    folder.mkdir(parents=True, exist_ok=True)
    values = b"".join(
        _field(1, _field(1, name.encode()) + b"\x15" + struct.pack("<f", value)) for name, value in numbers.items()
    )
    event = b"\x09" + struct.pack("<d", float(step)) + b"\x10" + _varint(step) + _field(5, values)
    with (folder / f"events.out.tfevents.{os.getpid()}").open("ab") as file:
        file.write(struct.pack("<Q", len(event)) + bytes(4) + event + bytes(4))


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


if __name__ == "__main__":
    main(sys.argv[2:])
