"""Looking at the machines and the scheduler's reasons."""

from collections.abc import Sequence
from dataclasses import replace

from gangline.errors import ConflictError
from gangline.model import Explanation, Node, Tenant, Usage
from gangline.operations.context import OperationContext
from gangline.operations.listing import get_job, unfinished_jobs
from gangline.operations.reasons import word_reason

_UNSEEN = Explanation(sentences=("The scheduler has not looked at it yet.",))


async def nodes(context: OperationContext) -> Sequence[Node]:
    """Return every node there is."""
    return await context.engine.nodes()


async def usage(context: OperationContext) -> Usage:
    """Measure what is used now, by node and by replica; whoever has few tenants sees the replicas of those."""
    found = await context.engine.usage()
    if context.caller.tenants is None:
        return found
    theirs = {job.id for job in await unfinished_jobs(context)}
    return replace(found, replicas=tuple(each for each in found.replicas if each.job_id in theirs))


async def explain(context: OperationContext, tenant: Tenant, reference: str) -> Explanation:
    """Say why a job waits, as the last scheduling cycle saw it."""
    job = await get_job(context, tenant, reference)
    if not job.placeable:
        raise ConflictError(f"job '{job.name}' does not wait for machines: it is {job.phase} ({job.reason})")
    why = context.link.explanation(job.id) or _UNSEEN
    if why.sentences:
        return why
    return await word_reason(context.store, tenant, why, confined=context.caller.tenants is not None)
