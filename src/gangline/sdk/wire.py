"""The service's answers as values of the model.

The structs name what this client reads of the wire; a newer service may send more. They are not shared with
the service: a client must understand the wire, not the code behind it, and the contract suite proves that it does.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeVar

import msgspec

from gangline.dialects.native import job_from_plain
from gangline.model import (
    Job,
    JobId,
    Metric,
    NodeName,
    Phase,
    PhaseEntry,
    ReplicaId,
    ReplicaState,
    ReplicaStatus,
    RoleName,
    Timestamp,
)
from gangline.sdk.values import Change, Excluded, Explanation, JournalRecord, LogLine, NodeUsage, ReplicaUsage, Usage

T = TypeVar("T")


class _Replica(msgspec.Struct, kw_only=True):
    replica: str
    node: NodeName
    state: ReplicaState
    incarnation: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    message: str = ""
    retry_at: datetime | None = None


class _Phase(msgspec.Struct, kw_only=True):
    phase: Phase
    at: datetime
    reason: str
    message: str = ""


class _Status(msgspec.Struct, kw_only=True):
    id: JobId
    created_at: datetime
    history: list[_Phase]
    attempt: int = 0
    failures: int = 0
    replica_restarts: int = 0
    replicas: list[_Replica] = []
    holding: bool = False
    scale: dict[RoleName, int] = {}
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    retry_at: datetime | None = None
    exit_code: int | None = None
    requeue: bool = False
    deleting: bool = False
    version: int = 0


class _Job(msgspec.Struct, kw_only=True):
    metadata: dict[str, object]
    spec: dict[str, object]
    status: _Status


class _JobList(msgspec.Struct, kw_only=True):
    jobs: list[_Job]
    next: str | None = None


class _Change(msgspec.Struct, kw_only=True):
    id: JobId
    job: _Job | None = None


class _Record(msgspec.Struct, kw_only=True):
    number: int
    at: datetime
    reason: str
    message: str
    phase: Phase
    replica: str | None = None


class _LogLine(msgspec.Struct, kw_only=True):
    replica: str
    attempt: int
    at: datetime
    stream: str
    text: str


class _Metric(msgspec.Struct, kw_only=True):
    job_id: JobId
    replica: str
    name: str
    value: float | None
    step: int | None
    at: datetime


class _ReplicaUsage(msgspec.Struct, kw_only=True):
    job_id: JobId
    replica: str
    node: NodeName
    cpu_millis: int
    memory_mib: int
    gpus: tuple[str, ...] = ()


class _Usage(msgspec.Struct, kw_only=True):
    nodes: tuple[NodeUsage, ...]
    replicas: tuple[_ReplicaUsage, ...]


class _Facts(msgspec.Struct, kw_only=True):
    constraint: str
    queue: str | None = None
    nodes: int = 0
    excluded: tuple[Excluded, ...] = ()
    role: str | None = None
    wanted: int = 0
    possible: int = 0
    missing: dict[str, int] = {}
    holders: tuple[JobId, ...] = ()
    behind: JobId | None = None
    helps: tuple[str, ...] = ()
    predicted_start: datetime | None = None


class _Reason(msgspec.Struct, kw_only=True):
    sentences: tuple[str, ...]
    facts: _Facts | None


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """Make a decoder for bodies that the model or a value of this package describes already."""
    return msgspec.json.Decoder(kind).decode


_read_job, _read_jobs, _read_change = reader(_Job), reader(_JobList), reader(_Change)
_read_records, _read_line = reader(list[_Record]), reader(_LogLine)
_read_metrics, _read_usage = reader(list[_Metric]), reader(_Usage)
_read_reason = reader(_Reason)


def job(body: bytes) -> Job:
    """Read one job."""
    return _job(_read_job(body))


def jobs(body: bytes) -> tuple[tuple[Job, ...], str | None]:
    """Read a page of jobs and the cursor of the next one."""
    page = _read_jobs(body)
    return tuple(_job(document) for document in page.jobs), page.next


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


def _job(document: _Job) -> Job:
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
        exit_code=status.exit_code,
        requeue=status.requeue,
        deleting=status.deleting,
        version=status.version,
    )


def _replica(replica: _Replica) -> ReplicaStatus:
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
