"""What is seen of jobs and machines: pages of lists, lines of output and of the journal, and what is in use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gangline.model.clock import Timestamp
from gangline.model.identity import JobId, NodeName, ReplicaId
from gangline.model.jobs.job import Job
from gangline.model.jobs.metric import Metric
from gangline.model.jobs.phase import Phase
from gangline.model.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Some jobs, newest first, and the cursor of the next page if there is one."""

    jobs: tuple[Job, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPage:
    """Some of what a job reported, oldest first, and the cursor of the next page if there is one.

    ``total`` is how many values there were where they were thinned out. ``complete`` is False where the store has given
    older values up.
    """

    metrics: tuple[Metric, ...]
    next: str | None = None
    total: int | None = None
    complete: bool = True


class Stream(StrEnum):
    """Which output of a replica a line was written to."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of one replica's output. Bytes that are not UTF-8 arrive as replacement characters."""

    replica: ReplicaId
    attempt: int
    at: Timestamp
    stream: Stream
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """One line of a job's journal: something that happened, for a person to read later.

    ``number`` orders the journal of a whole store; the store assigns it (0 before that).
    """

    job_id: JobId
    at: Timestamp
    reason: str
    message: str
    phase: Phase
    replica: ReplicaId | None = None
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaUsage:
    """What one running replica uses now. ``gpus`` are the device ids it was given."""

    job_id: JobId
    replica: ReplicaId
    node: NodeName
    cpu_millis: int
    memory_mib: int
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """What is used of one node now, by whomever. GPU figures: percent of each device's time, MiB of its memory."""

    node: NodeName
    used: Resources = field(default_factory=Resources)
    gpu_percent: Mapping[str, int] = field(default_factory=dict)
    gpu_memory_mib: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """A moment's measurement of everything."""

    nodes: tuple[NodeUsage, ...]
    replicas: tuple[ReplicaUsage, ...]
