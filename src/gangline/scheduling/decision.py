"""What a scheduling cycle decided, as values. The controller carries them out; nothing here does."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.model import JobId, NodeName, ReplicaId, Timestamp
from gangline.model.explanation import Explanation
from gangline.scheduling.cycle_memory import CycleMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Launch a whole gang. ``gpu_slots`` says which GPU of its node each replica shares, of those that share one."""

    job_id: JobId
    placement: Mapping[ReplicaId, NodeName]
    gpu_slots: Mapping[ReplicaId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow:
    """Give a running elastic gang more replicas."""

    job_id: JobId
    added: Mapping[ReplicaId, NodeName]
    gpu_slots: Mapping[ReplicaId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """Take replicas from a running elastic gang; it keeps at least its minimum."""

    job_id: JobId
    removed: tuple[ReplicaId, ...]
    beneficiary: JobId | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Halt a whole gang with its checkpoint and queue it again."""

    job_id: JobId
    beneficiary: JobId | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Everything one cycle decided.

    ``explanations`` has one entry per job that waits, in the order of the line. ``wake_at`` is when time alone makes
    another cycle worthwhile. ``memory`` is to be handed to the next snapshot.
    """

    starts: tuple[Start, ...] = ()
    grows: tuple[Grow, ...] = ()
    shrinks: tuple[Shrink, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    explanations: Mapping[JobId, Explanation] = field(default_factory=dict)
    wake_at: Timestamp | None = None
    memory: CycleMemory = field(default_factory=CycleMemory)
