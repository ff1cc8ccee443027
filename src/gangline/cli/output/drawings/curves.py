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
class Scale:
    """Which axes are logarithmic."""

    x: bool = False
    y: bool = False

    def place(self, point: tuple[float, float]) -> tuple[float, float] | None:
        """Where a point lies on the axes; None if it lies on none, as zero does on a logarithmic one."""
        if (self.x and point[0] <= 0) or (self.y and point[1] <= 0):
            return None
        return (math.log10(point[0]) if self.x else point[0], math.log10(point[1]) if self.y else point[1])

    def value(self, place: float, *, vertical: bool) -> float:
        """The number that stands at a place of an axis."""
        return float(10**place) if (self.y if vertical else self.x) else place


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points from left to right, and what to call them."""

    label: str
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.points[-1][1] if self.points else None


def scaled(curve: Curve, scale: Scale) -> Curve:
    """Return a curve with its points where they lie on the axes."""
    return Curve(label=curve.label, points=tuple(place for point in curve.points if (place := scale.place(point))))


def curve_of(
    label: str, metrics: Sequence[Metric], against: Against = Against.TIME, start: float | None = None
) -> Curve:
    """Make a curve; time counts from ``start``, else from the first value. What is not a number is left out."""
    finite = [metric for metric in metrics if math.isfinite(metric.value)]
    if against is Against.STEP:
        points = [(float(metric.step), metric.value) for metric in finite if metric.step is not None]
    else:
        begin = start if start is not None else min((metric.at for metric in finite), default=0.0)
        points = [(metric.at - begin, metric.value) for metric in finite]
    return Curve(label=label, points=tuple(sorted(points)))
