"""Why a job waits, in words that call other jobs by the names their users gave them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gangline.errors import NotFoundError
from gangline.model import JobId, Tenant
from gangline.storage.interface import Store

if TYPE_CHECKING:
    # The scheduler and its arrays are slow to import, and a command that lists jobs needs neither.
    from gangline.scheduling import Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a job waits: the facts, and sentences for a person."""

    explanation: "Explanation | None"
    sentences: tuple[str, ...]


async def word_reason(store: Store, tenant: Tenant, why: "Explanation") -> Reason:
    """Put an explanation into words for one tenant, who learns no names of other tenants' jobs."""
    sentences = why.sentences()
    for other in {*why.holders, *((why.behind,) if why.behind else ())}:
        name = await _name(store, tenant, other)
        sentences = tuple(sentence.replace(other, name) for sentence in sentences)
    return Reason(explanation=why, sentences=sentences)


async def _name(store: Store, tenant: Tenant, job_id: JobId) -> str:
    """What to call a job that stands in the way: its name, unless it is another tenant's business."""
    try:
        job = await store.get(job_id)
    except NotFoundError:
        return job_id
    return job.name if job.spec.tenant == tenant else f"a job of tenant {job.spec.tenant}"
