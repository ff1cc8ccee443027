"""Changing what a job says of itself after it was submitted."""

from dataclasses import replace

from gangline.errors import ConflictError, InvalidInputError, StaleVersionError
from gangline.model import Job, JobSpec, JournalRecord, Tenant
from gangline.operations.desk import Desk
from gangline.operations.listing import get_job

_TRIES = 8
"""How often the change is repeated when somebody else changes the job at the same moment."""


async def amend(desk: Desk, tenant: Tenant, reference: str, spec: JobSpec) -> Job:
    """Give a job another spec: labels and manifest at any time, the rest only before its first attempt.

    What runs is never changed under its own feet: halting, resuming and scaling are requests of their own.
    Raises ConflictError if the change comes too late; name and tenant can never change.
    """
    job = await get_job(desk, tenant, reference)
    for _ in range(_TRIES):
        _check(job, spec)
        if job.spec == spec:
            return job
        await _check_queue(desk, job, spec)
        record = JournalRecord(
            job_id=job.id, at=desk.clock.now(), reason="Amended", message=f"by {desk.caller.name}", phase=job.phase
        )
        try:
            saved = await desk.store.save(replace(job, spec=spec), [record])
        except StaleVersionError:
            job = await desk.store.get(job.id)
            continue
        desk.link.changed(saved.id)
        return saved
    raise ConflictError(f"job '{job.name}' changes faster than this request can be recorded; try again")


def _check(job: Job, spec: JobSpec) -> None:
    if (spec.name, spec.tenant) != (job.name, job.spec.tenant):
        raise InvalidInputError("a job keeps its name and tenant", field="metadata.name", expected=f"'{job.name}'")
    described = replace(job.spec, labels=spec.labels, manifest_json=spec.manifest_json)
    if spec != described and (job.attempt or job.finished):
        raise ConflictError(
            f"job '{job.name}' has been started: only its labels, annotations, suspension and elastic replicas can "
            "still change; submit another job"
        )


async def _check_queue(desk: Desk, job: Job, spec: JobSpec) -> None:
    names = [queue.name for queue in await desk.store.queues()]
    if spec.queue != job.spec.queue and spec.queue not in names:
        raise InvalidInputError(
            f"there is no queue '{spec.queue}'", field="metadata.queue", expected=f"one of {', '.join(sorted(names))}"
        )
