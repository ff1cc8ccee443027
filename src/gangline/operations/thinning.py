"""Fewer values that draw the same curve: of each stretch of time, the lowest and the highest.

Values come one by one and are never all held: a job may have reported millions.
"""

import math
from collections.abc import Iterable

from gangline.model import Metric
from gangline.storage.metrics import SeriesKey, order_of, series_of

_Stretch = tuple[Metric, Metric]
"""The lowest and the highest value of some that followed each other."""


class Thinner:
    """Keeps at most this many values of one series, its first and its last among them."""

    def __init__(self, most: int) -> None:
        self._room = max(1, (most - 2) // 4) * 2  # even, so that halving leaves whole stretches
        self._stretches: list[_Stretch] = []
        self._width = 1
        """How many values a stretch holds; it doubles whenever there are too many stretches."""
        self._filled = 0
        self._first: Metric | None = None
        self._last: Metric | None = None

    def add(self, metric: Metric) -> None:
        """Take the next value in."""
        self._first, self._last = self._first or metric, metric
        if self._filled == 0:
            if len(self._stretches) == self._room:
                self._halve()
            self._stretches.append((metric, metric))
        else:
            self._stretches[-1] = _joined(self._stretches[-1], (metric, metric))
        self._filled = (self._filled + 1) % self._width

    def kept(self) -> set[Metric]:
        """Return what is left."""
        ends = {metric for metric in (self._first, self._last) if metric is not None}
        return ends | {metric for stretch in self._stretches for metric in stretch}

    def _halve(self) -> None:
        pairs = [self._stretches[start : start + 2] for start in range(0, len(self._stretches), 2)]
        self._stretches = [_joined(pair[0], pair[-1]) for pair in pairs]
        self._width *= 2


class ThinnedSeries:
    """Thins every series of a job by itself."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._series: dict[SeriesKey, Thinner] = {}
        self.total = 0

    def add(self, metrics: Iterable[Metric]) -> None:
        """Take values in, oldest first."""
        for metric in metrics:
            self.total += 1
            self._series.setdefault(series_of(metric), Thinner(self._most)).add(metric)

    def kept(self) -> tuple[Metric, ...]:
        """Return what is left of all series, oldest first."""
        return tuple(sorted((metric for series in self._series.values() for metric in series.kept()), key=order_of))


def _joined(one: _Stretch, other: _Stretch) -> _Stretch:
    # What is not a number counts only where there is nothing else.
    low = min(one[0], other[0], key=lambda metric: math.inf if math.isnan(metric.value) else metric.value)
    high = max(one[1], other[1], key=lambda metric: -math.inf if math.isnan(metric.value) else metric.value)
    return low, high
