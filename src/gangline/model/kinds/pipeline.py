"""A run of a pipeline: the compiled file with its arguments, and how far its steps have come. Steps are jobs."""

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.identity import DEFAULT_QUEUE, DEFAULT_TENANT, QueueName, Tenant, check_name
from gangline.model.record import Record

ROOTS = ("s3://", "gs://", "az://", "pvc://")
"""The addresses where artefacts can be stored."""
STEP_VARIABLE = "GANGLINE_STEP"
"""The environment variable that tells a step's job what to run; the plan reads back from it which step a job is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """What to run. The documents of the compiled file, and the arguments, are kept as JSON, so that nothing is lost."""

    name: str
    documents_json: str
    arguments_json: str = "{}"
    tenant: Tenant = DEFAULT_TENANT
    queue: QueueName = DEFAULT_QUEUE
    cache: bool = True
    """Whether outputs of earlier runs may be reused."""
    reuse_seconds: float | None = None
    """How old outputs may be that are reused; None: any age."""
    root: str = ""
    """Where artefacts are stored, as an address; empty: they stay where the steps made them."""
    display_name: str = ""
    """What its user calls it, if that is more than a name allows."""
    description: str = ""
    experiment: str = ""
    """The experiment that it is grouped with."""
    template: str = ""
    """The template and the version that it was made from, as ``TEMPLATE/VERSION``."""
    schedule: str = ""
    """The schedule that made it."""
    scheduled_at: Timestamp | None = None
    """The time that the schedule made it for."""

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        check_name(self.queue, "spec.queue")
        _check_json(self.documents_json, self.arguments_json)
        if len(self.name) > 55:
            raise InvalidInputError("the name is too long", field="metadata.name", expected="at most 55 letters")
        if self.root and not self.root.startswith(ROOTS):
            raise InvalidInputError(
                f"artefacts cannot be stored at '{self.root}'", field="spec.root", expected=f"one of {', '.join(ROOTS)}"
            )
        if self.reuse_seconds is not None and self.reuse_seconds < 0:
            raise InvalidInputError(f"{self.reuse_seconds} is too small", field="spec.reuse", expected="0s or more")


@lru_cache(maxsize=64)
def _check_json(documents: str, arguments: str) -> None:
    """Refuse what was never written: every reader of a run takes these for granted."""
    try:
        listed, given = json.loads(documents), json.loads(arguments)
    except ValueError as error:
        raise InvalidInputError(f"this is not JSON: {error}", field="spec") from None
    if not isinstance(listed, list) or not listed or not all(isinstance(each, dict) for each in listed):
        raise InvalidInputError("there is no pipeline", field="spec.documents", expected="a list of mappings")
    if not isinstance(given, dict):
        raise InvalidInputError("these are no arguments", field="spec.arguments", expected="a mapping")


class PipelineState(StrEnum):
    """Where a run is."""

    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class StepState(StrEnum):
    """Where a task or a step of a run is."""

    WAITING = "waiting"
    DUE = "due"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Its condition does not hold, or it needs what a skipped task would have made."""
    NOT_TRIGGERED = "not-triggered"
    """Something that it waits for has failed."""
    CANCELLED = "cancelled"


_STATES = frozenset(StepState)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """A step that was started: which one (``path``), the number of its job, and how it ended."""

    path: str
    number: int
    state: str
    message: str = ""
    result: str = ""
    """Its outputs as it reported them, in JSON."""
    key: str = ""
    """Digests of what it runs and of its inputs: a later step with the same key has the same outputs."""
    reused_from: str = ""
    """The run and the step whose outputs it has, if it did not have to run."""
    reason: str = ""
    """Why it could not reuse anything."""
    began_at: Timestamp | None = None
    ended_at: Timestamp | None = None

    def __post_init__(self) -> None:
        if self.state not in _STATES:
            raise InvalidInputError(
                f"'{self.state}' is not known", field="status.steps.state", expected=f"one of {', '.join(StepState)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """How far a run has come; ``failure`` says why it has failed."""

    steps: tuple[StepStatus, ...] = ()
    stopped: bool = False
    failure: str = ""
    finished_at: Timestamp | None = None
    archived: bool = False
    """Whether lists leave it out unless they are asked for it."""
    given_up: tuple[int, ...] = ()
    """The numbers of jobs whose steps were begun anew: what becomes of them counts no more."""
    missing: tuple[str, ...] = ()
    """Where steps found no artefact any more before the run was retried: nothing that was made there is reused."""

    @property
    def state(self) -> PipelineState:
        """Where the run is, in one word."""
        if self.finished_at is None:
            return PipelineState.STOPPING if self.stopped else PipelineState.RUNNING
        if self.stopped:
            return PipelineState.STOPPED
        return PipelineState.FAILED if self.failure else PipelineState.SUCCEEDED

    @property
    def settled(self) -> bool:
        """Whether nothing will ever be done for this run again."""
        return self.finished_at is not None


PipelineRun = Record[PipelineSpec, PipelineStatus]
"""A submitted run."""
