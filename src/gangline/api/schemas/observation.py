"""Journal records, log lines and metrics on the wire."""

from datetime import datetime

import msgspec

from gangline.api.schemas.moment import moment
from gangline.engines.interface import LogLine
from gangline.model import Metric
from gangline.storage.interface import Record


class RecordSchema(msgspec.Struct, kw_only=True):
    """One line of a job's journal."""

    number: int
    at: datetime
    reason: str
    message: str
    phase: str
    replica: str | None


class LogLineSchema(msgspec.Struct, kw_only=True):
    """One line of a replica's output."""

    replica: str
    attempt: int
    at: datetime
    stream: str
    text: str


class MetricSchema(msgspec.Struct, kw_only=True):
    """One reported number; a value that is not finite travels as null."""

    job_id: str
    replica: str
    name: str
    value: float | None
    step: int | None
    at: datetime


def record_to_schema(record: Record) -> RecordSchema:
    """Write a journal record."""
    return RecordSchema(
        number=record.number,
        at=moment(record.at),
        reason=record.reason,
        message=record.message,
        phase=record.phase.value,
        replica=None if record.replica is None else str(record.replica),
    )


def line_to_schema(line: LogLine) -> LogLineSchema:
    """Write a log line."""
    return LogLineSchema(
        replica=str(line.replica),
        attempt=line.attempt,
        at=moment(line.at),
        stream=line.stream.value,
        text=line.text,
    )


def metric_to_schema(metric: Metric) -> MetricSchema:
    """Write a metric."""
    return MetricSchema(
        job_id=metric.job_id,
        replica=str(metric.replica),
        name=metric.name,
        value=metric.value,
        step=metric.step,
        at=moment(metric.at),
    )
