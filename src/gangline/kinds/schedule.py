"""The kind Schedule: runs of a pipeline that begin by themselves."""

import json
from dataclasses import replace
from datetime import UTC, datetime

from gangline.kinds.derived import derived_format
from gangline.kinds.kind import AnyKind, Column, Kind, NewRecord, Owned, Plain, Plan, Reader, Verb
from gangline.kinds.pipeline import PIPELINE, check_arguments, graph_of, object_spec
from gangline.model import Timestamp
from gangline.model.kinds.schedule import Schedule, ScheduleSpec, ScheduleStatus
from gangline.model.record import RecordId
from gangline.pipelines.cron import read_cron, time_zone
from gangline.pipelines.scheduling import plan_schedule, run_id, run_name_at


def _plan(schedule: Schedule, owned: Owned, now: Timestamp) -> Plan[ScheduleStatus]:
    wanted = plan_schedule(schedule, owned.made, now)
    make = tuple(NewRecord(each, spec) for each, spec in wanted.make)
    return Plan(status=wanted.status, make=make, again_at=wanted.again_at)


def _looks_for(schedule: Schedule) -> tuple[tuple[str, RecordId], ...]:
    active = (each.at for each in schedule.status.active if each.made)
    return tuple((run_name_at(schedule, at), run_id(schedule, at)) for at in active)


def _makes() -> AnyKind:
    return PIPELINE


async def _check(before: Schedule | None, after: Schedule | None, reader: Reader) -> None:
    """Refuse at once what could never run."""
    if after is None:
        return
    time_zone(after.spec.time_zone)
    if after.spec.cron:
        read_cron(after.spec.cron)
    check_arguments(graph_of(after.spec.pipeline.documents_json), json.loads(after.spec.pipeline.arguments_json))


def pause(schedule: Schedule) -> Schedule:
    """Begin no further run."""
    return _paused(schedule, paused=True)


def resume(schedule: Schedule) -> Schedule:
    """Begin runs again."""
    return _paused(schedule, paused=False)


def _paused(schedule: Schedule, *, paused: bool) -> Schedule:
    spec, status = replace(schedule.spec, paused=paused), replace(schedule.status, paused=paused)
    return replace(schedule, spec=spec, status=status)


def _next(schedule: Schedule) -> str | None:
    at = schedule.status.next_at
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


_FORMAT = derived_format(ScheduleSpec, "Schedule", "A pipeline, and when it is run.")


def _write_object(spec: ScheduleSpec) -> Plain:
    """Write a custom resource; see the kind Pipeline for its numbers."""
    found = _FORMAT.write(spec)
    return {**found, "spec": {**found["spec"], "pipeline": object_spec(spec.pipeline)}}


SCHEDULE: Kind[ScheduleSpec, ScheduleStatus, Schedule] = Kind(
    name="schedule",
    command="pipeline schedule",
    plural="schedules",
    summary="Run pipelines again and again.",
    queues=lambda spec: (spec.pipeline.queue,),
    description="A pipeline and when it is run.",
    spec=ScheduleSpec,
    status=ScheduleStatus,
    format=replace(_FORMAT, write_object=_write_object),
    answer=Schedule,
    editable=True,
    columns=(
        Column("STATE", lambda found: found.state),
        Column("WHEN", lambda found: found.spec.cron or f"every {found.spec.every_seconds:g} s"),
        Column("NEXT", _next),
        Column("RUNS", lambda found: found.status.begun),
        Column("UNFINISHED", lambda found: len(found.status.active)),
    ),
    verbs=(
        Verb("pause", "Begin no further run; those that run go on.", pause),
        Verb("resume", "Begin runs again.", resume),
    ),
    plan=_plan,
    makes=_makes,
    looks_for=_looks_for,
    check=_check,
)
