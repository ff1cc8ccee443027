"""Why a job waits, in words that call other jobs by the names their users gave them."""

from dataclasses import fields
from typing import TYPE_CHECKING

from gangline.errors import NotFoundError
from gangline.model import JobId, Tenant
from gangline.storage.interface import Store
from gangline.wire import Excluded, Explanation

if TYPE_CHECKING:
    # The scheduler and its arrays are slow to import, and a command that lists jobs needs neither.
    from gangline import scheduling


async def word_reason(store: Store, tenant: Tenant, why: "scheduling.Explanation") -> Explanation:
    """Put an explanation into words for one tenant, who learns no names of other tenants' jobs."""
    others = {*why.holders, *((why.behind,) if why.behind else ())}
    names = {other: await _name(store, tenant, other) for other in others}
    return explained(why, why.naming(names).sentences())


def explained(why: "scheduling.Explanation", sentences: tuple[str, ...]) -> Explanation:
    """Join what the scheduler knows with the sentences that tell it."""
    facts = {item.name: getattr(why, item.name) for item in fields(why)}
    facts["excluded"] = tuple(Excluded(rule=excluded.rule, nodes=excluded.nodes) for excluded in why.excluded)
    facts["predicted_start_at"] = facts.pop("predicted_start")
    return Explanation(sentences=sentences, **facts)


async def _name(store: Store, tenant: Tenant, job_id: JobId) -> str:
    """What to call a job that stands in the way: its name, unless it is another tenant's business."""
    try:
        job = await store.get(job_id)
    except NotFoundError:
        return job_id
    return job.name if job.spec.tenant == tenant else f"a job of tenant {job.spec.tenant}"
