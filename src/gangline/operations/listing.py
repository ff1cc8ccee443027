"""Finding jobs, and hearing of their changes as they happen."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from gangline.errors import NotFoundError, PermissionDeniedError, StorageError
from gangline.model import Job, JobId, JobPage, Tenant
from gangline.operations.context import OperationContext
from gangline.storage.interface import JobQuery
from gangline.storage.listing import matches
from gangline.wire import Change

_SEARCHED = 100
"""How many jobs with a name in theirs are looked at for one that has just that name."""


async def get_job(context: OperationContext, tenant: Tenant, reference: str) -> Job:
    """Return the tenant's job of that name, else of that id."""
    context.caller.check(tenant)
    try:
        return await context.store.find(tenant, reference)
    except NotFoundError as error:
        job = await _current(context, JobId(reference))
        if job is None or job.spec.tenant != tenant:
            raise await _with_other_tenant(context, error, reference) from error
        return job


async def _with_other_tenant(context: OperationContext, error: NotFoundError, name: str) -> NotFoundError:
    """Say whose job of that name there is, to somebody who may act for them; a file may have named another tenant."""
    if context.caller.tenants is not None or error.kind != "job":
        return error
    try:
        page = await list_jobs(context, None, JobQuery(text=name, limit=_SEARCHED))
    except StorageError:
        return error  # on a cluster they may not look into other namespaces
    owner = next((job.spec.tenant for job in page.jobs if job.name == name), None)
    return error if owner is None else NotFoundError("job", name, hint=f"tenant '{owner}' has one: --tenant {owner}")


async def list_jobs(context: OperationContext, tenant: Tenant | None, query: JobQuery) -> JobPage:
    """Return one page of the tenant's jobs, newest first; of all tenants' for None."""
    return await _seeing(context, tenant).store.list(replace(query, tenant=tenant))


def _seeing(context: OperationContext, tenant: Tenant | None) -> OperationContext:
    """Return what sees the tenant's jobs, or all for None; refuses a caller that may not."""
    if tenant is not None:
        context.caller.check(tenant)
        return context
    if context.caller.tenants is not None:
        raise PermissionDeniedError(f"{context.caller.name} may not list the jobs of all tenants")
    return context.whole or context


async def unfinished_jobs(context: OperationContext) -> list[Job]:
    """Return everything that waits or runs, of every tenant that the caller may act for, in no particular order."""
    tenants = context.caller.tenants
    return [job async for job in context.store.unfinished() if tenants is None or job.spec.tenant in tenants]


async def watch_job(context: OperationContext, tenant: Tenant, reference: str) -> AsyncGenerator[Change, None]:
    """Return a job as it is and after every change; ends with its removal."""
    job_id = (await get_job(context, tenant, reference)).id
    changes = context.link.watch()
    job = await _current(context, job_id)
    yield Change(job_id=job_id, job=job)
    while job is not None:
        if await anext(changes) == job_id:
            job = await _current(context, job_id)
            yield Change(job_id=job_id, job=job)


async def watch_jobs(
    context: OperationContext, tenant: Tenant | None, query: JobQuery, *, whole: bool = False
) -> AsyncGenerator[Change, None]:
    """Return the jobs of the query's page, oldest first, then every job of it and every new one that changes.

    No tenant means all of them. With ``whole``, those of the pages after it come too. A job that stops matching (a
    phase filter, say) is told of once more, so that a view can let it go.
    """
    context = _seeing(context, tenant)
    query = replace(query, tenant=tenant)
    changes = context.link.watch()
    shown: set[JobId] = set()
    page = await list_jobs(context, tenant, query)
    jobs = page.jobs
    while whole and page.next is not None:
        page = await list_jobs(context, tenant, replace(query, after=page.next))
        jobs += page.jobs
    for job in reversed(jobs):
        shown.add(job.id)
        yield Change(job_id=job.id, job=job)
    async for job_id in changes:
        if (change := await change_of(context, tenant, query, shown, job_id)) is not None:
            yield change


async def change_of(
    context: OperationContext, tenant: Tenant | None, query: JobQuery, shown: set[JobId], job_id: JobId
) -> Change | None:
    """Return what to tell somebody of a job that changed, to whom some are shown already; None for nothing."""
    current = await _current(_seeing(context, tenant), job_id)
    if current is None:
        if job_id not in shown:
            return None
        shown.discard(job_id)
    elif tenant not in (None, current.spec.tenant):
        return None
    elif job_id in shown or matches(current, replace(query, tenant=tenant)):
        shown.add(job_id)
    else:
        return None
    return Change(job_id=job_id, job=current)


async def _current(context: OperationContext, job_id: JobId) -> Job | None:
    try:
        return await context.store.get(job_id)
    except NotFoundError:
        return None
