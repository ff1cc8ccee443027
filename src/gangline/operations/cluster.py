"""Looking at the machines, the queues and the scheduler's reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

from gangline.engines.interface import Usage
from gangline.errors import ConflictError, NotFoundError
from gangline.model import JobId, Node, Queue, Tenant
from gangline.operations.desk import Desk
from gangline.operations.listing import get_job
from gangline.scheduling import Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a job waits: the facts, and sentences that call jobs by the names their users gave them."""

    explanation: Explanation | None
    sentences: tuple[str, ...]


async def nodes(desk: Desk) -> Sequence[Node]:
    """Return every node there is."""
    return await desk.engine.nodes()


async def usage(desk: Desk) -> Usage:
    """Measure what is used now, by node and by replica."""
    return await desk.engine.usage()


async def queues(desk: Desk) -> Sequence[Queue]:
    """Return all queues."""
    return await desk.store.queues()


async def explain(desk: Desk, tenant: Tenant, reference: str) -> Reason:
    """Say why a job waits, as the last scheduling cycle saw it."""
    job = await get_job(desk, tenant, reference)
    if not job.placeable:
        raise ConflictError(f"job '{job.name}' does not wait for machines: it is {job.phase} ({job.reason})")
    why = desk.link.explanation(job.id)
    if why is None:
        return Reason(explanation=None, sentences=("The scheduler has not looked at it yet.",))
    sentences = why.sentences()
    for other in {*why.holders, *((why.behind,) if why.behind else ())}:
        name = await _name(desk, tenant, other)
        sentences = tuple(sentence.replace(other, name) for sentence in sentences)
    return Reason(explanation=why, sentences=sentences)


async def _name(desk: Desk, tenant: Tenant, job_id: JobId) -> str:
    """What to call a job that stands in the way: its name, unless it is another tenant's business."""
    try:
        job = await desk.store.get(job_id)
    except NotFoundError:
        return job_id
    return job.name if job.spec.tenant == tenant else f"a job of tenant {job.spec.tenant}"
