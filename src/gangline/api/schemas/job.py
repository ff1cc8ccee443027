"""Jobs on the wire: the job file that would submit the job again, and its status."""

from datetime import datetime

import msgspec

from gangline.api.schemas.moment import moment, moment_or_none
from gangline.dialects.native import job_to_plain
from gangline.model import Job, PhaseEntry, ReplicaStatus
from gangline.operations import Change
from gangline.storage.interface import JobPage


class ReplicaSchema(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One replica of the present attempt."""

    replica: str
    node: str
    state: str
    incarnation: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    message: str = ""
    retry_at: datetime | None = None
    gpu_slot: int | None = None


class PhaseSchema(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One step of a job's history."""

    phase: str
    at: datetime
    reason: str
    message: str = ""


class StatusSchema(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything that is known of a job's life."""

    id: str
    phase: str
    reason: str
    created_at: datetime
    history: list[PhaseSchema]
    message: str = ""
    attempt: int = 0
    failures: int = 0
    replica_restarts: int = 0
    replicas: list[ReplicaSchema] = []
    holding: bool = False
    scale: dict[str, int] = {}
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    retry_at: datetime | None = None
    checkpoint_at: datetime | None = None
    exit_code: int | None = None
    requeue: bool = False
    deleting: bool = False
    version: int = 0


class JobSchema(msgspec.Struct, kw_only=True, rename="camel"):
    """A job: ``metadata`` and ``spec`` are those of its job file."""

    api_version: object
    kind: object
    metadata: object
    spec: object
    status: StatusSchema


class JobListSchema(msgspec.Struct, kw_only=True):
    """One page of jobs; ``next`` is the cursor of the page after it."""

    jobs: list[JobSchema]
    next: str | None = None


class ChangeSchema(msgspec.Struct, kw_only=True):
    """A job as it is now; no job means that it is gone."""

    id: str
    job: JobSchema | None


class PrunedSchema(msgspec.Struct, kw_only=True):
    """The names of the jobs that are being deleted."""

    names: list[str]


class KilledSchema(msgspec.Struct, kw_only=True):
    """Whether a replica was killed, or had ended by itself."""

    killed: bool


def job_to_schema(job: Job) -> JobSchema:
    """Write a job."""
    plain = job_to_plain(job.spec)
    return JobSchema(
        api_version=plain["apiVersion"],
        kind=plain["kind"],
        metadata=plain["metadata"],
        spec=plain["spec"],
        status=_status(job),
    )


def page_to_schema(page: JobPage) -> JobListSchema:
    """Write a page of jobs."""
    return JobListSchema(jobs=[job_to_schema(job) for job in page.jobs], next=page.next)


def change_to_schema(change: Change) -> ChangeSchema:
    """Write a change."""
    return ChangeSchema(id=change.job_id, job=None if change.job is None else job_to_schema(change.job))


def _status(job: Job) -> StatusSchema:
    return StatusSchema(
        id=job.id,
        phase=job.phase.value,
        reason=job.reason,
        message=job.message,
        created_at=moment(job.created_at),
        history=[_phase(entry) for entry in job.history],
        attempt=job.attempt,
        failures=job.failures,
        replica_restarts=job.replica_restarts,
        replicas=[_replica(status) for status in job.replicas],
        holding=job.holding,
        scale=dict(job.scale),
        started_at=moment_or_none(job.started_at),
        finished_at=moment_or_none(job.finished_at),
        deadline_at=moment_or_none(job.deadline_at),
        retry_at=moment_or_none(job.retry_at),
        checkpoint_at=moment_or_none(job.checkpoint_at),
        exit_code=job.exit_code,
        requeue=job.requeue,
        deleting=job.deleting,
        version=job.version,
    )


def _phase(entry: PhaseEntry) -> PhaseSchema:
    return PhaseSchema(phase=entry.phase.value, at=moment(entry.at), reason=entry.reason, message=entry.message)


def _replica(status: ReplicaStatus) -> ReplicaSchema:
    return ReplicaSchema(
        replica=str(status.id),
        node=status.node,
        state=status.state.value,
        incarnation=status.incarnation,
        started_at=moment_or_none(status.started_at),
        finished_at=moment_or_none(status.finished_at),
        exit_code=status.exit_code,
        message=status.message,
        retry_at=moment_or_none(status.retry_at),
        gpu_slot=status.gpu_slot,
    )
