"""Fewer values that draw the same curve."""

import math
from itertools import pairwise

import pytest

from gangline.model import JobId, Metric, ReplicaId, RoleName, Timestamp
from gangline.operations.thinning import ThinnedSeries
from gangline.storage.metrics import order_of


def curve(values: list[float], name: str = "loss") -> list[Metric]:
    lead = ReplicaId(RoleName("worker"), 0)
    return [
        Metric(job_id=JobId("job"), replica=lead, name=name, value=value, step=step, at=Timestamp(float(step)))
        for step, value in enumerate(values)
    ]


def thinned(metrics: list[Metric], most: int) -> tuple[Metric, ...]:
    series = ThinnedSeries(most)
    series.add(metrics)
    assert series.total == len(metrics)
    return series.kept()


def test_a_short_series_stays_as_it_is() -> None:
    metrics = curve([3.0, 1.0, 2.0])
    assert thinned(metrics, 100) == tuple(metrics)
    assert thinned([], 100) == ()


@pytest.mark.parametrize("count", [99, 100, 101, 1000, 12_345])
def test_a_long_one_keeps_its_ends_and_every_spike_and_becomes_short(count: int) -> None:
    values = [math.sin(step / 50) for step in range(count)]
    values[count // 3], values[count // 2] = 7.0, -7.0
    metrics = curve(values)
    kept = thinned(metrics, 100)
    assert len(kept) <= 100
    assert len(kept) >= min(count, 100) // 4
    assert list(kept) == sorted(kept, key=order_of)
    assert {metrics[0], metrics[-1], metrics[count // 3], metrics[count // 2]} <= set(kept)
    steps = [metric.step or 0 for metric in kept]
    assert max(after - before for before, after in pairwise(steps)) < count / 8


def test_what_is_not_a_number_hides_no_number() -> None:
    metrics = curve([math.nan if step % 2 else 1.0 for step in range(1000)])
    assert sum(1 for metric in thinned(metrics, 40) if math.isnan(metric.value)) <= 1  # the last one


def test_each_series_is_thinned_by_itself() -> None:
    metrics = sorted([*curve([1.0] * 500), *curve([2.0, 3.0], "accuracy")], key=order_of)
    kept = thinned(metrics, 50)
    assert [metric.value for metric in kept if metric.name == "accuracy"] == [2.0, 3.0]
    assert sum(1 for metric in kept if metric.name == "loss") <= 50
