"""Curves: what a job reported under one name, as points to draw; the same for the terminal and for pictures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gangline.model import Metric

PLOTTED_POINTS = 2000
"""How many values of a curve are asked for: more than a picture is wide."""


class Against(StrEnum):
    """What runs along the horizontal axis."""

    STEP = "step"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points from left to right, and what to call them."""

    label: str
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.points[-1][1] if self.points else None


def curve_of(
    label: str, metrics: Sequence[Metric], against: Against = Against.TIME, start: float | None = None
) -> Curve:
    """Make a curve; time counts from ``start``, else from the first value. What is no number is left out."""
    finite = [metric for metric in metrics if math.isfinite(metric.value)]
    if against is Against.STEP:
        points = [(float(metric.step), metric.value) for metric in finite if metric.step is not None]
    else:
        begin = start if start is not None else min((metric.at for metric in finite), default=0.0)
        points = [(metric.at - begin, metric.value) for metric in finite]
    return Curve(label=label, points=tuple(sorted(points)))
