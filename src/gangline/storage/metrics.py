"""What makes two metrics the same and which one is newer, the same in every store."""

from typing import NamedTuple

from gangline.model import Metric, ReplicaId, Timestamp

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


def order_of(metric: Metric) -> tuple[Timestamp, str, ReplicaId, int]:
    """Return the sort key of a job's metrics: oldest first, and the same order in every store."""
    at, step = age_of(metric)
    return at, metric.name, metric.replica, step
