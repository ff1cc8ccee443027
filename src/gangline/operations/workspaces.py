"""What the gateway asks before every request to a workspace."""

from gangline.engines.interface import Answering
from gangline.errors import ConflictError, NotFoundError
from gangline.kinds.workspace import WORKSPACE
from gangline.model import ReplicaId, Tenant
from gangline.model.kinds.workspace import Workspace
from gangline.model.record import RecordId
from gangline.operations.context import OperationContext


async def workspace_address(context: OperationContext, tenant: Tenant, name: str, record_id: RecordId) -> str:
    """Return ``HOST:PORT`` of the program of a workspace that is ready; raises ConflictError while it is not."""
    context.caller.check(tenant)
    found: Workspace | None = await context.store.records(WORKSPACE).find(tenant, name)
    if found is None or found.id != record_id:
        raise NotFoundError("workspace", name)
    address = ""
    if found.state == "ready" and isinstance(context.engine, Answering):
        job = await context.store.get(found.job_id(found.status.run))
        address = context.engine.address_of(job.gang_id, ReplicaId(job.spec.lead_role, 0))
    if not address:
        raise ConflictError(f"workspace '{name}' is {found.state}")
    return address
