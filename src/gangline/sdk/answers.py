"""What this client reads of the wire, as msgspec structs; a newer service may send more.

They are not shared with the service: a client must understand the wire, not the code behind it, and the contract
suite proves that it does.
"""

from datetime import datetime

import msgspec

from gangline.model import JobId, NodeName, Phase, ReplicaState, RoleName
from gangline.sdk.values import Excluded, NodeUsage


class ReplicaAnswer(msgspec.Struct, kw_only=True):
    """One replica of the present attempt."""

    replica: str
    node: NodeName
    state: ReplicaState
    incarnation: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    message: str = ""
    retry_at: datetime | None = None
    gpu_slot: int | None = None


class PhaseAnswer(msgspec.Struct, kw_only=True):
    """One step of a job's history."""

    phase: Phase
    at: datetime
    reason: str
    message: str = ""


class StatusAnswer(msgspec.Struct, kw_only=True):
    """Everything that is known of a job's life."""

    id: JobId
    created_at: datetime
    history: list[PhaseAnswer]
    attempt: int = 0
    failures: int = 0
    replica_restarts: int = 0
    replicas: list[ReplicaAnswer] = []
    holding: bool = False
    scale: dict[RoleName, int] = {}
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    retry_at: datetime | None = None
    checkpoint_at: datetime | None = None
    exit_code: int | None = None
    requeue: bool = False
    deleting: bool = False
    version: int = 0


class JobAnswer(msgspec.Struct, kw_only=True):
    """A job file and its status."""

    metadata: dict[str, object]
    spec: dict[str, object]
    status: StatusAnswer


class JobListAnswer(msgspec.Struct, kw_only=True):
    """One page of jobs."""

    jobs: list[JobAnswer]
    next: str | None = None


class ChangeAnswer(msgspec.Struct, kw_only=True):
    """A job as it is now, or nothing once it is gone."""

    id: JobId
    job: JobAnswer | None = None


class RecordAnswer(msgspec.Struct, kw_only=True):
    """One line of a journal."""

    number: int
    at: datetime
    reason: str
    message: str
    phase: Phase
    replica: str | None = None


class LogLineAnswer(msgspec.Struct, kw_only=True):
    """One line of output."""

    replica: str
    attempt: int
    at: datetime
    stream: str
    text: str


class MetricAnswer(msgspec.Struct, kw_only=True):
    """One reported number; null if it is not finite."""

    job_id: JobId
    replica: str
    name: str
    value: float | None
    step: int | None
    at: datetime


class ReplicaUsageAnswer(msgspec.Struct, kw_only=True):
    """What one replica uses."""

    job_id: JobId
    replica: str
    node: NodeName
    cpu_millis: int
    memory_mib: int
    gpus: tuple[str, ...] = ()


class UsageAnswer(msgspec.Struct, kw_only=True):
    """A moment's measurement."""

    nodes: tuple[NodeUsage, ...]
    replicas: tuple[ReplicaUsageAnswer, ...]


class FactsAnswer(msgspec.Struct, kw_only=True):
    """What the scheduler knows about why a job waits."""

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


class ReasonAnswer(msgspec.Struct, kw_only=True):
    """Sentences, and the facts they are made of."""

    sentences: tuple[str, ...]
    facts: FactsAnswer | None
