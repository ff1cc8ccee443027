"""Killing replicas on purpose: how a fault drill finds out whether a job survives what will happen to it one day."""

from gangline.engines.interface import FaultInjector
from gangline.errors import ConflictError, EngineError, InvalidInputError
from gangline.model import ReplicaId, ReplicaState, Tenant
from gangline.operations.context import OperationContext
from gangline.operations.listing import get_job


async def kill(context: OperationContext, tenant: Tenant, reference: str, replica: ReplicaId) -> bool:
    """Kill one running replica of a job without warning; False if it ended by itself at the same moment.

    What follows is up to the job's own policy, as for any other failure; its journal tells of it. Raises EngineError
    if the engine has no such power.
    """
    job = await get_job(context, tenant, reference)
    if not isinstance(context.engine, FaultInjector):
        raise EngineError("the engine of this service cannot kill single replicas")
    status = job.replica(replica)
    if status is None:
        known = ", ".join(str(each.id) for each in job.replicas)
        raise InvalidInputError(
            f"job '{job.name}' has no replica '{replica}'", field="replica", expected=f"one of {known}" if known else ""
        )
    if status.state is not ReplicaState.RUNNING:
        raise ConflictError(f"replica {replica} of job '{job.name}' does not run: it is {status.state}")
    if context.rehearsal:
        return True
    return await context.engine.kill(job.gang_id, replica)
