"""What jobs have used of the machines over time, and what of it was of no use. Values and rules alone.

Time is taken from a job's own history. What its program did with the machines is not known here: held and not used
means that the gang was being started or stopped or that its data was on the way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from gangline.model.clock import Timestamp
from gangline.model.jobs.job import Job
from gangline.model.jobs.phase import ACTIVE_PHASES, WAITING_PHASES, Phase
from gangline.model.observation import JournalRecord

HOLDING_PHASES = ACTIVE_PHASES | {Phase.HALTING}
PRICED = ("cpu", "memory", "gpu")
"""What may have a price: an hour of a CPU, of a GiB of memory, of a GPU."""
_HOUR = 3600.0
_BY = "by "


class Period(StrEnum):
    """How time is divided, in UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class Group(StrEnum):
    """What use is added up by."""

    TENANT = "tenant"
    QUEUE = "queue"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What one group has used in one period; what it was not added up by is empty."""

    begins_at: Timestamp
    tenant: str = ""
    queue: str = ""
    user: str = ""
    jobs: int = 0
    gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    memory_gib_hours: float = 0.0
    waiting_hours: float = 0.0
    """How long its jobs waited for machines, all together."""
    idle_gpu_hours: float = 0.0
    idle_cpu_hours: float = 0.0
    """What of these hours was held and not used."""
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """What was used between two moments, oldest period first."""

    since: Timestamp
    until: Timestamp
    rows: tuple[UsageRow, ...] = ()
    prices: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a job's life in one phase."""

    phase: Phase
    start: float
    end: float

    @property
    def hours(self) -> float:
        """How long it is."""
        return (self.end - self.start) / _HOUR

    @property
    def held(self) -> bool:
        """Whether the gang had its machines."""
        return self.phase in HOLDING_PHASES

    def within(self, start: float, end: float) -> "Span":
        """Return what of it lies between two moments; of none of it, one without length."""
        begin = min(max(self.start, start), end)
        return Span(self.phase, begin, max(begin, min(self.end, end)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What is counted of a job: its life, and what its gang held. It is kept when the job is deleted."""

    job: str
    """Its id."""
    tenant: str
    queue: str
    user: str = ""
    phases: tuple[tuple[Phase, Timestamp], ...]
    """Every phase that it entered, and when."""
    finished_at: Timestamp | None = None
    amounts: Mapping[str, float]

    @classmethod
    def of(cls, job: Job, user: str = "") -> "Use":
        """Take it from the record of a job that somebody submitted."""
        return cls(
            job=job.id,
            tenant=job.spec.tenant,
            queue=job.spec.queue,
            user=user,
            phases=tuple((entry.phase, entry.at) for entry in job.history),
            finished_at=job.finished_at,
            amounts=gang_amounts(job),
        )

    def spans(self, now: Timestamp) -> Iterator[Span]:
        """Return the parts of its life, oldest first."""
        ends = (*(at for _, at in self.phases), self.finished_at or now)
        for (phase, _), (start, end) in zip(self.phases, pairwise(ends), strict=True):
            yield Span(phase, start, end)

    def ended(self, at: Timestamp) -> "Use | None":
        """Return it as what is left of a job that is deleted; None if it never held machines."""
        done = self if self.finished_at is not None else replace(self, finished_at=at)
        return done if any(span.held for span in done.spans(at)) else None


def submitter(journal: Sequence[JournalRecord]) -> str:
    """Return who submitted a job, as the beginning of its journal says; nothing if it does not."""
    said = journal[0].message if journal else ""
    return said.removeprefix(_BY) if said.startswith(_BY) else ""


def gang_amounts(job: Job) -> Mapping[str, float]:
    """Return what the gang that a job is, or last was, holds: CPUs, GiB of memory and GPUs."""
    gang = [job.spec.role(status.id.role).resources for status in job.replicas] or [
        role.resources for role in job.spec.roles for _ in range(role.replicas)
    ]
    return {
        "cpu": sum(each.cpu_millis for each in gang) / 1000,
        "memory": sum(each.memory_mib for each in gang) / 1024,
        "gpu": sum(each.gpu_millis for each in gang) / 1000,
    }


def periods_between(since: Timestamp, until: Timestamp, every: Period | None) -> Iterator[tuple[float, float]]:
    """Return the periods that a time is divided into; the first and the last may be parts of one."""
    start = float(since)
    while start < until:
        end = float(until) if every is None else min(float(until), _next(start, every))
        yield start, end
        start = end


def _next(start: float, every: Period) -> float:
    at = datetime.fromtimestamp(start, UTC).replace(minute=0, second=0, microsecond=0)
    if every is Period.HOUR:
        return (at + timedelta(hours=1)).timestamp()
    at = at.replace(hour=0)
    if every is Period.DAY:
        return (at + timedelta(days=1)).timestamp()
    return (at.replace(day=1) + timedelta(days=32)).replace(day=1).timestamp()


def report(
    uses: Iterable[Use],
    *,
    since: Timestamp,
    until: Timestamp,
    now: Timestamp,
    by: Sequence[Group],
    every: Period | None,
    prices: Mapping[str, float],
) -> UsageReport:
    """Add up what jobs have used between two moments."""
    periods = list(periods_between(since, until, every))
    sums: dict[tuple[float, tuple[str, str, str]], dict[str, float]] = {}
    for use in uses:
        names = {Group.TENANT: use.tenant, Group.QUEUE: use.queue, Group.USER: use.user}
        group = tuple(names[each] if each in by else "" for each in Group)
        life = list(use.spans(now))
        for start, end in periods:
            parts = [part for part in (span.within(start, end) for span in life) if part.hours > 0]
            if parts:
                _add(sums.setdefault((start, group), {}), parts, use.amounts)  # type: ignore[arg-type]  # three of them
    rows = [_row(start, group, found, prices) for (start, group), found in sorted(sums.items())]
    return UsageReport(since=since, until=until, rows=tuple(rows), prices=dict(prices))


def _add(sums: dict[str, float], parts: Sequence[Span], amounts: Mapping[str, float]) -> None:
    held = sum(part.hours for part in parts if part.held)
    idle = sum(part.hours for part in parts if part.held and part.phase is not Phase.PROCESSING)
    found = {
        "jobs": 1.0,
        "waiting_hours": sum(part.hours for part in parts if part.phase in WAITING_PHASES),
        "gpu_hours": amounts["gpu"] * held,
        "cpu_hours": amounts["cpu"] * held,
        "memory_gib_hours": amounts["memory"] * held,
        "idle_gpu_hours": amounts["gpu"] * idle,
        "idle_cpu_hours": amounts["cpu"] * idle,
    }
    for name, amount in found.items():
        sums[name] = sums.get(name, 0.0) + amount


def _row(
    start: float, group: tuple[str, str, str], found: Mapping[str, float], prices: Mapping[str, float]
) -> UsageRow:
    hours = {"cpu": found["cpu_hours"], "memory": found["memory_gib_hours"], "gpu": found["gpu_hours"]}
    tenant, queue, user = group
    return UsageRow(
        begins_at=Timestamp(start),
        tenant=tenant,
        queue=queue,
        user=user,
        cost=sum(hours[name] * prices.get(name, 0.0) for name in PRICED),
        jobs=round(found["jobs"]),
        **{name: round(amount, 6) for name, amount in found.items() if name != "jobs"},
    )
