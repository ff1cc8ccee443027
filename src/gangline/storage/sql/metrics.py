"""Metrics as rows. Every function runs in a thread that owns the session; writes, in a transaction."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from gangline.model import JobId, Metric, ReplicaId
from gangline.storage.metrics import NO_STEP, MetricPosition, SeriesKey, age_of, series_of
from gangline.storage.sql.database import Parameter, Row, Session

Item = TypeVar("Item")

_COLUMNS = "job_id, role, replica, name, at, step, value"
_CHUNK = 500
"""How many ids one statement names; databases limit the number of parameters."""


def add(session: Session, metrics: Sequence[Metric]) -> None:
    """Insert the metrics of jobs that are still there, and renew the latest values."""
    job_ids = sorted({metric.job_id for metric in metrics})
    kept_ids = {
        row[0]
        for chunk in _chunks(job_ids)
        for row in session.query(f"SELECT id FROM jobs WHERE id IN ({_marks(chunk)}){session.share_lock}", chunk)
    }
    kept = [metric for metric in metrics if metric.job_id in kept_ids]
    if not kept:
        return
    session.change_many(
        f"INSERT INTO metrics ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [_values(metric) for metric in kept],
    )
    session.change_many(
        f"INSERT INTO latest_metrics ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (job_id, role, replica, name) "
        "DO UPDATE SET at = excluded.at, step = excluded.step, value = excluded.value "
        "WHERE (excluded.at, excluded.step) > (latest_metrics.at, latest_metrics.step)",
        [_values(metric) for metric in _newest_of_each_series(kept)],
    )


def read(session: Session, job_id: JobId, start: MetricPosition, name: str | None, limit: int) -> tuple[Metric, ...]:
    """Read the oldest metrics of a job behind a position, in the order of the primary key."""
    at, metric, replica, step = start
    rows = session.query(
        f"SELECT {_COLUMNS} FROM metrics WHERE job_id = ? AND (at, name, role, replica, step) > (?, ?, ?, ?, ?) "
        f"{'' if name is None else 'AND name = ? '}ORDER BY at, name, role, replica, step LIMIT ?",
        [job_id, at, metric, replica.role, replica.index, step, *(() if name is None else (name,)), limit],
    )
    return tuple(_metric(row) for row in rows)


def latest(session: Session, job_ids: Sequence[JobId]) -> tuple[Metric, ...]:
    """Read the newest value of every series of these jobs."""
    return tuple(
        _metric(row)
        for chunk in _chunks(sorted(set(job_ids)))
        for row in session.query(
            f"SELECT {_COLUMNS} FROM latest_metrics WHERE job_id IN ({_marks(chunk)}) "
            "ORDER BY job_id, role, replica, name",
            chunk,
        )
    )


def _newest_of_each_series(metrics: Iterable[Metric]) -> Iterator[Metric]:
    """Return at most one metric per series, in one order for all writers, so that they never wait in a circle."""
    newest: dict[tuple[JobId, SeriesKey], Metric] = {}
    for metric in metrics:
        series = metric.job_id, series_of(metric)
        if age_of(metric) > age_of(newest.setdefault(series, metric)):
            newest[series] = metric
    return (newest[series] for series in sorted(newest))


def _values(metric: Metric) -> tuple[Parameter, ...]:
    return (
        metric.job_id,
        metric.replica.role,
        metric.replica.index,
        metric.name,
        metric.at,
        age_of(metric).step,
        None if math.isnan(metric.value) else metric.value,
    )


def _metric(row: Row) -> Metric:
    job_id, role, index, name, at, step, value = row
    return Metric(
        job_id=job_id,
        replica=ReplicaId(role, index),
        name=name,
        value=math.nan if value is None else value,
        step=None if step == NO_STEP else step,
        at=at,
    )


def _chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))


def _marks(items: Sequence[Item]) -> str:
    return ", ".join("?" * len(items))
