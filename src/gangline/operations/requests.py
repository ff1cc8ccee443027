"""Asking for a change of a job's life. The lifecycle decides what the request means; the controller carries it out."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from gangline.errors import ConflictError, NotFoundError, StaleVersionError
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
from gangline.operations.code import forget_unused_code
from gangline.operations.desk import Desk
from gangline.operations.listing import get_job
from gangline.storage.interface import JobQuery
from gangline.storage.journal import records_between

_TRIES = 8
"""How often a request is repeated when somebody else changes the job at the same moment."""

_PRUNE_PAGE = 200

EventOf = Callable[[Job, Timestamp], Event]
"""Makes the request out of the job as it is now."""


async def halt(desk: Desk, tenant: Tenant, reference: str) -> Job:
    """Stop a job so that it keeps its checkpoint and holds nothing; ``resume`` lets it go on."""
    return await _request(desk, tenant, reference, lambda job, at: HaltRequested(job_id=job.id, at=at))


async def resume(desk: Desk, tenant: Tenant, reference: str) -> Job:
    """Queue a halted job again; it goes on from its checkpoint."""
    return await _request(desk, tenant, reference, lambda job, at: ResumeRequested(job_id=job.id, at=at))


async def cancel(desk: Desk, tenant: Tenant, reference: str) -> Job:
    """End a job for good and keep its record, logs and metrics."""
    return await _request(desk, tenant, reference, lambda job, at: CancelRequested(job_id=job.id, at=at))


async def delete(desk: Desk, tenant: Tenant, reference: str) -> Job:
    """Make a job and all it left disappear, stopping it first if it runs."""
    return await _request(desk, tenant, reference, lambda job, at: DeleteRequested(job_id=job.id, at=at))


async def scale(desk: Desk, tenant: Tenant, reference: str, wanted: Mapping[RoleName, int]) -> Job:
    """Ask for another number of replicas in elastic roles."""
    return await _request(desk, tenant, reference, lambda job, at: ScaleRequested(job_id=job.id, at=at, scale=wanted))


async def prune(desk: Desk, tenant: Tenant, *, finished_before: Timestamp) -> tuple[Job, ...]:
    """Delete every job that finished before that time, and code that no job uses any more; return the jobs."""
    desk.caller.check(tenant)
    pruned: list[Job] = []
    query = JobQuery(tenant=tenant, phases=FINAL_PHASES, finished_before=finished_before, limit=_PRUNE_PAGE)
    while True:
        page = await desk.store.list(query)
        for job in page.jobs:
            with contextlib.suppress(NotFoundError):  # somebody else was quicker
                if not job.deleting:
                    pruned.append(await _change(desk, job, lambda job, at: DeleteRequested(job_id=job.id, at=at)))
        if page.next is None:
            break
        query = replace(query, after=page.next)
    await forget_unused_code(desk)
    return tuple(pruned)


async def _request(desk: Desk, tenant: Tenant, reference: str, event_of: EventOf) -> Job:
    return await _change(desk, await get_job(desk, tenant, reference), event_of)


async def _change(desk: Desk, job: Job, event_of: EventOf) -> Job:
    """Advance the job and keep the result, from its newest record; then tell the controller."""
    for _ in range(_TRIES):
        at = desk.clock.now()
        event = event_of(job, at)
        after = advance(job, event).job
        try:
            saved = await desk.store.save(after, _records(desk, job, after, event))
        except StaleVersionError:
            job = await desk.store.get(job.id)
            continue
        desk.link.changed(saved.id)
        return saved
    raise ConflictError(f"job '{job.name}' changes faster than this request can be recorded; try again")


def _records(desk: Desk, before: Job, after: Job, event: Event) -> tuple[JournalRecord, ...]:
    """Write down what the request changed, and who made it."""
    reason, by = type(event).__name__, f"by {desk.caller.name}"
    changes = records_between(before, after, event.at)
    if not any(record.reason == reason for record in changes):
        return (JournalRecord(job_id=after.id, at=event.at, reason=reason, message=by, phase=after.phase), *changes)
    return tuple(
        replace(record, message=f"{record.message} ({by})") if record.reason == reason else record for record in changes
    )
