"""Why a job waits, in words that call other jobs by the names their users gave them."""

from dataclasses import replace

from gangline.errors import NotFoundError
from gangline.model import Explanation, JobId, Tenant
from gangline.model.explanation import Constraint
from gangline.storage.interface import Store


async def word_reason(store: Store, tenant: Tenant, why: Explanation, *, confined: bool = False) -> Explanation:
    """Put an explanation into words for one tenant, who learns no names of other tenants' jobs.

    Whoever is ``confined`` to tenants of their own learns neither whose nor which jobs they are.
    """
    if confined and why.constraint in (Constraint.CLOSED_QUEUE, Constraint.UNKNOWN_QUEUE):
        # Whether there is such a queue is not theirs to know.
        why = replace(why, constraint=Constraint.UNKNOWN_QUEUE, nearest=None)
    names = {other: await _name(store, tenant, other, confined=confined) for other in why.others}
    worded = why.naming(names)
    return replace(worded if confined else why, sentences=worded.words())


async def _name(store: Store, tenant: Tenant, job_id: JobId, *, confined: bool) -> str:
    """What to call a job that stands in the way: its name, unless it is another tenant's business."""
    try:
        job = await store.get(job_id)
    except NotFoundError:
        return "a job" if confined else job_id
    if job.spec.tenant == tenant:
        return job.name
    return "a job of another tenant" if confined else f"a job of tenant {job.spec.tenant}"
