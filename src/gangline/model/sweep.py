"""A sweep: one job template tried with many values. Its trials are ordinary jobs that carry its labels."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.identity import JobId, Tenant, check_name
from gangline.model.spec import JobSpec

SWEEP_LABEL = "gangline.dev/sweep"
TRIAL_LABEL = "gangline.dev/trial"

PARAMETERS_VARIABLE = "TRIAL_PARAMETERS"
"""The environment variable that holds all of a trial's values as JSON; trials are read back by it."""

SweepId = NewType("SweepId", str)
"""A sweep's unique id, chosen by whoever submits it; its trials' job ids begin with it."""

COMBINATIONS_LIMIT = 100_000
"""Each is a job on record. A grid beyond this is a slip of the pen, not a plan."""

_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Goal(StrEnum):
    """Which value of the objective is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclass(frozen=True, slots=True)
class Objective:
    """The reported metric by which trials are compared."""

    metric: str
    goal: Goal = Goal.MAXIMIZE


@dataclass(frozen=True, slots=True)
class Parameter:
    """One dimension of the search space: a name and the values to try, written as the command wants them."""

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        where = f"parameters.{self.name}"
        if not _PARAMETER.fullmatch(self.name):
            raise InvalidInputError("not a parameter name", field=where, expected="letters, digits, '_' and '-'")
        if not self.values:
            raise InvalidInputError("no values to try", field=where, expected="a list of at least one value")
        if len(set(self.values)) != len(self.values):
            raise InvalidInputError("a value is listed twice", field=where, expected="different values")

    @property
    def variable(self) -> str:
        """The environment variable in which a trial finds its value."""
        return f"TRIAL_{self.name.upper().replace('-', '_')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSpec:
    """What to try: the template's ``$(name)`` is replaced, in every role, by the trial's value of that parameter."""

    name: str
    template: JobSpec
    parameters: tuple[Parameter, ...]
    sampler: str = "grid"
    parallelism: int | None = None
    objective: Objective | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        if len(self.name) > 55:
            raise InvalidInputError("the name is too long", field="metadata.name", expected="at most 55 letters")
        if not self.parameters:
            raise InvalidInputError("nothing to vary", field="spec.parameters", expected="at least one parameter")
        self._check_variables()
        combinations = math.prod(len(parameter.values) for parameter in self.parameters)
        if combinations > COMBINATIONS_LIMIT:
            raise InvalidInputError(
                f"{combinations:,} combinations", field="spec.parameters", expected=f"at most {COMBINATIONS_LIMIT:,}"
            )
        if self.parallelism is not None and self.parallelism < 1:
            raise InvalidInputError(
                f"{self.parallelism} is too small", field="spec.parallelism", expected="1 or more, or leave it out"
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
    """Everything was tried and has ended, well or not."""
    DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A submitted sweep.

    ``begun`` counts the trials that were ever started, so that one whose job was deleted is not tried again.
    ``stopped`` means that no further trial is started and running ones are cancelled. ``finished_at`` is set when
    nothing runs and nothing is left to try. ``deleting`` means that its trials' jobs and it itself disappear.
    """

    id: SweepId
    spec: SweepSpec
    created_at: Timestamp
    begun: int = 0
    stopped: bool = False
    finished_at: Timestamp | None = None
    deleting: bool = False
    version: int = field(default=0, compare=False)
    """The store's counter for guarded writes; not part of what the sweep is."""

    @property
    def name(self) -> str:
        """The sweep's name, unique within its tenant."""
        return self.spec.name

    @property
    def tenant(self) -> Tenant:
        """Whose sweep it is."""
        return self.spec.tenant

    @property
    def state(self) -> SweepState:
        """Where the sweep is, in one word."""
        if self.deleting:
            return SweepState.DELETING
        if self.stopped:
            return SweepState.STOPPING if self.finished_at is None else SweepState.STOPPED
        return SweepState.RUNNING if self.finished_at is None else SweepState.FINISHED

    @property
    def settled(self) -> bool:
        """Whether nothing will ever be done for this sweep again."""
        return self.finished_at is not None and not self.deleting

    def trial_id(self, number: int) -> JobId:
        """The job id of a trial: always the same, so that starting it again after a crash makes no second job."""
        return JobId(f"{self.id}-{number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The values of one trial, and its number within the sweep."""

    number: int
    values: Mapping[str, str] = field(default_factory=dict)
