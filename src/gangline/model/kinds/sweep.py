"""A sweep: one job template tried with many values. Its trials are ordinary jobs that carry its labels."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.identity import JobId, Tenant, check_name
from gangline.model.jobs.phase import Phase
from gangline.model.jobs.spec import JobSpec
from gangline.model.record import Record, RecordId
from gangline.model.search.parameter import Parameter
from gangline.model.search.search_space import COMBINATIONS_LIMIT, check_space, check_values, count_combinations
from gangline.model.search.stopping import Mark, Rule, Stopping

SWEEP_LABEL = "gangline.dev/sweep"
TRIAL_LABEL = "gangline.dev/trial"
ADDED_LABEL = "gangline.dev/added"
"""The label of a trial that was added by hand: its position among those."""
COPY_LABEL = "gangline.dev/copy"
"""The label of a trial that goes on from another's checkpoint: PARENT.STEP.REPLACED, in numbers."""

PARAMETERS_VARIABLE = "TRIAL_PARAMETERS"
"""The environment variable that holds all of a trial's values as JSON; trials are read back by it."""

GRID = "grid"
"""The sampler that tries every combination."""


class Goal(StrEnum):
    """Which value of the objective is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclass(frozen=True, slots=True)
class Objective:
    """A reported metric by which trials are compared; one that reaches ``target`` ends the search."""

    metric: str
    goal: Goal = Goal.MAXIMIZE
    target: float | None = None

    @property
    def sign(self) -> float:
        """What a value is multiplied by so that more is better."""
        return 1.0 if self.goal is Goal.MAXIMIZE else -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When a search ends at the latest: what is not given has no limit.

    ``trials`` counts those begun, ``failures`` those that failed or ended without a result.
    """

    trials: int | None = None
    time_seconds: float | None = None
    gpu_hours: float | None = None
    failures: int | None = None

    def __post_init__(self) -> None:
        for name, amount in (("trials", self.trials), ("time", self.time_seconds), ("gpu_hours", self.gpu_hours)):
            if amount is not None and not amount > 0:
                raise InvalidInputError(
                    f"a budget of {amount:g} tries nothing", field=f"spec.budget.{name}", expected="more than 0"
                )
        if self.failures is not None and self.failures < 1:
            raise InvalidInputError(
                f"{self.failures} is too small", field="spec.budget.failures", expected="1 or more, or leave it out"
            )

    @property
    def ends(self) -> bool:
        """Whether a search that never runs out of ideas comes to an end."""
        return any(amount is not None for amount in (self.trials, self.time_seconds, self.gpu_hours))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTrial:
    """What somebody tried before: its values, and the number of every objective by metric."""

    values: Mapping[str, str]
    results: Mapping[str, float]


Setting = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSpec:
    """What to try: the template's ``$(name)`` is replaced, in every role, by the trial's value of that parameter."""

    name: str
    template: JobSpec
    parameters: tuple[Parameter, ...]
    sampler: str = GRID
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """What the sampler is told besides, by its own names."""
    seed: int | None = None
    parallelism: int | None = None
    share: float | None = None
    """Which part of what the jobs of its queue hold may be its own while others wait there; None: all of it."""
    objective: Objective | None = None
    other_objectives: tuple[Objective, ...] = ()
    """What a trial is judged by besides: the best are then those that no other beats in everything."""
    budget: Budget = Budget()
    stopping: Stopping | None = None
    known: tuple[KnownTrial, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        if len(self.name) > 55:
            raise InvalidInputError("the name is too long", field="metadata.name", expected="at most 55 letters")
        if not self.parameters:
            raise InvalidInputError("nothing to vary", field="spec.parameters", expected="at least one parameter")
        self._check_variables()
        check_space(self.parameters)
        if self.sampler == GRID:
            self._check_grid()
        elif not self.budget.ends:
            raise InvalidInputError(
                f"the sampler {self.sampler} never ends by itself",
                field="spec.budget",
                expected="trials, time or gpu_hours",
            )
        if self.parallelism is not None and self.parallelism < 1:
            raise InvalidInputError(
                f"{self.parallelism} is too small", field="spec.parallelism", expected="1 or more, or leave it out"
            )
        if self.share is not None and not 0 < self.share <= 1:
            raise InvalidInputError(f"{self.share:g} is not a share", field="spec.share", expected="above 0, at most 1")
        if self.seed is not None and not 0 <= self.seed < 2**32:
            raise InvalidInputError(f"{self.seed} is not a seed", field="spec.seed", expected="0 to 4294967295")
        self._check_objectives()

    def _check_objectives(self) -> None:
        names = [each.metric for each in self.objectives]
        if self.stopping is not None and len(names) != 1:
            raise InvalidInputError(
                "trials are stopped by one objective", field="spec.stopping", expected="an objective with one metric"
            )
        if self.stopping is not None and self.stopping.rule is Rule.PBT:
            if self.sampler == GRID:
                raise InvalidInputError("a population is not a grid", field="spec.sampler", expected="random, say")
            if self.budget.trials is None or self.budget.trials < 2:
                raise InvalidInputError(
                    "a population has a size", field="spec.budget.trials", expected="how many train at first: 2 or more"
                )
        if len(set(names)) != len(names):
            raise InvalidInputError("a metric is named twice", field="spec.objective", expected="different metrics")
        if len(names) > 1 and any(each.target is not None for each in self.objectives):
            raise InvalidInputError(
                "several objectives have no target", field="spec.objective", expected="a target of a single objective"
            )
        for index, known in enumerate(self.known):
            check_values(self.parameters, known.values, field=f"spec.known[{index}].values.")
            missing = next((name for name in names if not math.isfinite(known.results.get(name, math.nan))), None)
            if missing is not None:
                raise InvalidInputError(
                    f"no number for '{missing}'", field=f"spec.known[{index}].results", expected=", ".join(names)
                )

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Everything that trials are compared by, the first of which counts where one number is shown."""
        return () if self.objective is None else (self.objective, *self.other_objectives)

    def _check_grid(self) -> None:
        endless = next((each for each in self.parameters if each.count is None), None)
        if endless is not None:
            raise InvalidInputError(
                "a grid cannot try every number of a range",
                field=f"spec.parameters.{endless.name}",
                expected="values, a range with a step, or a sampler such as random",
            )
        combinations = count_combinations(self.parameters) or 0
        if combinations > COMBINATIONS_LIMIT:
            raise InvalidInputError(
                f"{combinations:,} combinations", field="spec.parameters", expected=f"at most {COMBINATIONS_LIMIT:,}"
            )

    def _check_variables(self) -> None:
        taken = {PARAMETERS_VARIABLE: "all values together"}
        for parameter in self.parameters:
            if parameter.variable in taken:
                raise InvalidInputError(
                    f"{parameter.variable} stands for {taken[parameter.variable]} already",
                    field=f"spec.parameters.{parameter.name}",
                    expected="names that differ in more than case, '-' and '_'",
                )
            taken[parameter.variable] = parameter.name

    @property
    def tenant(self) -> Tenant:
        """Whose sweep it is."""
        return self.template.tenant


class SweepState(StrEnum):
    """Where a sweep is."""

    RUNNING = "running"
    STOPPING = "stopping"
    """No further trial is started; running ones are being cancelled."""
    STOPPED = "stopped"
    FINISHED = "finished"
    """Everything was tried, or as much as the budget allows, and has ended, well or not."""
    FAILED = "failed"
    """Given up: too many trials failed, or nobody could say what to try next."""
    DELETING = "deleting"


class EndReason(StrEnum):
    """Why a sweep tries no more."""

    EXHAUSTED = "Exhausted"
    TRIALS_USED = "TrialsUsed"
    TIME_USED = "TimeUsed"
    GPU_HOURS_USED = "GpuHoursUsed"
    TARGET_REACHED = "TargetReached"
    TOO_MANY_FAILURES = "TooManyFailures"
    SAMPLER_FAILED = "SamplerFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Why a sweep tries no more, for programs and for people."""

    reason: EndReason
    message: str

    @property
    def failed(self) -> bool:
        """Whether the search was given up."""
        return self.reason in (EndReason.TOO_MANY_FAILURES, EndReason.SAMPLER_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTrial:
    """Values that somebody asked to have tried."""

    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
    """How far a sweep has come.

    ``begun`` counts the trials that were ever started, so that one whose job was deleted is not tried again;
    ``added_begun`` those of them that were ``added`` by hand. ``stopped`` means that no further trial is started and
    running ones are cancelled, and so does an ``end``. ``finished_at`` is set when nothing runs and nothing is left
    to try.
    """

    begun: int = 0
    stopped: bool = False
    finished_at: Timestamp | None = None
    end: End | None = None
    added: tuple[AddedTrial, ...] = ()
    added_begun: int = 0
    marks: tuple[Mark, ...] = ()
    """What trials had reached at the rungs; of an objective to be minimized, the negative, so that more is better."""
    pruned: tuple[int, ...] = ()
    """The trials that were stopped because they were not worth while."""
    yielded: tuple[int, ...] = ()
    """The trials that rest, or are about to, so that others in the queue get their machines."""

    @property
    def state(self) -> SweepState:
        """Where the sweep is, in one word."""
        if self.stopped:
            return SweepState.STOPPING if self.finished_at is None else SweepState.STOPPED
        if self.finished_at is None:
            return SweepState.RUNNING
        return SweepState.FAILED if self.end is not None and self.end.failed else SweepState.FINISHED

    @property
    def settled(self) -> bool:
        """Whether nothing will ever be done for this sweep again."""
        return self.finished_at is not None


Sweep = Record[SweepSpec, SweepProgress]
"""A submitted sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Whose checkpoint a trial begins with, that of which step it is, and which trial gave way to it."""

    parent: int
    step: int
    replaces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The values of one trial, and its number within the sweep."""

    number: int
    values: Mapping[str, str] = field(default_factory=dict)
    added: int | None = None
    """Its position among the trials that were added by hand, if it is one of them."""
    copy: Copy | None = None


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
    results: Mapping[str, float] = field(default_factory=dict)
    """The newest number of every objective, by metric."""
    stopped: bool = False
    """Whether it was stopped, or rests, because others were better."""
    parent: int | None = None
    """The trial whose checkpoint it began with."""
    message: str = ""
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """A sweep and its trials as they stand; ``best`` is the number of the best trial so far."""

    id: RecordId
    spec: SweepSpec
    state: SweepState
    created_at: Timestamp
    trials: tuple[TrialStatus, ...] = ()
    begun: int = 0
    best: int | None = None
    finished_at: Timestamp | None = None
    end: End | None = None
    """Why it tries no more."""
    front: tuple[int, ...] = ()
    """With several objectives, the numbers of the trials that no other beats (the Pareto front)."""
    importance: Mapping[str, float] = field(default_factory=dict)
    """Which share of the variance of the results each parameter explains by itself, from 0 to 1."""
    version: int = field(default=0, compare=False)
    """The version of its record."""

    @property
    def name(self) -> str:
        """The sweep's name, unique within its tenant."""
        return self.spec.name

    @property
    def settled(self) -> bool:
        """Whether nothing runs and nothing will be started."""
        return self.state in (SweepState.FINISHED, SweepState.STOPPED, SweepState.FAILED)
