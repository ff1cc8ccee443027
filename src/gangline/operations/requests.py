"""Asking for a change of a job's life. The lifecycle decides what the request means; the controller carries it out."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from gangline.errors import ConflictError, InvalidInputError, NotFoundError, StaleVersionError
from gangline.lifecycle import advance
from gangline.lifecycle.events import (
    CancelRequested,
    DeleteRequested,
    Event,
    HaltRequested,
    ResumeRequested,
    ScaleRequested,
)
from gangline.model import FINAL_PHASES, Job, JournalRecord, RoleName, Tenant, Timestamp
from gangline.model.jobs.job_file import checkpoints_of
from gangline.operations.code import forget_unused_code
from gangline.operations.context import OperationContext
from gangline.operations.job_files import list_files
from gangline.operations.listing import get_job
from gangline.operations.models import free_models
from gangline.storage.interface import JobQuery
from gangline.storage.journal import records_between
from gangline.storage.listing import every

_TRIES = 8
"""How often a request is repeated when somebody else changes the job at the same moment."""

_PRUNE_PAGE = 200

EventOf = Callable[[Job, Timestamp], Event]
"""Makes the request out of the job as it is now."""


async def halt(context: OperationContext, tenant: Tenant, reference: str) -> Job:
    """Stop a job so that it keeps its checkpoint and holds nothing; ``resume`` lets it go on."""
    return await _request(context, tenant, reference, lambda job, at: HaltRequested(job_id=job.id, at=at))


async def resume(context: OperationContext, tenant: Tenant, reference: str, *, step: int | None = None) -> Job:
    """Queue a halted job again; it goes on from its newest checkpoint, or from that of a step."""
    if step is not None:
        await _check_step(context, tenant, reference, step)
    return await _request(context, tenant, reference, lambda job, at: ResumeRequested(job_id=job.id, at=at, step=step))


async def _check_step(context: OperationContext, tenant: Tenant, reference: str, step: int) -> None:
    """Refuse a step of which there is no checkpoint, with the list of those that there are."""
    try:
        files = await list_files(context, tenant, reference, "checkpoints")
    except NotFoundError:
        await get_job(context, tenant, reference)
        files = ()
    steps = sorted({saved.step for saved in checkpoints_of(files)})
    if step not in steps:
        expected = f"one of {', '.join(map(str, steps))}" if steps else "none: it has saved no checkpoints"
        raise InvalidInputError(f"job '{reference}' has no checkpoint of step {step}", field="from", expected=expected)


async def cancel(context: OperationContext, tenant: Tenant, reference: str) -> Job:
    """End a job for good and keep its record, logs and metrics."""
    return await _request(context, tenant, reference, lambda job, at: CancelRequested(job_id=job.id, at=at))


async def delete(context: OperationContext, tenant: Tenant, reference: str) -> Job:
    """Make a job and all it left disappear, stopping it first if it runs."""
    return await _request(context, tenant, reference, lambda job, at: DeleteRequested(job_id=job.id, at=at))


async def scale(context: OperationContext, tenant: Tenant, reference: str, wanted: Mapping[RoleName, int]) -> Job:
    """Ask for another number of replicas in elastic roles."""
    return await _request(
        context, tenant, reference, lambda job, at: ScaleRequested(job_id=job.id, at=at, scale=wanted)
    )


async def prune(context: OperationContext, tenant: Tenant, *, finished_before: Timestamp) -> tuple[Job, ...]:
    """Delete every job that finished before that time, and code and files of models that nothing uses any more."""
    context.caller.check(tenant)
    pruned: list[Job] = []
    query = JobQuery(tenant=tenant, phases=FINAL_PHASES, finished_before=finished_before, limit=_PRUNE_PAGE)
    async for job in every(context.store, query):
        with contextlib.suppress(NotFoundError):  # somebody else was quicker
            if not job.deleting:
                pruned.append(await _change(context, job, lambda job, at: DeleteRequested(job_id=job.id, at=at)))
    await forget_unused_code(context)
    await free_models(context, tenant)
    return tuple(pruned)


async def _request(context: OperationContext, tenant: Tenant, reference: str, event_of: EventOf) -> Job:
    return await _change(context, await get_job(context, tenant, reference), event_of)


async def _change(context: OperationContext, job: Job, event_of: EventOf) -> Job:
    """Advance the job and keep the result, from its newest record; then tell the controller."""
    for _ in range(_TRIES):
        at = context.clock.now()
        event = event_of(job, at)
        after = advance(job, event).job
        try:
            saved = await context.store.save(after, _records(context, job, after, event))
        except StaleVersionError:
            job = await context.store.get(job.id)
            continue
        context.link.changed(saved.id)
        return saved
    raise ConflictError(f"job '{job.name}' changes faster than this request can be recorded; try again")


def _records(context: OperationContext, before: Job, after: Job, event: Event) -> tuple[JournalRecord, ...]:
    """Write down what the request changed, and who made it."""
    reason, by = type(event).__name__, f"by {context.caller.name}"
    changes = records_between(before, after, event.at)
    if not any(record.reason == reason for record in changes):
        return (JournalRecord(job_id=after.id, at=event.at, reason=reason, message=by, phase=after.phase), *changes)
    return tuple(
        replace(record, message=f"{record.message} ({by})") if record.reason == reason else record for record in changes
    )
