"""A terminal where a replica runs, for the pages."""

from gangline.engines.interface import Terminals
from gangline.errors import NotFoundError
from gangline.model import ReplicaId, Tenant
from gangline.model.console import Console
from gangline.operations.context import OperationContext
from gangline.operations.listing import get_job


async def interact(context: OperationContext, tenant: Tenant, job: str, replica: str, console: Console) -> int:
    """Run a shell beside a replica of a job, the lead replica unless one is named; return its exit code."""
    found = await get_job(context, tenant, job)
    if not isinstance(context.engine, Terminals):
        raise NotFoundError("terminal", "of this service")
    chosen = ReplicaId.parse(replica) if replica else ReplicaId(found.spec.lead_role, 0)
    return await context.engine.interact(found, chosen, console)
