"""The service's answers as values of the model; answers.py says what they look like on the wire."""

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeVar

import msgspec

from gangline.dialects.native import job_from_plain
from gangline.errors import UnreachableError
from gangline.model import (
    Job,
    Metric,
    PhaseEntry,
    ReplicaId,
    ReplicaStatus,
    Timestamp,
)
from gangline.sdk.answers import (
    ChangeAnswer,
    JobAnswer,
    JobListAnswer,
    LogLineAnswer,
    MetricAnswer,
    ReasonAnswer,
    RecordAnswer,
    ReplicaAnswer,
    UsageAnswer,
)
from gangline.sdk.values import Change, Explanation, JournalRecord, LogLine, ReplicaUsage, Usage

T = TypeVar("T")


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """Make a decoder; an answer it cannot read comes from something that is no service, or from one too new."""
    decode = msgspec.json.Decoder(kind).decode

    def read(body: bytes) -> T:
        try:
            return decode(body)
        except msgspec.DecodeError as error:
            raise UnreachableError(
                f"the answer is not understood ({error}); compare with 'gangline version'"
            ) from error

    return read


_read_job, _read_jobs, _read_change = reader(JobAnswer), reader(JobListAnswer), reader(ChangeAnswer)
_read_all_jobs = reader(list[JobAnswer])
_read_records, _read_line = reader(list[RecordAnswer]), reader(LogLineAnswer)
_read_metrics, _read_usage = reader(list[MetricAnswer]), reader(UsageAnswer)
_read_reason = reader(ReasonAnswer)


def job(body: bytes) -> Job:
    """Read one job."""
    return _job(_read_job(body))


def jobs(body: bytes) -> tuple[tuple[Job, ...], str | None]:
    """Read a page of jobs and the cursor of the next one."""
    page = _read_jobs(body)
    return tuple(_job(document) for document in page.jobs), page.next


def all_jobs(body: bytes) -> tuple[Job, ...]:
    """Read jobs that come in one piece."""
    return tuple(_job(document) for document in _read_all_jobs(body))


def change(line: bytes) -> Change:
    """Read a change."""
    found = _read_change(line)
    return Change(job_id=found.id, job=None if found.job is None else _job(found.job))


def records(body: bytes) -> tuple[JournalRecord, ...]:
    """Read a journal."""
    return tuple(
        JournalRecord(
            number=record.number,
            at=_at(record.at),
            reason=record.reason,
            message=record.message,
            phase=record.phase,
            replica=None if record.replica is None else _replica_id(record.replica),
        )
        for record in _read_records(body)
    )


def log_line(line: bytes) -> LogLine:
    """Read a line of output."""
    found = _read_line(line)
    return LogLine(
        replica=_replica_id(found.replica),
        attempt=found.attempt,
        at=_at(found.at),
        stream=found.stream,
        text=found.text,
    )


def metrics(body: bytes) -> tuple[Metric, ...]:
    """Read metrics."""
    return tuple(
        Metric(
            job_id=metric.job_id,
            replica=_replica_id(metric.replica),
            name=metric.name,
            value=math.nan if metric.value is None else metric.value,
            step=metric.step,
            at=_at(metric.at),
        )
        for metric in _read_metrics(body)
    )


def explanation(body: bytes) -> Explanation:
    """Read why a job waits."""
    reason = _read_reason(body)
    why = reason.facts
    if why is None:
        return Explanation(sentences=reason.sentences)
    return Explanation(
        sentences=reason.sentences,
        constraint=why.constraint,
        queue=why.queue,
        nodes=why.nodes,
        excluded=why.excluded,
        role=why.role,
        wanted=why.wanted,
        possible=why.possible,
        missing=why.missing,
        holders=why.holders,
        behind=why.behind,
        helps=why.helps,
        predicted_start_at=_at_or_none(why.predicted_start),
    )


def usage(body: bytes) -> Usage:
    """Read a measurement."""
    found = _read_usage(body)
    return Usage(
        nodes=found.nodes,
        replicas=tuple(
            ReplicaUsage(
                job_id=replica.job_id,
                replica=_replica_id(replica.replica),
                node=replica.node,
                cpu_millis=replica.cpu_millis,
                memory_mib=replica.memory_mib,
                gpus=replica.gpus,
            )
            for replica in found.replicas
        ),
    )


def _job(document: JobAnswer) -> Job:
    status = document.status
    return Job(
        id=status.id,
        spec=job_from_plain({"metadata": document.metadata, "spec": document.spec}),
        created_at=_at(status.created_at),
        history=tuple(
            PhaseEntry(phase=entry.phase, at=_at(entry.at), reason=entry.reason, message=entry.message)
            for entry in status.history
        ),
        attempt=status.attempt,
        failures=status.failures,
        replica_restarts=status.replica_restarts,
        replicas=tuple(_replica(replica) for replica in status.replicas),
        holding=status.holding,
        scale=tuple(status.scale.items()),
        started_at=_at_or_none(status.started_at),
        finished_at=_at_or_none(status.finished_at),
        deadline_at=_at_or_none(status.deadline_at),
        retry_at=_at_or_none(status.retry_at),
        checkpoint_at=_at_or_none(status.checkpoint_at),
        exit_code=status.exit_code,
        requeue=status.requeue,
        deleting=status.deleting,
        version=status.version,
    )


def _replica(replica: ReplicaAnswer) -> ReplicaStatus:
    return ReplicaStatus(
        id=_replica_id(replica.replica),
        node=replica.node,
        state=replica.state,
        incarnation=replica.incarnation,
        started_at=_at_or_none(replica.started_at),
        finished_at=_at_or_none(replica.finished_at),
        exit_code=replica.exit_code,
        message=replica.message,
        retry_at=_at_or_none(replica.retry_at),
        gpu_slot=replica.gpu_slot,
    )


@lru_cache(maxsize=4096)
def _replica_id(text: str) -> ReplicaId:
    """Read a replica's name; a stream of output repeats few of them very often."""
    return ReplicaId.parse(text)


def _at(moment: datetime) -> Timestamp:
    return Timestamp(moment.timestamp())


def _at_or_none(moment: datetime | None) -> Timestamp | None:
    return None if moment is None else _at(moment)


def iso(at: Timestamp) -> str:
    """Write a time for the service."""
    return datetime.fromtimestamp(at, UTC).isoformat()


def deadline_of(timeout: float | None) -> float | None:
    """Return when a wait of that length ends, on the monotonic clock."""
    return None if timeout is None else time.monotonic() + timeout
