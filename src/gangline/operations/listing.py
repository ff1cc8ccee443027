"""Finding jobs, and hearing of their changes as they happen."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from gangline.errors import NotFoundError, PermissionDeniedError, StorageError
from gangline.model import Job, JobId, JobPage, Tenant
from gangline.operations.desk import Desk
from gangline.storage.interface import JobQuery
from gangline.storage.listing import matches
from gangline.wire import Change

_SEARCHED = 100
"""How many jobs with a name in theirs are looked at for one that has just that name."""


async def get_job(desk: Desk, tenant: Tenant, reference: str) -> Job:
    """Return the tenant's job of that name, else of that id."""
    desk.caller.check(tenant)
    try:
        return await desk.store.find(tenant, reference)
    except NotFoundError as error:
        job = await _current(desk, JobId(reference))
        if job is None or job.spec.tenant != tenant:
            raise await _with_other_tenant(desk, error, reference) from error
        return job


async def _with_other_tenant(desk: Desk, error: NotFoundError, name: str) -> NotFoundError:
    """Say whose job of that name there is, to somebody who may act for them; a file may have named another tenant."""
    if desk.caller.tenants is not None or error.kind != "job":
        return error
    try:
        page = await desk.store.list(JobQuery(text=name, limit=_SEARCHED))
    except StorageError:
        return error  # on a cluster they may not look into other namespaces
    owner = next((job.spec.tenant for job in page.jobs if job.name == name), None)
    return error if owner is None else NotFoundError("job", name, hint=f"tenant '{owner}' has one: --tenant {owner}")


async def list_jobs(desk: Desk, tenant: Tenant | None, query: JobQuery) -> JobPage:
    """Return one page of the tenant's jobs, newest first; of all tenants' for None."""
    if tenant is not None:
        desk.caller.check(tenant)
    elif desk.caller.tenants is not None:
        raise PermissionDeniedError(f"{desk.caller.name} may not list the jobs of all tenants")
    return await desk.store.list(replace(query, tenant=tenant))


async def unfinished_jobs(desk: Desk) -> list[Job]:
    """Return everything that waits or runs, of every tenant that the caller may act for, in no particular order."""
    tenants = desk.caller.tenants
    return [job async for job in desk.store.unfinished() if tenants is None or job.spec.tenant in tenants]


async def watch_job(desk: Desk, tenant: Tenant, reference: str) -> AsyncGenerator[Change, None]:
    """Return a job as it is and after every change; ends with its removal."""
    job_id = (await get_job(desk, tenant, reference)).id
    changes = desk.link.watch()
    job = await _current(desk, job_id)
    yield Change(job_id=job_id, job=job)
    while job is not None:
        if await anext(changes) == job_id:
            job = await _current(desk, job_id)
            yield Change(job_id=job_id, job=job)


async def watch_jobs(
    desk: Desk, tenant: Tenant, query: JobQuery, *, whole: bool = False
) -> AsyncGenerator[Change, None]:
    """Return the jobs of the query's page, oldest first, then every job of it and every new one that changes.

    With ``whole``, those of the pages after it come too. A job that stops matching (a phase filter, say) is told of
    once more, so that a view can let it go.
    """
    desk.caller.check(tenant)
    query = replace(query, tenant=tenant)
    changes = desk.link.watch()
    shown: set[JobId] = set()
    page = await list_jobs(desk, tenant, query)
    jobs = page.jobs
    while whole and page.next is not None:
        page = await list_jobs(desk, tenant, replace(query, after=page.next))
        jobs += page.jobs
    for job in reversed(jobs):
        shown.add(job.id)
        yield Change(job_id=job.id, job=job)
    async for job_id in changes:
        current = await _current(desk, job_id)
        if current is None:
            if job_id in shown:
                shown.discard(job_id)
                yield Change(job_id=job_id, job=None)
        elif job_id in shown or matches(current, query):
            shown.add(job_id)
            yield Change(job_id=job_id, job=current)


async def _current(desk: Desk, job_id: JobId) -> Job | None:
    try:
        return await desk.store.get(job_id)
    except NotFoundError:
        return None
