"""Handlers for training jobs: create, get, list, watch, patch, replace, delete."""

import json
import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from http import HTTPStatus

from aiohttp import web

from gangline import operations
from gangline.api.bodies import whole_body
from gangline.api.kubernetes.answers import list_object, object_answer, stream_answer, success_object
from gangline.api.kubernetes.changing import change_job
from gangline.api.kubernetes.job_objects import is_shown, job_to_object, named
from gangline.api.kubernetes.plain import Plain, decode_object, merged, part, text
from gangline.api.kubernetes.requests import (
    all_jobs,
    check_version,
    context_of,
    deletion_is_trial,
    find_job,
    is_trial,
    kind_in,
    name_of,
    number_in,
    switched_on,
    tenant_of,
    version_of,
)
from gangline.api.kubernetes.selectors import Selector, matches, parse_fields, parse_labels
from gangline.api.kubernetes.translating import translate
from gangline.dialects.kubeflow import GROUP, Kind
from gangline.errors import InvalidInputError
from gangline.lifecycle import new_job
from gangline.model import Job, JobId
from gangline.storage.interface import JobQuery

_FIELDS = ("metadata.name", "metadata.namespace")


async def create(request: web.Request) -> web.Response:
    """Submit the job in the body."""
    kind, version, tenant, context = kind_in(request), version_of(request), tenant_of(request), context_of(request)
    document = decode_object(await whole_body(request))
    identity = str(uuid.uuid4())
    name = named(document, suffix=identity[:5])
    given = text(document, "metadata", "namespace")
    if given not in (None, tenant):
        raise InvalidInputError(f"'{given}' is not the one in the path", field="metadata.namespace", expected=tenant)
    document["metadata"] = {**part(document, "metadata"), "namespace": tenant} | ({"name": name} if name else {})
    translation = translate(document, kind, version)
    if is_trial(request):
        job = new_job(JobId(identity), translation.spec, context.clock.now(), halted=translation.suspended)
    else:
        job = await operations.submit(context, JobId(identity), translation.spec, halted=translation.suspended)
    notes = (*translation.notes, *translation.local_notes)
    return object_answer(job_to_object(job, kind, version), HTTPStatus.CREATED, warnings=notes)


async def get(request: web.Request) -> web.Response:
    """Return one job."""
    kind = kind_in(request)
    return object_answer(job_to_object(await find_job(request, name_of(request), kind), kind, version_of(request)))


async def listing(request: web.Request) -> web.StreamResponse:
    """Return the jobs of one kind, or watch them."""
    kind, version = kind_in(request), version_of(request)
    wanted = parse_labels(request.query.get("labelSelector"))
    fields = parse_fields(request.query.get("fieldSelector"), _FIELDS)
    if switched_on(request, "watch"):
        if switched_on(request, "sendInitialEvents"):
            # Clients that ask for it wait for a bookmark which never comes; refused, they list and watch.
            raise InvalidInputError(
                "the initial events are always sent", field="sendInitialEvents", expected="no such field"
            )
        changes = _changes(request, kind, wanted, fields)
        seconds = number_in(request, "timeoutSeconds") or None
        return await stream_answer(request, changes, content_type="application/json", seconds=seconds)
    found = [job async for job in all_jobs(request, kind) if _wanted(job, wanted, fields)]
    found.sort(key=lambda job: job.name)
    objects = [job_to_object(job, kind, version) for job in found]
    return object_answer(list_object(kind.name, f"{GROUP}/{version}", objects))


async def patch(request: web.Request) -> web.Response:
    """Merge the body into a job: suspend or resume it, scale it, change its labels; before it has run, anything."""
    if request.content_type == "application/json-patch+json":
        raise web.HTTPUnsupportedMediaType(text="send a merge patch (application/merge-patch+json)")
    change = decode_object(await whole_body(request))
    return await _changed(request, lambda current: merged(current, change), change)


async def put(request: web.Request) -> web.Response:
    """Replace a job by the one in the body; the same rules as for a patch."""
    document = decode_object(await whole_body(request))
    return await _changed(request, lambda current: document, document)


async def delete(request: web.Request) -> web.Response:
    """Delete a job."""
    kind = kind_in(request)
    job = await find_job(request, name_of(request), kind)
    if not await deletion_is_trial(request, uid=job.id, version=str(job.version)):
        await operations.delete(context_of(request), tenant_of(request), job.id)
    return object_answer(success_object(job.name, kind.plural, job.id))


async def _changed(request: web.Request, change: Callable[[Plain], object], sent: Plain) -> web.Response:
    if is_trial(request):
        raise web.HTTPBadRequest(text="a change of a job cannot be tried here (dryRun); nothing was changed")
    kind, version = kind_in(request), version_of(request)
    job = await find_job(request, name_of(request), kind)
    check_version(part(sent, "metadata"), str(job.version))
    current = job_to_object(job, kind, version)
    wanted = change(current)
    if not isinstance(wanted, dict) or part(wanted, "metadata").get("name") != job.name:
        raise InvalidInputError("the name cannot change", field="metadata.name", expected=f"'{job.name}'")
    job = await change_job(context_of(request), job, kind, version, before=current, after=wanted)
    return object_answer(job_to_object(job, kind, version))


async def _changes(
    request: web.Request, kind: Kind, wanted: tuple[Selector, ...], fields: tuple[Selector, ...]
) -> AsyncGenerator[bytes, None]:
    """Every job as it is, then every change. A client that listed before sees some jobs twice, which it can tell."""
    context, version = context_of(request), version_of(request)
    shown: dict[JobId, Job] = {}
    async for change in operations.watch_jobs(context, tenant_of(request), JobQuery(limit=500), whole=True):
        job, known = change.job, shown.get(change.job_id)
        if job is not None and is_shown(job, kind) and _wanted(job, wanted, fields):
            shown[job.id] = job
            yield _event("MODIFIED" if known else "ADDED", job_to_object(job, kind, version))
        elif known is not None:
            del shown[change.job_id]
            last = replace(known, version=known.version + 1) if job is None else job
            yield _event("DELETED", job_to_object(last, kind, version))


def _event(word: str, found: Plain) -> bytes:
    return json.dumps({"type": word, "object": found}).encode() + b"\n"


def _wanted(job: Job, wanted: tuple[Selector, ...], fields: tuple[Selector, ...]) -> bool:
    named = dict(zip(_FIELDS, (job.name, job.spec.tenant), strict=True))
    return matches(wanted, job.spec.labels) and matches(fields, named)
