"""Metric reporting: one line of JSON for each number, appended to the file that the engine names.

Training code calls `report`. Whatever happens to the file, training goes on: a failure is told once on standard error.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import sys
import time
from pathlib import Path

from gangline.runtime import stacks, stop
from gangline.runtime.replica import current


class MetricFile:
    """Appends metric records to one file, whole lines at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._torn = False
        self._warned = False
        self.one_step_short: tuple[int, int] | None = None
        """The last step reported and the process that reported it, if it is the last one of a count from zero."""

    def append(self, records: list[dict[str, object]]) -> None:
        """Write the records with a single append, so that the lines of several replicas do not mix."""
        lines = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records).encode()
        # After a write cut short by a full disk, a line break keeps the torn line from spoiling the next one.
        data = b"\n" + lines if self._torn else lines
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                self._torn = os.write(descriptor, data) < len(data)
            finally:
                os.close(descriptor)
        except OSError as error:
            self.warn(str(error))
        else:
            if self._torn:
                self.warn("the file system took only part of the line")

    def warn(self, reason: str) -> None:
        """Say once why numbers are missing."""
        if not self._warned:
            self._warned = True
            sys.stderr.write(f"gangline: metrics cannot be written to {self._path}: {reason}; training goes on\n")


_files: dict[Path, MetricFile] = {}


def report(*, step: int | None = None, total_steps: int | None = None, **metrics: float) -> None:
    """Record numbers by name, for example `report(step=100, total_steps=1000, loss=0.3)`.

    With `total_steps`, the share of steps done is recorded as the metric `progress`. It ends at 1 whether steps are
    counted as they are finished (1 to `total_steps`) or as `range(total_steps)` counts them. A number that is not
    finite is recorded as null, because JSON has no word for it; what is not a number is left out. Outside a job nothing
    is written. Never raises.
    """
    path = current().metrics_path
    if path is None:
        return
    file = _files.setdefault(path, MetricFile(path))
    now = time.time()
    try:
        at_step = None if step is None else int(step)
        if total_steps and at_step is not None:
            metrics["progress"] = min(1.0, max(0.0, at_step / int(total_steps)))
            file.one_step_short = (at_step, os.getpid()) if at_step == int(total_steps) - 1 else None
    except Exception as error:  # noqa: BLE001  # arrays and tensors refuse in ways of their own; training goes on
        file.warn(f"step {step!r} of {total_steps!r} is not a single number ({error})")
        return
    stacks.reported(at_step)
    records: list[dict[str, object]] = []
    for name, value in metrics.items():
        try:
            records.append({"at": now, "name": name, "value": _number(value), "step": at_step})
        except Exception as error:  # noqa: BLE001  # as above; the other numbers are good
            file.warn(f"the value of '{name}' is not a single number ({error})")
    if records:
        file.append(records)


@atexit.register
def _finish() -> None:
    """Record that all is done where the last step of a count from zero was reported and the program has ended.

    Before its end nobody can tell that from a count of finished steps with one to go. A program that an exception
    ended, or a stop, has perhaps not done its last step; a forked child has done none.
    """
    if hasattr(sys, "last_value") or stop.received():
        return
    for file in _files.values():
        if file.one_step_short is not None and file.one_step_short[1] == os.getpid():
            step = file.one_step_short[0]
            file.append([{"at": time.time(), "name": "progress", "value": 1.0, "step": step}])


def _number(value: float) -> float | None:
    """Turn whatever counts as a number, an array of one element too, into one that JSON can hold."""
    # An array of one dimension has `item`, but some do not become a float by themselves.
    number = float(value.item() if hasattr(value, "item") else value)
    return number if math.isfinite(number) else None
