"""Handlers for jobs: submit, list, get, watch and every request that changes a job's life."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus

from aiohttp import web

from gangline import operations
from gangline.api import operation as row
from gangline.api.operation import Operation
from gangline.api.rest.answers import json_answer, last_event_of, stream_answer, wants_events
from gangline.api.rest.change_log import CHANGES, job_events
from gangline.api.rest.context import body_of, context_of, names_tenant, reference_of, tenant_of
from gangline.api.rest.conventions.repeated_requests import id_of_key
from gangline.api.rest.parameters import Parameters
from gangline.api.submissions import take_in
from gangline.dialects import Translation, read_plain
from gangline.dialects.native import pairs
from gangline.errors import InvalidInputError
from gangline.model import DEFAULT_TENANT, Job, JobId, JobPage, QueueName, ReplicaId, RoleName, Tenant, Timestamp
from gangline.model.team.access import Right
from gangline.operations import OperationContext
from gangline.storage.interface import JobQuery
from gangline.wire import Change

_LIST = {
    "queue": str,
    "phase": list[str],
    "label": list[str],
    "text": str,
    "created_since": Timestamp,
    "finished_before": Timestamp,
    "limit": int,
    "after": str,
    "watch": bool,
}
_MOST_PER_PAGE = 1000

Verb = Callable[[OperationContext, Tenant, str], Awaitable[Job]]


async def submit(request: web.Request) -> web.Response:
    """Take in the job in the body, in whichever dialect, under the id in the query; the same id, the same job."""
    parameters = Parameters(request)
    tenant, job_id = tenant_of(request), parameters.text("id") or id_of_key(request)
    if job_id is None:
        raise InvalidInputError("the job has no id", field="id", expected="an id of your choice, or an Idempotency-Key")
    body = await body_of(request, dict[str, object])
    found = read_plain(body)
    if len(found) != 1:
        raise InvalidInputError(f"the body holds {len(found)} jobs", field="body", expected="one job")
    job = found[0]
    if job.spec.tenant == DEFAULT_TENANT and not names_tenant(body):
        job = replace(job, spec=replace(job.spec, tenant=tenant))
    job = _for_tenant(job, tenant)
    submitted = await take_in(context_of(request), JobId(job_id), job, halted=parameters.truth("halted"))
    return json_answer(submitted, HTTPStatus.CREATED)


def _for_tenant(job: Translation, tenant: Tenant) -> Translation:
    """Refuse what belongs to another tenant than the path says, or to another controller than us."""
    if job.spec.tenant != tenant:
        raise InvalidInputError(
            f"the job belongs to tenant '{job.spec.tenant}'",
            field="metadata.tenant",
            expected=f"'{tenant}', as in the path",
        )
    if job.managed_by is not None:
        raise InvalidInputError(f"the job belongs to the controller '{job.managed_by}'", field="managedBy")
    return job


async def listing(request: web.Request) -> web.StreamResponse:
    """List a page of jobs, or stream them and every change to come."""
    return await _listing(request, tenant_of(request))


async def _listing(request: web.Request, tenant: Tenant | None) -> web.StreamResponse:
    context = context_of(request)
    query, watch = _query_of(request)
    if watch:
        # Who may not see them is refused here, while the answer can still have its proper status.
        await operations.list_jobs(context, tenant, replace(query, limit=1))
        if wants_events(request):
            events = job_events(context, tenant, query, request.app[CHANGES].of(context.link), last_event_of(request))
            return await stream_answer(request, events)
        return await stream_answer(request, operations.watch_jobs(context, tenant, query))
    return json_answer(await operations.list_jobs(context, tenant, query))


async def listing_of_all_tenants(request: web.Request) -> web.StreamResponse:
    """The same, whoever's they are."""
    return await _listing(request, None)


def _query_of(request: web.Request) -> tuple[JobQuery, bool]:
    """Read which jobs are meant, and whether they are to be watched."""
    parameters = Parameters(request)
    queue = parameters.text("queue")
    query = JobQuery(
        queue=None if queue is None else QueueName(queue),
        phases=parameters.phases("phase"),
        labels=tuple(pairs(tuple(parameters.texts("label")), "label").items()),
        text=parameters.text("text"),
        created_since=parameters.time("created_since"),
        finished_before=parameters.time("finished_before"),
        limit=parameters.number("limit", least=1, most=_MOST_PER_PAGE) or 100,
        after=parameters.text("after"),
    )
    return query, parameters.truth("watch")


async def unfinished(request: web.Request) -> web.Response:
    """List everything that waits or runs, whoever's it is: what a forecast starts from."""
    return json_answer(await operations.unfinished_jobs(context_of(request)))


async def get(request: web.Request) -> web.StreamResponse:
    """Return one job, or stream it and every change to come until it is gone."""
    parameters = Parameters(request)
    context, tenant, reference = context_of(request), tenant_of(request), reference_of(request)
    job = await operations.get_job(context, tenant, reference)
    if parameters.truth("watch"):
        return await stream_answer(request, operations.watch_job(context, tenant, job.id))
    return json_answer(job)


async def resume(request: web.Request) -> web.Response:
    """Let a halted job go on, from the checkpoint of the step in the query if there is one."""
    step = Parameters(request).number("from", least=0)
    job = await operations.resume(context_of(request), tenant_of(request), reference_of(request), step=step)
    return json_answer(job)


async def scale(request: web.Request) -> web.Response:
    """Ask for the replica counts in the body, by role."""
    wanted = {RoleName(role): count for role, count in (await body_of(request, dict[str, int])).items()}
    job = await operations.scale(context_of(request), tenant_of(request), reference_of(request), wanted)
    return json_answer(job)


async def label(request: web.Request) -> web.Response:
    """Give a job the labels in the body; null takes one away."""
    labels = await body_of(request, dict[str, str | None])
    return json_answer(await operations.label(context_of(request), tenant_of(request), reference_of(request), labels))


async def prune(request: web.Request) -> web.Response:
    """Delete every job that finished before the time given."""
    finished_before = Parameters(request).time("finished_before")
    if finished_before is None:
        raise InvalidInputError("no time is given", field="finished_before", expected="a time")
    jobs = await operations.prune(context_of(request), tenant_of(request), finished_before=finished_before)
    return json_answer({"names": [job.name for job in jobs]})


async def kill(request: web.Request) -> web.Response:
    """Kill the replica in the query; says whether it still ran."""
    replica = Parameters(request).text("replica")
    if replica is None:
        raise InvalidInputError("no replica is given", field="replica", expected="ROLE-INDEX, for example worker-0")
    context, tenant = context_of(request), tenant_of(request)
    killed = await operations.kill(context, tenant, reference_of(request), ReplicaId.parse(replica))
    return json_answer({"killed": killed})


def verb(operation: Verb) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Make the handler of a request that needs nothing but the job: halt, resume, cancel, delete."""

    async def handler(request: web.Request) -> web.Response:
        job = await operation(context_of(request), tenant_of(request), reference_of(request))
        return json_answer(job)

    handler.__doc__ = operation.__doc__
    return handler


def operations_here() -> list[Operation]:
    """Every operation of this module."""
    jobs = "/tenants/{tenant}/jobs"
    one = f"{jobs}/{{job}}"
    listed = {"query": _LIST, "answer": JobPage, "items": Change}
    new = {"query": {"id": str, "halted": bool}, "body": dict[str, object], "answer": Job, "status": HTTPStatus.CREATED}
    pruned = {"query": {"finished_before": Timestamp}, "answer": dict[str, list[str]]}
    return [
        row.post(Right.WRITE, jobs, submit, **new),
        row.get(Right.READ, jobs, listing, **listed),
        row.get(Right.OPERATE, "/jobs", listing_of_all_tenants, **listed),
        row.get(Right.READ, "/unfinished", unfinished, answer=list[Job]),
        row.post(Right.WRITE, "/tenants/{tenant}/prune", prune, **pruned),
        row.get(Right.READ, one, get, query={"watch": bool}, answer=Job, items=Change),
        row.delete(Right.WRITE, one, verb(operations.delete), answer=Job),
        row.post(Right.WRITE, f"{one}/halt", verb(operations.halt), answer=Job),
        row.post(Right.WRITE, f"{one}/resume", resume, query={"from": int}, answer=Job),
        row.post(Right.WRITE, f"{one}/cancel", verb(operations.cancel), answer=Job),
        row.post(Right.WRITE, f"{one}/scale", scale, body=dict[str, int], answer=Job),
        row.post(Right.WRITE, f"{one}/label", label, body=dict[str, str | None], answer=Job),
        row.post(Right.WRITE, f"{one}/kill", kill, query={"replica": str}, answer=dict[str, bool]),
    ]
