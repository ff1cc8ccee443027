"""Handlers for pods, their logs, and events."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime

from aiohttp import web

from gangline import operations
from gangline.api.kubernetes.answers import list_object, object_answer, stream_answer
from gangline.api.kubernetes.event_objects import job_to_events
from gangline.api.kubernetes.job_objects import pod_kind_of
from gangline.api.kubernetes.plain import Plain, text, texts
from gangline.api.kubernetes.pod_objects import candidates, pods_of
from gangline.api.kubernetes.requests import (
    all_jobs,
    context_of,
    find_job,
    name_of,
    number_in,
    refuse_watching,
    switched_on,
    tenant_of,
)
from gangline.api.kubernetes.selectors import equal_value, matches, parse_fields, parse_labels
from gangline.dialects.kubeflow.status import JOB_NAME_LABEL
from gangline.errors import InvalidInputError, NotFoundError
from gangline.model import Job, LogLine, ReplicaId, Timestamp

_JOURNAL = 10_000
_POD_FIELDS = ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase")
_EVENT_FIELDS = ("reason", "type", *(f"involvedObject.{name}" for name in ("kind", "name", "namespace", "uid")))


async def listing(request: web.Request) -> web.Response:
    """Return pods by label and field."""
    refuse_watching(request)
    labels = parse_labels(request.query.get("labelSelector"))
    wanted = parse_fields(request.query.get("fieldSelector"), _POD_FIELDS)
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
    context = context_of(request)
    attempt = job.attempt - 1 if switched_on(request, "previous") else job.attempt
    if attempt < 1:
        raise InvalidInputError(f"pod '{name_of(request)}' has no output yet, or no earlier attempt", field="previous")
    wanted = operations.LogFilter(
        attempt=attempt,
        role=replica.role,
        index=replica.index,
        since=_since(request, context.clock.now()),
        tail=number_in(request, "tailLines"),
    )
    lines = operations.logs(context, tenant_of(request), job.id, wanted, follow=switched_on(request, "follow"))
    written = _text(lines, stamped=switched_on(request, "timestamps"), most_bytes=number_in(request, "limitBytes"))
    return await stream_answer(request, written, content_type="text/plain; charset=utf-8")


async def events(request: web.Request) -> web.Response:
    """Return what happened to the jobs of a namespace and their pods."""
    refuse_watching(request)
    wanted = parse_fields(request.query.get("fieldSelector"), _EVENT_FIELDS)
    found = [event async for job in all_jobs(request) for event in await _events_of(request, job)]
    chosen = [event for event in found if matches(wanted, _event_fields(event))]
    return object_answer(list_object("Event", "v1", chosen))


async def _events_of(request: web.Request, job: Job) -> list[Plain]:
    kind = pod_kind_of(job.spec)
    if kind is None:
        return []
    try:
        journal = await operations.journal(context_of(request), tenant_of(request), job.id, limit=_JOURNAL)
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


async def _text(
    lines: AsyncGenerator[LogLine, None], *, stamped: bool, most_bytes: int | None
) -> AsyncGenerator[bytes, None]:
    left = most_bytes
    async with aclosing(lines):
        async for line in lines:
            moment = f"{datetime.fromtimestamp(line.at, UTC).isoformat().replace('+00:00', 'Z')} " if stamped else ""
            chunk = f"{moment}{line.text}\n".encode()[:left]
            yield chunk
            if left is not None:
                left -= len(chunk)
                if not left:
                    return


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
        raise InvalidInputError(f"'{moment}' is not a time", field="sinceTime", expected="RFC 3339") from error


def _pod_fields(pod: Plain) -> dict[str, str]:
    return {field: text(pod, *field.split(".")) or "" for field in _POD_FIELDS}


def _event_fields(event: Plain) -> dict[str, str]:
    return {field: text(event, *field.split(".")) or "" for field in _EVENT_FIELDS}
