"""Tracing something back to what it was made of, through the records of one tenant."""

from gangline.errors import NotFoundError
from gangline.kinds.model import MODEL
from gangline.model import Tenant
from gangline.model.kinds.registered_model import find_version, model_reference
from gangline.model.lineage import Lineage, lineage_of_address, lineage_of_job
from gangline.operations.context import OperationContext
from gangline.operations.listing import get_job
from gangline.storage.interface import JobQuery
from gangline.storage.listing import every
from gangline.storage.owned import all_records, find_record

_PAGE = 1000


async def lineage(context: OperationContext, tenant: Tenant, target: str) -> Lineage:
    """Return where an address, a model or a job came from; raises NotFoundError."""
    context.caller.check(tenant)
    models = await all_records(context.store, MODEL, tenant)
    jobs = [job async for job in every(context.store, JobQuery(tenant=tenant, limit=_PAGE))]
    if "://" in target or target.startswith("/"):
        if (reference := model_reference(target)) is not None:
            model = await find_record(context.store, MODEL, tenant, reference.name)
            if model is None:
                raise NotFoundError("model", reference.name)
            find_version(model, reference.number, reference.alias)
        return lineage_of_address(target, jobs, models)
    return lineage_of_job(await get_job(context, tenant, target), jobs, models)
