"""Handlers for experiments: groups of runs."""

import hashlib
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from gangline import operations
from gangline.api.kfp.answers import Plain, PreconditionError, answer, given, time_text
from gangline.api.kfp.listing import Fields
from gangline.api.kfp.requests import (
    context_of,
    every,
    find,
    id_of,
    listed,
    object_of,
    tenant_of,
    text_in,
)
from gangline.errors import ConflictError, InvalidInputError
from gangline.kinds.pipeline import PIPELINE
from gangline.kinds.schedule import SCHEDULE
from gangline.kinds.template import RUN_EXPERIMENT
from gangline.model import DEFAULT_TENANT, Tenant
from gangline.model.kinds.template import RunExperiment, RunExperimentSpec, name_for
from gangline.model.record import RecordId

DEFAULT = "Default"
"""The experiment of runs that name none."""

STORAGE = {False: "AVAILABLE", True: "ARCHIVED"}


def title(found: RunExperiment) -> str:
    """Return what its user calls it."""
    return found.spec.display_name or found.name


FIELDS: Fields[RunExperiment] = {
    "id": lambda found: found.name,
    "experiment_id": lambda found: found.name,
    "name": title,
    "display_name": title,
    "description": lambda found: found.spec.description,
    "created_at": lambda found: float(found.created_at),
    "namespace": lambda found: str(found.tenant),
    "storage_state": lambda found: STORAGE[found.status.archived],
}


async def ensure(request: web.Request, tenant: Tenant, display_name: str, description: str = "") -> RunExperiment:
    """Return the experiment of that name; it is made if there is none."""
    name = name_for(display_name, "display_name")
    spec = RunExperimentSpec(name=name, tenant=tenant, display_name=display_name, description=description)
    record_id = f"e-{name}"[:63]
    if tenant != DEFAULT_TENANT:  # ids are unique across tenants, names are not
        record_id = f"e{hashlib.sha256(f'{tenant}/{name}'.encode()).hexdigest()[:14]}"
    return await operations.create_record(context_of(request), RUN_EXPERIMENT, RecordId(record_id), spec)


async def chosen(request: web.Request, document: Mapping[str, Any]) -> RunExperiment:
    """Return the experiment that a new run belongs to."""
    named = text_in(document, "experiment_id")
    if not named:
        tenant = tenant_of(request, text_in(document, "namespace"))
        found = await _default(request, tenant)
    else:
        found = await find(request, RUN_EXPERIMENT, named)
    if found.status.archived:
        raise PreconditionError(f"the experiment '{title(found)}' is archived; unarchive it first")
    return found


async def _default(request: web.Request, tenant: Tenant) -> RunExperiment:
    known = [each for each in await every(request, RUN_EXPERIMENT, tenant) if title(each) == DEFAULT]
    return known[0] if known else await ensure(request, tenant, DEFAULT)


async def create(request: web.Request) -> web.Response:
    """Make an experiment."""
    body = await object_of(request)
    tenant = tenant_of(request, text_in(body, "namespace"))
    display_name = text_in(body, "display_name")
    if not display_name:
        raise InvalidInputError("the experiment has no name", field="display_name", expected="a name")
    if any(title(each) == display_name for each in await every(request, RUN_EXPERIMENT, tenant)):
        raise ConflictError(f"there already is an experiment named '{display_name}'")
    made = await ensure(request, tenant, display_name, text_in(body, "description"))
    return answer(plain(request, made))


async def listing(request: web.Request) -> web.Response:
    """Return a page of experiments."""
    page, rest = await listed(request, RUN_EXPERIMENT, FIELDS, tenant_of(request))
    return answer({"experiments": [plain(request, each) for each in page], **rest})


async def archive(request: web.Request) -> web.Response:
    """Set an experiment aside with its runs, and pause its schedules."""
    found = await find(request, RUN_EXPERIMENT, request.match_info["id"])
    context, tenant = context_of(request), found.tenant
    await operations.do_verb(context, RUN_EXPERIMENT, tenant, found.name, "archive")
    assert tenant is not None
    for run in await every(request, PIPELINE, tenant):
        if run.spec.experiment == found.name:
            await operations.do_verb(context, PIPELINE, tenant, run.name, "archive")
    for schedule in await every(request, SCHEDULE, tenant):
        if schedule.spec.pipeline.experiment == found.name:
            await operations.do_verb(context, SCHEDULE, tenant, schedule.name, "pause")
    return answer()


def plain(request: web.Request, found: RunExperiment) -> Plain:
    """Write an experiment."""
    return given(
        {
            "experiment_id": id_of(request, found),
            "display_name": title(found),
            "description": found.spec.description,
            "created_at": time_text(found.created_at),
            "namespace": found.tenant,
            "storage_state": STORAGE[found.status.archived],
        }
    )
