"""Where a worker's time goes, and what its gradients look like: collected each step, reported now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from gangline import runtime

REPORT_SECONDS = 1.0
PARTS = ("compute", "push", "pull", "wait")


class StepStatistics:
    """Adds up the parts of each step; `end_step` reports their means through runtime.report."""

    def __init__(self) -> None:
        now = time.perf_counter()
        self._spent = dict.fromkeys(PARTS, 0.0)
        self._sums = {"staleness": 0.0, "gradient_norm": 0.0}
        self._loss: list[float] = []
        self._steps = 0
        self._left_at = now
        self._reported_at = now
        self.totals = dict.fromkeys(PARTS, 0.0)
        self.steps = 0
        self.dropped_pushes = 0

    def begin_step(self) -> None:
        """The training code hands over: what passed since the last step was its own computing."""
        self._add("compute", time.perf_counter() - self._left_at)

    @contextmanager
    def spending(self, part: str) -> Iterator[None]:
        """Count the time of the block as one part, and not as computing when it lies between two steps."""
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self._add(part, spent)
            self._left_at += spent

    def end_step(self, *, step: int, staleness: int, gradient_norm: float, loss: float | None) -> None:
        """A step is over."""
        self.steps += 1
        self._steps += 1
        self._sums["staleness"] += staleness
        self._sums["gradient_norm"] += gradient_norm
        if loss is not None:
            self._loss.append(loss)
        self._left_at = time.perf_counter()
        if self._left_at - self._reported_at >= REPORT_SECONDS:
            self.report(step)

    def report(self, step: int) -> None:
        """Report the means since the last report."""
        if not self._steps:
            return
        metrics = {f"{part}_seconds": spent / self._steps for part, spent in self._spent.items()}
        metrics |= {name: total / self._steps for name, total in self._sums.items()}
        metrics["step_seconds"] = sum(self._spent.values()) / self._steps
        if self._loss:
            metrics["loss"] = sum(self._loss) / len(self._loss)
        runtime.report(step=step, total_steps=None, **metrics)
        self._spent = dict.fromkeys(PARTS, 0.0)
        self._sums = dict.fromkeys(self._sums, 0.0)
        self._loss, self._steps, self._reported_at = [], 0, time.perf_counter()

    def _add(self, part: str, seconds: float) -> None:
        self._spent[part] += seconds
        self.totals[part] += seconds
