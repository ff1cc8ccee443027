"""Reading what a job left behind: its journal, its output, its metrics."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from gangline.engines.interface import LogQuery
from gangline.errors import InvalidInputError
from gangline.model import Job, JournalRecord, LogLine, MetricPage, Phase, RoleName, Tenant, Timestamp
from gangline.operations.context import OperationContext
from gangline.operations.listing import get_job, watch_job
from gangline.operations.thinning import ThinnedSeries
from gangline.storage.metrics import cursor_to_position, order_of, position_to_cursor

MOST_METRICS = 10_000
"""How many values one page has at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """Which lines of a job's output a user wants; ``attempt`` None means the last one (or, following, all to come)."""

    attempt: int | None = None
    role: RoleName | None = None
    index: int | None = None
    since: Timestamp | None = None
    tail: int | None = None


async def journal(
    context: OperationContext,
    tenant: Tenant,
    reference: str,
    *,
    after: int = 0,
    limit: int = 1000,
    newest: bool = False,
) -> Sequence[JournalRecord]:
    """Return what happened to a job, oldest first: the first ``limit`` records, or the ``newest``."""
    job = await get_job(context, tenant, reference)
    return await context.store.journal(job.id, after=after, limit=limit, newest=newest)


async def metrics(
    context: OperationContext,
    tenant: Tenant,
    reference: str,
    *,
    name: str | None = None,
    since: Timestamp | None = None,
    after: str | None = None,
    limit: int = MOST_METRICS,
) -> MetricPage:
    """Return a page of what the job's training code reported, oldest first."""
    job = await get_job(context, tenant, reference)
    start = None if after is None else cursor_to_position(after)
    found = tuple(await context.store.metrics(job.id, name=name, since=since, after=start, limit=limit))
    following = position_to_cursor(order_of(found[-1])) if len(found) == limit else None
    return MetricPage(metrics=found, next=following, complete=await context.store.has_all_metrics(job.id))


async def thinned_metrics(
    context: OperationContext,
    tenant: Tenant,
    reference: str,
    *,
    name: str | None = None,
    since: Timestamp | None = None,
    points: int,
) -> MetricPage:
    """Return at most this many values of each metric of each replica, which draw the same curves as all of them."""
    job = await get_job(context, tenant, reference)
    thinned, after = ThinnedSeries(points), None
    while True:
        found = await context.store.metrics(job.id, name=name, since=since, after=after, limit=MOST_METRICS)
        thinned.add(found)
        if len(found) < MOST_METRICS:
            break
        after = order_of(found[-1])
    complete = await context.store.has_all_metrics(job.id)
    return MetricPage(metrics=thinned.kept(), total=thinned.total, complete=complete)


async def latest_metrics(context: OperationContext, tenant: Tenant, reference: str) -> MetricPage:
    """Return the newest value of every metric of every replica of a job."""
    job = await get_job(context, tenant, reference)
    return MetricPage(metrics=tuple(await context.store.latest_metrics([job.id])))


async def logs(
    context: OperationContext, tenant: Tenant, reference: str, wanted: LogFilter, *, follow: bool = False
) -> AsyncGenerator[LogLine, None]:
    """Return a job's output, oldest first.

    Following goes on through restarts and preemptions until the job rests: it is finished or halted, and all
    that it wrote has been read. A job that still waits for machines is waited for.
    """
    job = await get_job(context, tenant, reference)
    _check_index(job, wanted)
    _check_attempt(job, wanted.attempt)
    query = LogQuery(
        job_id=job.id,
        attempt=wanted.attempt,
        role=_known_role(job, wanted.role),
        index=wanted.index,
        since=wanted.since,
        tail=wanted.tail,
        follow=follow,
    )
    lines = context.engine.logs(query) if not follow or wanted.attempt else _follow(context, tenant, job, query)
    async for line in lines:
        yield line


async def _follow(
    context: OperationContext, tenant: Tenant, job: Job, query: LogQuery
) -> AsyncGenerator[LogLine, None]:
    attempt = max(job.attempt, 1)
    async with aclosing(watch_job(context, tenant, job.id)) as changes:
        async for change in changes:
            # One change may stand for several: catch up with every attempt there has been since.
            while change.job is not None and change.job.attempt >= attempt:
                silent = True
                async for line in context.engine.logs(replace(query, attempt=attempt)):
                    silent = False
                    yield line
                if silent and change.job.attempt == attempt and not _at_rest(change.job):
                    break  # a start is recorded before the engine hears of it: there may be nothing to read yet
                attempt += 1
            if change.job is None or _at_rest(change.job):
                return


def _at_rest(job: Job) -> bool:
    return job.finished or job.phase is Phase.HALTED


def _known_role(job: Job, role: RoleName | None) -> RoleName | None:
    names = [known.name for known in job.spec.roles]
    if role is not None and role not in names:
        raise InvalidInputError(
            f"job '{job.name}' has no role '{role}'", field="role", expected=f"one of {', '.join(names)}"
        )
    return role


def _check_index(job: Job, wanted: LogFilter) -> None:
    roles = [role for role in job.spec.roles if wanted.role in (None, role.name)]
    most = max((role.most for role in roles), default=0)
    if wanted.index is not None and roles and not 0 <= wanted.index < most:
        raise InvalidInputError(
            f"job '{job.name}' has no replica {wanted.index}" + (f" of '{wanted.role}'" if wanted.role else ""),
            field="index",
            expected=f"0 to {most - 1}" if most > 1 else "0",
        )


def _check_attempt(job: Job, attempt: int | None) -> None:
    if attempt is None or 1 <= attempt <= job.attempt:
        return
    expected = f"1 to {job.attempt}" if job.attempt > 1 else "1" if job.attempt else "none: it has not started yet"
    raise InvalidInputError(f"job '{job.name}' has no attempt {attempt}", field="attempt", expected=expected)
