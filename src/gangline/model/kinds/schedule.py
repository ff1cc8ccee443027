"""A schedule: when runs of a pipeline begin by themselves, and how far it has come."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.identity import DEFAULT_TENANT, Tenant, check_name
from gangline.model.kinds.pipeline import PipelineSpec
from gangline.model.record import Record

LONGEST_NAME = 40
"""Runs are named after their schedule and the time they were made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """What a file of kind Schedule says."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    pipeline: Annotated[PipelineSpec, "What is run: as the spec of a Pipeline."]
    cron: Annotated[str, "When: minute, hour, day of month, month, day of week; seconds may come first."] = ""
    every_seconds: Annotated[float, "Or how long after each other."] = 0.0
    time_zone: Annotated[str, "Whose clock 'cron' means, for example Europe/Berlin."] = "UTC"
    start: Annotated[str, "Nothing begins before this time (RFC 3339)."] = ""
    end: Annotated[str, "Nothing begins after this time (RFC 3339)."] = ""
    catch_up: Annotated[bool, "Whether each time that was missed has its run; else only the latest has."] = False
    at_most: Annotated[int, "How many runs may be unfinished at a time; others wait."] = 1
    paused: Annotated[bool, "Whether no run begins."] = False
    description: Annotated[str, "What it is for."] = ""

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        if len(self.name) > LONGEST_NAME:
            raise InvalidInputError(
                "the name is too long", field="metadata.name", expected=f"at most {LONGEST_NAME} letters"
            )
        if bool(self.cron) == bool(self.every_seconds):
            problem = "both cron and every are given" if self.cron else "it is not said when to run"
            raise InvalidInputError(problem, field="spec.cron", expected="either cron or every")
        if self.every_seconds and self.every_seconds < 1:
            raise InvalidInputError(f"{self.every_seconds} is too short", field="spec.every", expected="1 s or more")
        if not 1 <= self.at_most <= 100:
            raise InvalidInputError(f"{self.at_most} is not allowed", field="spec.at_most", expected="1 to 100")
        for name in ("start", "end"):
            instant(getattr(self, name), f"spec.{name}")

    @property
    def start_at(self) -> Timestamp | None:
        """When the first run may begin."""
        return instant(self.start, "spec.start")

    @property
    def end_at(self) -> Timestamp | None:
        """When the last run may begin."""
        return instant(self.end, "spec.end")


def instant(text: str, field: str) -> Timestamp | None:
    """Read a time; none for an empty text."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"'{text}' is not a time", field=field, expected="2026-11-16T03:00:00Z") from None
    return Timestamp((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRun:
    """A run that is wanted for a time; ``made`` once it exists."""

    at: Timestamp
    made: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """How far a schedule has come."""

    last_at: Timestamp | None = None
    """The latest time that has, or had, its run."""
    next_at: Timestamp | None = None
    active: tuple[ScheduledRun, ...] = ()
    """Its unfinished runs."""
    begun: int = 0
    paused: bool = False
    """As the spec says: what it was when it was last looked at."""
    finished_at: Timestamp | None = None

    @property
    def state(self) -> str:
        """Where it is, in one word."""
        if self.finished_at is not None:
            return "finished"
        return "paused" if self.paused else "active"

    @property
    def settled(self) -> bool:
        """Whether nothing will ever be done for it again."""
        return self.finished_at is not None


Schedule = Record[ScheduleSpec, ScheduleStatus]
