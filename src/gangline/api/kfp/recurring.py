"""Handlers for recurring runs: schedules, in our words."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

from aiohttp import web

from gangline import operations
from gangline.api.kfp.answers import Plain, answer, given, time_text
from gangline.api.kfp.listing import Fields, read_request
from gangline.api.kfp.records import page_answer
from gangline.api.kfp.requests import (
    context_of,
    every,
    group_of,
    id_of,
    object_of,
    part_in,
    public_id,
    text_in,
)
from gangline.api.kfp.runs import source_plain, wanted_run
from gangline.errors import InvalidInputError
from gangline.kinds.schedule import SCHEDULE
from gangline.model import DEFAULT_TENANT
from gangline.model.kinds.schedule import LONGEST_NAME, Schedule, ScheduleSpec
from gangline.model.record import RecordId

_MODES = {"": False, "MODE_UNSPECIFIED": False, "ENABLE": False, "DISABLE": True}
"""Whether a schedule is paused."""


def title(found: Schedule) -> str:
    """Return what its user calls it."""
    return found.spec.pipeline.display_name or found.name


def _status(found: Schedule) -> str:
    return "DISABLED" if found.spec.paused else "ENABLED"


FIELDS: Fields[Schedule] = {
    "id": lambda found: found.name,
    "recurring_run_id": lambda found: found.name,
    "name": title,
    "display_name": title,
    "description": lambda found: found.spec.description,
    "created_at": lambda found: float(found.created_at),
    "status": _status,
    "experiment_id": lambda found: found.spec.pipeline.experiment,
    "namespace": lambda found: str(found.tenant),
}


async def create(request: web.Request) -> web.Response:
    """Make a schedule."""
    body = await object_of(request)
    pipeline = await wanted_run(request, body)
    mode = text_in(body, "mode")
    if mode not in _MODES:
        raise InvalidInputError(f"'{mode}' is not a mode", field="mode", expected="ENABLE or DISABLE")
    suffix = uuid4().hex[:5]
    stem = pipeline.name.rpartition("-")[0][: LONGEST_NAME - 6].strip("-")
    spec = ScheduleSpec(
        name=f"{stem}-{suffix}",
        tenant=pipeline.tenant,
        pipeline=replace(pipeline, name="pipeline", tenant=DEFAULT_TENANT, description=""),
        catch_up=not _truth(body, "no_catchup"),
        at_most=_number(body.get("max_concurrency", 1), "max_concurrency"),
        paused=_MODES[mode],
        description=text_in(body, "description"),
        **_trigger(part_in(body, "trigger")),
    )
    made = await operations.create_record(context_of(request), SCHEDULE, RecordId(f"c{uuid4().hex[:14]}"), spec)
    return answer(plain(request, made))


def _trigger(trigger: Mapping[str, Any]) -> Plain:
    cron = part_in(trigger, "cron_schedule", "trigger.")
    periodic = part_in(trigger, "periodic_schedule", "trigger.")
    if bool(cron) == bool(periodic):
        raise InvalidInputError(
            "it is not said when to run", field="trigger", expected="either cron_schedule or periodic_schedule"
        )
    where = "trigger.cron_schedule." if cron else "trigger.periodic_schedule."
    found: Plain = {
        "start": text_in(cron or periodic, "start_time", where),
        "end": text_in(cron or periodic, "end_time", where),
    }
    if cron:
        return {**found, **_cron(text_in(cron, "cron", where))}
    return {**found, "every_seconds": float(_number(periodic.get("interval_second"), f"{where}interval_second"))}


def _cron(text: str) -> Plain:
    """Read an expression; it may say in front whose clock it means."""
    first, _, rest = text.strip().partition(" ")
    for prefix in ("CRON_TZ=", "TZ="):
        if first.startswith(prefix):
            return {"time_zone": first.removeprefix(prefix), "cron": rest.strip()}
    return {"cron": text.strip()}


def _number(found: object, field: str) -> int:
    """Read a number that clients write as text."""
    text = str(found)
    if isinstance(found, bool | float) or not (text.isascii() and text.isdigit() and len(text) < 12):
        raise InvalidInputError(f"{found!r} is not understood", field=field, expected="a whole number")
    return int(text)


def _truth(body: Mapping[str, Any], field: str) -> bool:
    found = body.get(field)
    if found not in (None, True, False):
        raise InvalidInputError(f"{found!r} is not understood", field=field, expected="true or false")
    return bool(found)


async def listing(request: web.Request) -> web.Response:
    """Return a page of schedules, of one experiment if it is named."""
    wanted = read_request(request.query, FIELDS)
    tenant, experiment = group_of(request)
    schedules = await every(request, SCHEDULE, tenant)
    known = [each for each in schedules if experiment in ("", each.spec.pipeline.experiment)]
    page, token, total = wanted.page(known, lambda each: each.name)
    return page_answer("recurringRuns", [plain(request, each) for each in page], token, total)


def plain(request: web.Request, found: Schedule) -> Plain:
    """Write a schedule."""
    spec, tenant = found.spec, found.tenant or DEFAULT_TENANT
    between = given({"start_time": spec.start, "end_time": spec.end})
    zone = "" if spec.time_zone == "UTC" else f"CRON_TZ={spec.time_zone} "
    trigger = (
        {"cron_schedule": {**between, "cron": f"{zone}{spec.cron}"}}
        if spec.cron
        else {"periodic_schedule": {**between, "interval_second": str(int(spec.every_seconds))}}
    )
    return given(
        {
            "recurring_run_id": id_of(request, found),
            "display_name": title(found),
            "description": spec.description,
            **source_plain(request, replace(spec.pipeline, tenant=tenant)),
            "max_concurrency": str(spec.at_most),
            "trigger": trigger,
            "mode": "DISABLE" if spec.paused else "ENABLE",
            "created_at": time_text(found.created_at),
            "updated_at": time_text(found.status.last_at or found.created_at),
            "status": _status(found),
            "no_catchup": not spec.catch_up,
            "namespace": tenant,
            "experiment_id": public_id(request, tenant, spec.pipeline.experiment),
        }
    )
