"""How the platform stands now, counted for a monitoring system."""

from gangline.errors import EngineError, PermissionDeniedError
from gangline.model import Usage
from gangline.model.team.figures import Figures, figures_of
from gangline.operations.context import OperationContext


async def current_figures(context: OperationContext) -> Figures:
    """Count all that is unfinished, whoever's it is; who asks must be entitled to all tenants."""
    if context.caller.tenants is not None:
        raise PermissionDeniedError(f"{context.caller.name} does not run the platform")
    if context.uploader is not None:
        return Figures()  # the controller is elsewhere, and shows what it counts itself
    jobs = [job async for job in context.store.unfinished() if not job.deleting]
    reasons = {job.id: context.link.explanation(job.id) for job in jobs if job.placeable}
    try:
        nodes, usage = await context.engine.nodes(), await context.engine.usage()
    except EngineError:  # what is known without it is told all the same
        nodes, usage = (), Usage(nodes=(), replicas=())
    return figures_of(jobs, reasons, nodes, usage)
