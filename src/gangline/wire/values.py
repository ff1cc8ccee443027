"""What a service answers besides the values of the model. The SDK hands these to its users as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.model import (
    Job,
    JobId,
    JobPage,
    JournalRecord,
    LogLine,
    MetricPage,
    Node,
    Phase,
    Queue,
    Timestamp,
    Usage,
)
from gangline.model.sweep import SweepId, SweepSpec, SweepState


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A job as it is now; ``job`` None means that it is gone."""

    job_id: JobId
    job: Job | None = None


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
    nearest: str | None = None
    nodes: int = 0
    excluded: tuple[Excluded, ...] = ()
    role: str | None = None
    wanted: int = 0
    possible: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)
    level: str | None = None
    holders: tuple[JobId, ...] = ()
    behind: JobId | None = None
    helps: tuple[str, ...] = ()
    predicted_start_at: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStatus:
    """One trial: its values, the newest value of the objective, and where its job is."""

    number: int
    values: Mapping[str, str]
    job: str
    job_id: JobId
    phase: Phase
    reason: str
    created_at: Timestamp
    result: float | None = None
    message: str = ""
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """A sweep and its trials as they stand; ``best`` is the number of the best trial so far."""

    id: SweepId
    spec: SweepSpec
    state: SweepState
    created_at: Timestamp
    trials: tuple[TrialStatus, ...] = ()
    begun: int = 0
    best: int | None = None
    finished_at: Timestamp | None = None

    @property
    def name(self) -> str:
        """The sweep's name, unique within its tenant."""
        return self.spec.name

    @property
    def over(self) -> bool:
        """Whether nothing runs and nothing will be started."""
        return self.state in (SweepState.FINISHED, SweepState.STOPPED)


ANSWERS = (Job, JobPage, Change, JournalRecord, LogLine, MetricPage, Explanation, Node, Queue, Usage, SweepStatus)
"""Everything that a service answers with; the reference of the REST interface is made of these."""
