"""What can happen to a job. Facts in the past tense, each with the time it happened.

Requests come from operations, placements from the scheduler, time from the controller's timers, and the rest
from engines. Engine events name the attempt they speak of, so that late news of an earlier attempt is known
for what it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.model import JobId, NodeName, ReplicaId, RoleName, Timestamp
from gangline.model.jobs.speed import BatchRange, SpeedRecord, SpeedSample
from gangline.model.jobs.transfer import DataVersion, TransferProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened to a job."""

    job_id: JobId
    at: Timestamp


# Requests of users ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltRequested(Event):
    """A user wants the job to stop with its checkpoint and hold nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested(Event):
    """A user wants a halted job to go on; ``step`` is that of the checkpoint to go on from, if not the newest."""

    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    """A user wants the job to end for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRequested(Event):
    """A user wants another number of replicas in elastic roles."""

    scale: Mapping[RoleName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequested(Event):
    """A user, or the end of its time-to-live, wants the job and all it left to disappear."""


# Decisions of the scheduler ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlaced(Event):
    """The scheduler gave the whole gang its nodes, and replicas that share a GPU their part of one."""

    placement: Mapping[ReplicaId, NodeName]
    gpu_slots: Mapping[ReplicaId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangGrown(Event):
    """The scheduler gave a running gang more replicas."""

    added: Mapping[ReplicaId, NodeName]
    gpu_slots: Mapping[ReplicaId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangShrunk(Event):
    """The scheduler took replicas of elastic roles from a running gang."""

    removed: tuple[ReplicaId, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GangEvicted(Event):
    """The scheduler needs the machines for somebody else; the gang halts and queues again."""

    reason: str


# The passage of time -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlinePassed(Event):
    """The job ran longer than its policy allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffElapsed(Event):
    """A replica that failed may be started again in place."""


# News from engines ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GangEvent(Event):
    """News of one attempt."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFound(GangEvent):
    """A gang exists that was placed and started before that was on record; it matters if it is the next attempt."""

    placement: Mapping[ReplicaId, NodeName]


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadStarted(GangEvent):
    """The machines are there and the inputs are being fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDelayed(GangEvent):
    """A replica could not start yet, for a reason that should pass; the engine tries again in the same place."""

    replica: ReplicaId
    message: str
    incarnation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaNoticed(GangEvent):
    """A running replica has stalled or falls behind, as the message says; an empty one says that it no longer does."""

    replica: ReplicaId
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStalled(GangEvent):
    """A replica has stalled, and the policy says that this is not only to be told."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDiverged(GangEvent):
    """A metric that the policy watches is NaN or infinite, as the message says."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStarted(GangEvent):
    """A replica's process runs; ``image`` is what it runs in, by its digest, where that is known."""

    replica: ReplicaId
    incarnation: int = 0
    image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaExited(GangEvent):
    """A replica's process ended by itself or by a signal; a signal N is exit code 128 + N.

    ``result`` is what it left for whoever started its job.
    """

    replica: ReplicaId
    exit_code: int
    incarnation: int = 0
    message: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLost(GangEvent):
    """A replica is gone and nobody saw it exit: its node, its pod or its keeper disappeared.

    ``in_place``: its place is still there, so that it may be started again alone.
    """

    replica: ReplicaId
    incarnation: int = 0
    message: str = ""
    in_place: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Event):
    """Training code says that it has saved its work: whatever happens now, it goes on from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedMeasured(Event):
    """Training code went so fast with the machines it had; what it did not report is None."""

    sample: SpeedSample
    batches: BatchRange | None = None
    noise: float | None = None
    progress: float | None = None
    restart_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRecalled(Event):
    """Earlier runs of the same code were measured: what a new one may expect until it has measured itself."""

    speed: SpeedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReported(GangEvent):
    """A mover said how far it is, and what it has moved: inputs, or results if it is ``storing``."""

    storing: bool = False
    progress: TransferProgress | None = None
    moved: tuple[DataVersion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsStored(GangEvent):
    """The results of a successful gang lie where the job wants them; ``note`` tells what could not be stored."""

    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFailed(GangEvent):
    """The engine could not start the gang or move its data.

    ``permanent``: another try would end the same. ``blameless``: nothing is wrong with the job, another try is free.
    """

    reason: str
    message: str
    permanent: bool = False
    blameless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStopped(GangEvent):
    """Nothing of this attempt runs any more and everything it held is free."""
