"""What was used, by whom and when, out of the records of jobs and what the store keeps of deleted ones."""

from collections.abc import Sequence

from gangline.errors import InvalidInputError, PermissionDeniedError
from gangline.model import Job, Tenant, Timestamp
from gangline.model.team.accounting import Group, Period, UsageReport, Use, periods_between, report, submitter
from gangline.operations.context import OperationContext
from gangline.storage.interface import JobQuery
from gangline.storage.listing import every as every_job

_PAGE = 1000
_MOST_PERIODS = 1000
_MONTH_SECONDS = 30 * 86400.0


async def usage_report(
    context: OperationContext,
    tenant: Tenant | None,
    *,
    since: Timestamp | None = None,
    until: Timestamp | None = None,
    by: Sequence[Group] = (Group.TENANT,),
    every: Period | None = None,
) -> UsageReport:
    """Add up what a tenant has used, or all of them for None; of the last thirty days unless it is said otherwise."""
    if tenant is not None:
        context.caller.check(tenant)
    elif context.caller.tenants is not None:
        raise PermissionDeniedError(f"{context.caller.name} does not run the platform")
    now = context.clock.now()
    end = min(until or now, now)
    start = since if since is not None else Timestamp(end - _MONTH_SECONDS)
    if start >= end:
        raise InvalidInputError("the time has no length", field="since", expected="a time before the end, in the past")
    if every is not None and sum(1 for _ in _first_periods(start, end, every)) > _MOST_PERIODS:
        raise InvalidInputError(
            "too many periods", field="every", expected=f"at most {_MOST_PERIODS}; take longer ones"
        )
    store, found = (context.whole or context if tenant is None else context).store, list[Use]()
    async for job in every_job(store, JobQuery(tenant=tenant, limit=_PAGE)):
        if job.created_at < end and (job.finished_at is None or job.finished_at > start):
            found.append(Use.of(job, await _user(context, job) if Group.USER in by else ""))
    if context.past_use is not None:
        seen = {use.job for use in found}  # one that has been deleted since is not counted twice
        found += [use for use in await context.past_use(tenant, start) if use.job not in seen]
    return report(found, since=start, until=end, now=now, by=by, every=every, prices=context.prices)


def _first_periods(start: Timestamp, end: Timestamp, every: Period) -> Sequence[object]:
    """Return the periods, but no more of them than are needed to know that they are too many."""
    return [period for period, _ in zip(periods_between(start, end, every), range(_MOST_PERIODS + 1), strict=False)]


async def _user(context: OperationContext, job: Job) -> str:
    """Return who submitted a job, as the beginning of its journal says."""
    return submitter(await context.store.journal(job.id, limit=1))
