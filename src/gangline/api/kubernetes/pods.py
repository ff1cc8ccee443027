"""Handlers for pods, their logs, and events."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from aiohttp import web

from gangline import operations
from gangline.api.kubernetes.answers import list_object, object_answer, stream_answer
from gangline.api.kubernetes.event_objects import job_to_events
from gangline.api.kubernetes.plain import Plain, text, texts
from gangline.api.kubernetes.pod_objects import candidates, pods_of
from gangline.api.kubernetes.requests import (
    all_jobs,
    desk_of,
    find_job,
    name_of,
    number_in,
    refuse_watching,
    switched_on,
    tenant_of,
)
from gangline.api.kubernetes.selectors import equal_value, matches, parse_selector
from gangline.dialects.kubeflow import kind_of
from gangline.dialects.kubeflow.status import JOB_NAME_LABEL
from gangline.engines.interface import LogLine
from gangline.errors import InvalidInputError, NotFoundError
from gangline.model import Job, ReplicaId, Timestamp

_JOURNAL = 10_000
_INVOLVED = ("kind", "name", "namespace", "uid")


async def listing(request: web.Request) -> web.Response:
    """Return pods by label and field."""
    refuse_watching(request)
    labels = parse_selector(request.query.get("labelSelector"), "labelSelector")
    wanted = parse_selector(request.query.get("fieldSelector"), "fieldSelector")
    found = [
        pod
        for job in await _jobs(request, equal_value(request.query.get("labelSelector"), JOB_NAME_LABEL))
        for pod in pods_of(job)
        if matches(labels, texts(pod, "metadata", "labels")) and matches(wanted, _pod_fields(pod))
    ]
    return object_answer(list_object("Pod", "v1", found))


async def get(request: web.Request) -> web.Response:
    """Return one pod."""
    job, _ = await _replica(request)
    for pod in pods_of(job):
        if text(pod, "metadata", "name") == name_of(request):
            return object_answer(pod)
    raise NotFoundError("pod", name_of(request))


async def log(request: web.Request) -> web.StreamResponse:
    """Return what a pod has written; ``follow`` goes on until its attempt is over."""
    job, replica = await _replica(request)
    desk = desk_of(request)
    attempt = job.attempt - 1 if switched_on(request, "previous") else job.attempt
    if attempt < 1:
        raise InvalidInputError(f"pod '{name_of(request)}' has no output yet, or no earlier attempt", field="previous")
    wanted = operations.LogFilter(
        attempt=attempt,
        role=replica.role,
        index=replica.index,
        since=_since(request, desk.clock.now()),
        tail=number_in(request, "tailLines"),
    )
    lines = operations.logs(desk, tenant_of(request), job.id, wanted, follow=switched_on(request, "follow"))
    stamped = switched_on(request, "timestamps")
    return await stream_answer(request, _text(lines, stamped=stamped), content_type="text/plain; charset=utf-8")


async def events(request: web.Request) -> web.Response:
    """Return what happened to the jobs of a namespace and their pods."""
    refuse_watching(request)
    wanted = parse_selector(request.query.get("fieldSelector"), "fieldSelector")
    found = [event async for job in all_jobs(request) for event in await _events_of(request, job)]
    chosen = [event for event in found if matches(wanted, _event_fields(event))]
    return object_answer(list_object("Event", "v1", chosen))


async def _events_of(request: web.Request, job: Job) -> list[Plain]:
    kind = kind_of(job.spec)
    if kind is None:
        return []
    try:
        journal = await operations.journal(desk_of(request), tenant_of(request), job.id, limit=_JOURNAL)
    except NotFoundError:
        return []  # it was removed since it was listed
    return list(job_to_events(job, kind, journal))


async def _jobs(request: web.Request, name: str | None) -> list[Job]:
    if name is None:
        return [job async for job in all_jobs(request)]
    try:
        return [await find_job(request, name)]
    except NotFoundError:
        return []


async def _replica(request: web.Request) -> tuple[Job, ReplicaId]:
    """Find whose pod the path speaks of."""
    for name, replica in candidates(name_of(request)):
        for job in await _jobs(request, name):
            if job.replica(replica) is not None:
                return job, replica
    raise NotFoundError("pod", name_of(request))


async def _text(lines: AsyncGenerator[LogLine, None], *, stamped: bool) -> AsyncGenerator[bytes, None]:
    async for line in lines:
        moment = f"{datetime.fromtimestamp(line.at, UTC).isoformat().replace('+00:00', 'Z')} " if stamped else ""
        yield f"{moment}{line.text}\n".encode()


def _since(request: web.Request, now: Timestamp) -> Timestamp | None:
    seconds = number_in(request, "sinceSeconds")
    if seconds is not None:
        return Timestamp(now - seconds)
    moment = request.query.get("sinceTime")
    if moment is None:
        return None
    try:
        return Timestamp(datetime.fromisoformat(moment).timestamp())
    except ValueError as error:
        raise InvalidInputError(f"'{moment}' is no time", field="sinceTime", expected="RFC 3339") from error


def _pod_fields(pod: Plain) -> dict[str, str]:
    paths = (("metadata", "name"), ("metadata", "namespace"), ("spec", "nodeName"), ("status", "phase"))
    return {".".join(path): text(pod, *path) or "" for path in paths}


def _event_fields(event: Plain) -> dict[str, str]:
    involved = {f"involvedObject.{name}": text(event, "involvedObject", name) or "" for name in _INVOLVED}
    return {**involved, "reason": text(event, "reason") or "", "type": text(event, "type") or ""}
