"""What the client returns besides the values of the model."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.model import Job, JobId, Node, NodeName, Phase, ReplicaId, Resources, Timestamp

CODE_PREFIX = "sha256:"
"""How a job names code that the service has; anything else is a directory of the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of one replica's output; ``stream`` is stdout or stderr."""

    replica: ReplicaId
    attempt: int
    at: Timestamp
    stream: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """One line of a job's journal; ``number`` orders it."""

    number: int
    at: Timestamp
    reason: str
    message: str
    phase: Phase
    replica: ReplicaId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A job as it is now; ``job`` None means that it is gone."""

    job_id: JobId
    job: Job | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """How many nodes one rule excludes, counted on its own."""

    rule: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job waits, for a person (``sentences``) and for a program (the rest).

    ``constraint`` is what holds it back first; None means that no scheduling cycle has looked at it yet.
    """

    sentences: tuple[str, ...]
    constraint: str | None = None
    queue: str | None = None
    nodes: int = 0
    excluded: tuple[Excluded, ...] = ()
    role: str | None = None
    wanted: int = 0
    possible: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)
    holders: tuple[JobId, ...] = ()
    behind: JobId | None = None
    helps: tuple[str, ...] = ()
    predicted_start_at: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaUsage:
    """What one running replica uses now."""

    job_id: JobId
    replica: ReplicaId
    node: NodeName
    cpu_millis: int
    memory_mib: int
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """What is used of one node now, by whomever."""

    node: NodeName
    used: Resources = field(default_factory=Resources)
    gpu_percent: Mapping[str, int] = field(default_factory=dict)
    gpu_memory_mib: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """A moment's measurement of everything."""

    nodes: tuple[NodeUsage, ...]
    replicas: tuple[ReplicaUsage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTop:
    """A node, what is used of it, and how many replicas run there."""

    node: Node
    usage: NodeUsage
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTop:
    """A running job and what its replicas use together."""

    job: Job
    replicas: tuple[ReplicaUsage, ...]

    @property
    def cpu_millis(self) -> int:
        """CPU time per time, in thousandths of a core."""
        return sum(replica.cpu_millis for replica in self.replicas)

    @property
    def memory_mib(self) -> int:
        """Memory in use."""
        return sum(replica.memory_mib for replica in self.replicas)
