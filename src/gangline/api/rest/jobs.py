"""Handlers for jobs: submit, list, get, watch and every request that changes a job's life."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from gangline import operations
from gangline.api.rest.answers import json_answer, stream_answer
from gangline.api.rest.context import body_of, desk_of, reference_of, tenant_of
from gangline.api.rest.parameters import Parameters
from gangline.dialects import Translation, read_plain
from gangline.dialects.native import pairs
from gangline.errors import InvalidInputError
from gangline.model import Job, JobId, QueueName, ReplicaId, RoleName, Tenant
from gangline.operations import Desk
from gangline.storage.interface import JobQuery

_LIST = ("queue", "phase", "label", "text", "created_since", "finished_before", "limit", "after", "watch")
_MOST_PER_PAGE = 1000

Verb = Callable[[Desk, Tenant, str], Awaitable[Job]]


async def submit(request: web.Request) -> web.Response:
    """Take in the job in the body, in whichever dialect, under the id in the query; the same id, the same job."""
    parameters = Parameters(request, ("id", "halted"))
    tenant, job_id = tenant_of(request), parameters.text("id")
    if job_id is None:
        raise InvalidInputError("the job has no id", field="id", expected="an id of the client's choice")
    found = read_plain(await body_of(request, dict[str, object]))
    if len(found) != 1:
        raise InvalidInputError(f"the body holds {len(found)} jobs", field="body", expected="one job")
    job = _for_tenant(found[0], tenant)
    submitted = await operations.submit(
        desk_of(request),
        JobId(job_id),
        job.spec,
        halted=parameters.truth("halted") or job.suspended,
        notes=job.notes,
    )
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
    query, watch = _query_of(request, _LIST)
    desk, tenant = desk_of(request), tenant_of(request)
    if watch:
        return await stream_answer(request, operations.watch_jobs(desk, tenant, query))
    return json_answer(await operations.list_jobs(desk, tenant, query))


async def listing_of_all_tenants(request: web.Request) -> web.Response:
    """List a page of jobs, whoever's they are."""
    query, _ = _query_of(request, tuple(name for name in _LIST if name != "watch"))
    return json_answer(await operations.list_jobs(desk_of(request), None, query))


def _query_of(request: web.Request, known: tuple[str, ...]) -> tuple[JobQuery, bool]:
    """Read which jobs are meant, and whether they are to be watched."""
    parameters = Parameters(request, known)
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
    Parameters(request, ())
    return json_answer(await operations.unfinished_jobs(desk_of(request)))


async def get(request: web.Request) -> web.StreamResponse:
    """Return one job, or stream it and every change to come until it is gone."""
    parameters = Parameters(request, ("watch",))
    desk, tenant, reference = desk_of(request), tenant_of(request), reference_of(request)
    job = await operations.get_job(desk, tenant, reference)
    if parameters.truth("watch"):
        return await stream_answer(request, operations.watch_job(desk, tenant, job.id))
    return json_answer(job)


async def scale(request: web.Request) -> web.Response:
    """Ask for the replica counts in the body, by role."""
    Parameters(request, ())
    wanted = {RoleName(role): count for role, count in (await body_of(request, dict[str, int])).items()}
    job = await operations.scale(desk_of(request), tenant_of(request), reference_of(request), wanted)
    return json_answer(job)


async def prune(request: web.Request) -> web.Response:
    """Delete every job that finished before the time given."""
    finished_before = Parameters(request, ("finished_before",)).time("finished_before")
    if finished_before is None:
        raise InvalidInputError("no time is given", field="finished_before", expected="a time")
    jobs = await operations.prune(desk_of(request), tenant_of(request), finished_before=finished_before)
    return json_answer({"names": [job.name for job in jobs]})


async def kill(request: web.Request) -> web.Response:
    """Kill the replica in the query; says whether it still ran."""
    replica = Parameters(request, ("replica",)).text("replica")
    if replica is None:
        raise InvalidInputError("no replica is given", field="replica", expected="ROLE-INDEX, for example worker-0")
    desk, tenant = desk_of(request), tenant_of(request)
    killed = await operations.kill(desk, tenant, reference_of(request), ReplicaId.parse(replica))
    return json_answer({"killed": killed})


def verb(operation: Verb) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Make the handler of a request that needs nothing but the job: halt, resume, cancel, delete."""

    async def handler(request: web.Request) -> web.Response:
        Parameters(request, ())
        job = await operation(desk_of(request), tenant_of(request), reference_of(request))
        return json_answer(job)

    return handler


def routes() -> list[web.RouteDef]:
    """Every path of this module."""
    jobs = "/v1/tenants/{tenant}/jobs"
    one = f"{jobs}/{{job}}"
    return [
        web.post(jobs, submit),
        web.get(jobs, listing),
        web.get("/v1/jobs", listing_of_all_tenants),
        web.get("/v1/unfinished", unfinished),
        web.post("/v1/tenants/{tenant}/prune", prune),
        web.get(one, get),
        web.delete(one, verb(operations.delete)),
        web.post(f"{one}/halt", verb(operations.halt)),
        web.post(f"{one}/resume", verb(operations.resume)),
        web.post(f"{one}/cancel", verb(operations.cancel)),
        web.post(f"{one}/scale", scale),
        web.post(f"{one}/kill", kill),
    ]
