"""A Katib Experiment: the document as its user wrote it, and how far its trials have come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gangline.model.clock import Timestamp
from gangline.model.identity import DEFAULT_TENANT, JobId, Tenant, check_name
from gangline.model.kinds.sweep import End, SweepProgress
from gangline.model.record import Record, RecordId

COLLECTOR_VARIABLE = "GANGLINE_COLLECTOR"
"""What ``gangline.runtime.collecting`` is told to read, in the environment of a replica whose numbers count."""
METRICS_VOLUME = "katib-metrics"
"""The volume that a trial writes its numbers to, where they are read from files."""
COLLECTOR_ANNOTATION = "gangline.dev/collector"
"""The same on a pod, for whoever reads its output from outside."""
COPY_VARIABLE = "GANGLINE_COPY"
"""Two folders with ':' between them: what is in the first is copied to the second before the program starts, where no
container does that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSpec:
    """An Experiment of ``kubeflow.org/v1beta1``; what its fields mean, ``gangline.dialects.katib`` reads."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    manifest_json: str
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that every trial gets besides: the Python environment of a user of this machine."""

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """What a trial reported of one metric; a value is None where nothing finite was reported."""

    name: str
    latest: float | None = None
    least: float | None = None
    most: float | None = None


class TrialState(StrEnum):
    """Where a trial is, in the word of its newest condition."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    KILLED = "Killed"
    EARLY_STOPPED = "EarlyStopped"
    METRICS_UNAVAILABLE = "MetricsUnavailable"

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self not in (TrialState.PENDING, TrialState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """How a trial ended and what it had reported; ``early`` is the mean of its first reports of the objective."""

    trial: int
    state: TrialState
    at: Timestamp
    metrics: tuple[MetricSummary, ...] = ()
    early: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentProgress:
    """How far an Experiment has come: its search, and what trials that have ended reported.

    ``budget`` is the number of trials it was allowed when it ended, so that a larger one lets it go on.
    """

    search: SweepProgress = field(default_factory=SweepProgress)
    observations: tuple[Observation, ...] = ()
    running_at: Timestamp | None = None
    restarted_at: Timestamp | None = None
    budget: int | None = None
    template_json: str = ""
    """The object of the template, where it was found in a ConfigMap."""

    @property
    def state(self) -> str:
        """Where it is, in the word of its newest condition."""
        if self.search.finished_at is not None:
            return "Failed" if self.search.end is not None and self.search.end.failed else "Succeeded"
        if self.running_at is None:
            return "Restarting" if self.search.begun else "Created"
        return "Running"

    @property
    def settled(self) -> bool:
        """Whether nothing will be done for it, unless its budget is raised."""
        return self.search.settled


ExperimentRecord = Record[ExperimentSpec, ExperimentProgress]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentTrial:
    """One trial as it stands; ``values`` by Katib's names, ``metrics`` once it has ended."""

    name: str
    number: int
    values: Mapping[str, str]
    state: TrialState
    job: str
    job_id: JobId
    reason: str
    message: str
    created_at: Timestamp
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    metrics: tuple[MetricSummary, ...] = ()
    value: float | None = None
    """That of the objective which counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentView:
    """An Experiment and its trials as they stand; ``best`` is the name of the best trial so far."""

    id: RecordId
    spec: ExperimentSpec
    state: str
    created_at: Timestamp
    version: int = 0
    trials: tuple[ExperimentTrial, ...] = ()
    best: str | None = None
    running_at: Timestamp | None = None
    restarted_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    end: End | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def settled(self) -> bool:
        """Whether nothing runs and nothing will be started."""
        return self.state in ("Succeeded", "Failed")
