"""A job and everything that is known of its life. The lifecycle makes new ones; stores keep them whole."""

from dataclasses import dataclass, field
from enum import StrEnum

from gangline.model.clock import Timestamp
from gangline.model.identity import JobId, NodeName, ReplicaId, RoleName
from gangline.model.jobs.gang import Gang, GangId, GangReplica, ResumePoint
from gangline.model.jobs.phase import FINAL_PHASES, WAITING_PHASES, Phase
from gangline.model.jobs.spec import JobSpec
from gangline.model.jobs.speed import SpeedRecord
from gangline.model.jobs.transfer import DataVersion, TransferProgress


class ReplicaState(StrEnum):
    """Where one replica of the present attempt is."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    BACKING_OFF = "backing-off"
    """Failed, and will be started again in place at ``retry_at``."""
    LOST = "lost"
    """Its node or its keeper is gone; nobody knows its exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """One replica of the present attempt."""

    id: ReplicaId
    node: NodeName
    state: ReplicaState = ReplicaState.PENDING
    incarnation: int = 0
    restarts: int = 0
    """How often it was started in place because it failed; counted anew once it has run for a while."""
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    exit_code: int | None = None
    message: str = ""
    retry_at: Timestamp | None = None
    gpu_slot: int | None = None
    """Which of its node's shared GPUs it has a part of; equal numbers on one node are one device."""
    result: str = ""
    """What its program left in the file $GANGLINE_RESULT, a short text for whoever started the job; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEntry:
    """One step of a job's history: when it entered a phase, and why."""

    phase: Phase
    at: Timestamp
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One submitted job.

    ``attempt`` counts launches (0: never launched); ``failures`` counts the launches that failed, which is what
    ``policy.max_attempts`` limits. ``replicas`` describes the present or last attempt. ``holding`` says that
    machines are still taken, whatever the phase: it ends with the news that the gang is gone.
    ``incarnations`` is the last incarnation number given out in this attempt: every later start in place takes
    the next, so that no two starts of one replica are ever confused.
    ``scale`` is the wanted replica count per elastic role once a user has asked for one.
    ``history`` never loses an entry; its last one is the present phase.
    ``checkpoint_at`` is when its training code last said that it had saved its work, in whichever attempt.
    ``transfer`` is how far its data has come, while it is DOWNLOADING or STORING. ``inputs`` and ``outputs`` are what
    was fetched and stored, in the order of the spec.
    """

    id: JobId
    spec: JobSpec
    created_at: Timestamp
    history: tuple[PhaseEntry, ...]
    attempt: int = 0
    failures: int = 0
    replica_restarts: int = 0
    incarnations: int = 0
    replicas: tuple[ReplicaStatus, ...] = ()
    holding: bool = False
    scale: tuple[tuple[RoleName, int], ...] = ()
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    deadline_at: Timestamp | None = None
    retry_at: Timestamp | None = None
    checkpoint_at: Timestamp | None = None
    resume_from: ResumePoint | None = None
    transfer: TransferProgress | None = None
    inputs: tuple[DataVersion, ...] = ()
    outputs: tuple[DataVersion, ...] = ()
    image: str = ""
    """What the lead replica runs in, by its digest; empty where there are no images."""
    exit_code: int | None = None
    requeue: bool = False
    """While HALTING: whether the job goes on by itself (preempted) or rests until its user resumes it (halted)."""
    deleting: bool = False
    speed: SpeedRecord | None = None
    """What was measured of it, in every attempt; None if it never reported anything."""
    version: int = field(default=0, compare=False)
    """The store's counter for guarded writes; not part of what the job is."""

    @property
    def name(self) -> str:
        """The job's name, unique within its tenant."""
        return self.spec.name

    @property
    def phase(self) -> Phase:
        """Where the job is now."""
        return self.history[-1].phase

    @property
    def reason(self) -> str:
        """Why the job is where it is, in one CamelCase word."""
        return self.history[-1].reason

    @property
    def message(self) -> str:
        """Why the job is where it is, for a person."""
        return self.history[-1].message

    @property
    def finished(self) -> bool:
        """Whether nothing will ever run again for this job."""
        return self.phase in FINAL_PHASES

    @property
    def placeable(self) -> bool:
        """Whether the scheduler may give it machines (once ``retry_at`` has passed)."""
        return self.phase in WAITING_PHASES and not self.holding and not self.deleting

    @property
    def gang_id(self) -> GangId:
        """The present or last attempt."""
        return GangId(self.id, self.attempt)

    def replica(self, replica_id: ReplicaId) -> ReplicaStatus | None:
        """Return the status of one replica of the present attempt, if it is part of it."""
        return next((status for status in self.replicas if status.id == replica_id), None)

    def gang(self) -> Gang:
        """The order for the engine: every replica that should be running, or should have run, now."""
        return Gang(
            id=self.gang_id,
            spec=self.spec,
            resume_from=self.resume_from,
            replicas=tuple(
                GangReplica(
                    id=status.id,
                    node=status.node,
                    incarnation=status.incarnation,
                    started=status.state is not ReplicaState.PENDING,
                    gpu_slot=status.gpu_slot,
                )
                for status in self.replicas
            ),
        )
