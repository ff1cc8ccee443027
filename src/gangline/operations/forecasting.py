"""Looking ahead on behalf of somebody: the state that a forecast starts from, and the names they may learn of it."""

from collections.abc import Iterable

from gangline.forecast.course import State
from gangline.kinds.queue import QUEUE
from gangline.model import Job, JobId, Tenant
from gangline.operations.context import OperationContext
from gangline.storage.owned import all_records


async def state_now(context: OperationContext) -> State:
    """Return everything that bears on who starts when, of all tenants: what is told of it is up to ``names_for``."""
    whole = context.whole or context
    return State(
        jobs=[job async for job in whole.store.unfinished()],
        nodes=await context.engine.nodes(),
        queues=tuple(record.spec for record in await all_records(whole.store, QUEUE)),
        now=context.clock.now(),
    )


def names_for(context: OperationContext, tenant: Tenant, jobs: Iterable[Job]) -> dict[JobId, str]:
    """What to call each job to somebody who looks from one tenant; jobs of tenants that are not theirs have no name."""
    theirs = context.caller.tenants
    return {job.id: _name(job, tenant, theirs) for job in jobs}


def _name(job: Job, tenant: Tenant, theirs: frozenset[Tenant] | None) -> str:
    if theirs is not None and job.spec.tenant not in theirs:
        return "a job of another tenant"
    return job.name if job.spec.tenant == tenant else f"{job.spec.tenant}/{job.name}"
