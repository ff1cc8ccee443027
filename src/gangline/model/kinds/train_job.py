"""A TrainJob of Kubeflow Trainer and the runtimes it names: their documents as users wrote them, and its progress."""

from dataclasses import dataclass

from gangline.model.clock import Timestamp
from gangline.model.identity import DEFAULT_TENANT, Tenant, check_name
from gangline.model.record import NoStatus, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJobSpec:
    """A TrainJob of ``trainer.kubeflow.org/v1alpha1``; ``gangline.dialects.trainer`` reads what its fields mean."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    manifest_json: str

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRuntimeSpec:
    """What TrainJobs of one tenant may be run with."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    manifest_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTrainingRuntimeSpec:
    """What everybody's TrainJobs may be run with."""

    name: str
    manifest_json: str

    @property
    def tenant(self) -> None:
        """It is nobody's own."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJobPart:
    """How the replicas of one role are doing, all of them together: ``state`` is a field of Trainer's jobsStatus."""

    name: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerProgress:
    """What the training code has reported, by its newest values."""

    share: float | None = None
    """How much of the steps is done, of 1."""
    remaining_seconds: int | None = None
    metrics: tuple[tuple[str, float], ...] = ()
    at: Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJobEnd:
    """How a TrainJob ended, and why."""

    complete: bool
    reason: str
    message: str
    at: Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJobStatus:
    """How far a TrainJob has come."""

    begun: bool = False
    """Whether its job was made."""
    suspended_at: Timestamp | None = None
    """Since when it rests because its spec says so."""
    waits_for: str = ""
    """What is missing before its job can be made."""
    parts: tuple[TrainJobPart, ...] = ()
    progress: TrainerProgress | None = None
    end: TrainJobEnd | None = None

    @property
    def state(self) -> str:
        """Where it is, in one word."""
        if self.end is not None:
            return "complete" if self.end.complete else "failed"
        if self.suspended_at is not None:
            return "suspended"
        return "running" if any(each.state == "ready" for each in self.parts) else "created"

    @property
    def settled(self) -> bool:
        """Whether nothing will ever be done for it again."""
        return self.end is not None


TrainJob = Record[TrainJobSpec, TrainJobStatus]
TrainingRuntime = Record[TrainingRuntimeSpec, NoStatus]
ClusterTrainingRuntime = Record[ClusterTrainingRuntimeSpec, NoStatus]
