"""What a schedule calls for now: which times need a run, which runs to make, and when to look again.

A run is first noted for its time and then made under an id that follows from that time. So no time has two runs,
whenever the service is killed, and none that was noted is without one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor

from gangline.model.clock import Timestamp
from gangline.model.kinds.pipeline import PipelineRun, PipelineSpec
from gangline.model.kinds.schedule import Schedule, ScheduledRun, ScheduleStatus
from gangline.model.record import RecordId
from gangline.pipelines.cron import latest_time, next_time, read_cron, time_zone


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePlan:
    """What to do next: the runs to make, each with its id, and when to look again."""

    status: ScheduleStatus
    make: tuple[tuple[RecordId, PipelineSpec], ...] = ()
    again_at: Timestamp | None = None


def plan_schedule(schedule: Schedule, runs: Sequence[PipelineRun], now: Timestamp) -> SchedulePlan:
    """Decide what a schedule needs now; ``runs`` are those that it has made, as far as they still exist."""
    spec, status = schedule.spec, schedule.status
    unfinished = {run.id for run in runs if not run.status.settled}
    active = tuple(each for each in status.active if not each.made or run_id(schedule, each.at) in unfinished)
    make = tuple((run_id(schedule, each.at), _run(schedule, each.at)) for each in active if not each.made)
    active = tuple(replace(each, made=True) for each in active)
    new = () if spec.paused else _wanted(schedule, now)[: max(0, spec.at_most - len(active))]
    last_at = new[-1] if new else status.last_at
    next_at = _next(schedule, Timestamp(max(now, _since(schedule, last_at))))
    over = next_at is None and not active and not new and not _wanted(schedule, now)
    noted = ScheduleStatus(
        last_at=last_at,
        next_at=None if spec.paused else next_at,
        active=active + tuple(ScheduledRun(at=at) for at in new),
        begun=status.begun + len(new),
        paused=spec.paused,
        finished_at=(status.finished_at or now) if over else None,
    )
    return SchedulePlan(status=noted, make=make, again_at=None if spec.paused else next_at)


def run_id(schedule: Schedule, at: Timestamp) -> RecordId:
    """Return the id of the run for a time."""
    return RecordId(f"{schedule.id}-{floor(at)}")


def run_name_at(schedule: Schedule, at: Timestamp) -> str:
    """Return the name of the run for a time."""
    return f"{schedule.name}-{floor(at)}"


def _run(schedule: Schedule, at: Timestamp) -> PipelineSpec:
    return replace(
        schedule.spec.pipeline,
        name=run_name_at(schedule, at),
        tenant=schedule.spec.tenant,
        schedule=schedule.name,
        scheduled_at=at,
    )


def _since(schedule: Schedule, last_at: Timestamp | None) -> Timestamp:
    """Return the instant behind which times count."""
    if last_at is not None:
        return last_at
    start = schedule.spec.start_at
    # A start in the past counts only for what catches up: anything else begins when it is made.
    if start is not None and (start > schedule.created_at or schedule.spec.catch_up):
        return Timestamp(start - 1)
    return schedule.created_at


def _wanted(schedule: Schedule, now: Timestamp) -> tuple[Timestamp, ...]:
    """Return the times that have no run yet, oldest first; of those to catch up on, the first few."""
    spec, since = schedule.spec, _since(schedule, schedule.status.last_at)
    until = now if spec.end_at is None else Timestamp(min(now, spec.end_at))
    if spec.catch_up:
        return tuple(_times(schedule, since, until))
    latest = _latest(schedule, since, until)
    return () if latest is None else (latest,)


def _times(schedule: Schedule, since: Timestamp, until: Timestamp) -> Iterator[Timestamp]:
    for _ in range(schedule.spec.at_most):
        found = _next(schedule, since)
        if found is None or found > until:
            return
        yield found
        since = found


def _next(schedule: Schedule, after: Timestamp) -> Timestamp | None:
    """Return the first time behind an instant, None if the schedule ends before that."""
    spec, start = schedule.spec, schedule.spec.start_at
    if start is not None and after < start:
        after = Timestamp(start - 1)
    if spec.every_seconds:
        begin = schedule.created_at if start is None else start
        count = max(0, floor((after - begin) / spec.every_seconds) + 1)
        found: Timestamp | None = Timestamp(begin + count * spec.every_seconds)
    else:
        found = next_time(read_cron(spec.cron), time_zone(spec.time_zone), after)
    return None if found is None or (spec.end_at is not None and found > spec.end_at) else found


def _latest(schedule: Schedule, since: Timestamp, until: Timestamp) -> Timestamp | None:
    spec = schedule.spec
    if spec.every_seconds:
        first = _next(schedule, since)
        if first is None or first > until:
            return None
        return Timestamp(first + floor((until - first) / spec.every_seconds) * spec.every_seconds)
    return latest_time(read_cron(spec.cron), time_zone(spec.time_zone), since, until)
