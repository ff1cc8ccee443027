"""What makes two metrics the same and which one is newer, the same in every store."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from gangline.errors import InvalidInputError
from gangline.model import Metric, ReplicaId, RoleName, Timestamp

NO_STEP = -(2**63)
"""Stands for "no step" where steps are compared or kept in a column: before every real step."""


class SeriesKey(NamedTuple):
    """One metric of one replica of a job, over time."""

    replica: ReplicaId
    name: str


class MetricAge(NamedTuple):
    """How new a value is within its series: by time, then by step, for clocks may be coarse."""

    at: Timestamp
    step: int


class MetricKey(NamedTuple):
    """What a repeated metric has in common with the one that is kept."""

    series: SeriesKey
    age: MetricAge


def series_of(metric: Metric) -> SeriesKey:
    """Return the series the metric belongs to."""
    return SeriesKey(metric.replica, metric.name)


def age_of(metric: Metric) -> MetricAge:
    """Return how new the metric is."""
    return MetricAge(metric.at, NO_STEP if metric.step is None else metric.step)


def key_of(metric: Metric) -> MetricKey:
    """Return the metric's identity within its job."""
    return MetricKey(series_of(metric), age_of(metric))


class MetricPosition(NamedTuple):
    """Where a metric stands among those of its job: oldest first, and the same order in every store."""

    at: Timestamp
    name: str
    replica: ReplicaId
    step: int


def order_of(metric: Metric) -> MetricPosition:
    """Return where the metric stands among those of its job."""
    at, step = age_of(metric)
    return MetricPosition(at, metric.name, metric.replica, step)


def start_of(since: Timestamp | None, after: MetricPosition | None) -> MetricPosition:
    """Return behind which position a page begins: not before a time, and behind what was read before."""
    first = MetricPosition(Timestamp(-math.inf if since is None else since), "", ReplicaId(RoleName(""), 0), NO_STEP)
    return first if after is None else max(first, after)


def page_of(metrics: Iterable[Metric], start: MetricPosition, *, name: str | None, limit: int) -> tuple[Metric, ...]:
    """Choose a page among all metrics of a job, for stores that hold them in memory."""
    wanted = (metric for metric in metrics if name in (None, metric.name) and order_of(metric) > start)
    return tuple(sorted(wanted, key=order_of)[:limit])


def position_to_cursor(position: MetricPosition) -> str:
    """Write where the next page begins, for a client to hand back."""
    return msgspec.json.encode(position).decode()


def cursor_to_position(cursor: str) -> MetricPosition:
    """Read a cursor; raises InvalidInputError for what is none."""
    try:
        return msgspec.json.decode(cursor, type=MetricPosition)
    except msgspec.DecodeError as error:
        expected = "the 'next' of the page before"
        raise InvalidInputError(f"'{cursor}' is not understood", field="after", expected=expected) from error
