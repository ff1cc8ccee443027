"""Looking at the machines, the queues and the scheduler's reasons."""

from collections.abc import Sequence

from gangline.errors import ConflictError
from gangline.model import Node, Queue, Tenant, Usage
from gangline.operations.desk import Desk
from gangline.operations.listing import get_job
from gangline.operations.reasons import word_reason
from gangline.wire import Explanation

_UNSEEN = Explanation(sentences=("The scheduler has not looked at it yet.",))


async def nodes(desk: Desk) -> Sequence[Node]:
    """Return every node there is."""
    return await desk.engine.nodes()


async def usage(desk: Desk) -> Usage:
    """Measure what is used now, by node and by replica."""
    return await desk.engine.usage()


async def queues(desk: Desk) -> Sequence[Queue]:
    """Return all queues."""
    return await desk.store.queues()


async def explain(desk: Desk, tenant: Tenant, reference: str) -> Explanation:
    """Say why a job waits, as the last scheduling cycle saw it."""
    job = await get_job(desk, tenant, reference)
    if not job.placeable:
        raise ConflictError(f"job '{job.name}' does not wait for machines: it is {job.phase} ({job.reason})")
    if desk.told is not None:
        return desk.told(job.id) or _UNSEEN
    why = desk.link.explanation(job.id)
    return _UNSEEN if why is None else await word_reason(desk.store, tenant, why)
