"""Changing what a job says of itself after it was submitted."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from gangline.errors import ConflictError, InvalidInputError, StaleVersionError
from gangline.model import Job, JobSpec, JournalRecord, Tenant
from gangline.operations.context import OperationContext
from gangline.operations.listing import get_job
from gangline.operations.submission import check_spec

_TRIES = 8
"""How often the change is repeated when somebody else changes the job at the same moment."""


async def amend(context: OperationContext, tenant: Tenant, reference: str, spec: JobSpec) -> Job:
    """Give a job another spec: labels and manifest at any time, the rest only before its first attempt.

    What runs is never changed under its own feet: halting, resuming and scaling are requests of their own.
    Raises ConflictError if the change comes too late; name and tenant can never change.
    """
    return await _amend(context, await get_job(context, tenant, reference), lambda _: spec)


async def label(context: OperationContext, tenant: Tenant, reference: str, labels: Mapping[str, str | None]) -> Job:
    """Give a job labels, or take those away whose value is None; at any time, and the others stay."""

    def changed(spec: JobSpec) -> JobSpec:
        kept = {**spec.labels, **labels}
        return replace(spec, labels={key: value for key, value in kept.items() if value is not None})

    return await _amend(context, await get_job(context, tenant, reference), changed)


async def _amend(context: OperationContext, job: Job, change: Callable[[JobSpec], JobSpec]) -> Job:
    for _ in range(_TRIES):
        spec = change(job.spec)
        _check(job, spec)
        if job.spec == spec:
            return job
        if (spec.queue, spec.code, spec.source) != (job.spec.queue, job.spec.code, job.spec.source):
            await check_spec(context, spec)
        record = JournalRecord(
            job_id=job.id,
            at=context.clock.now(),
            reason="Amended",
            message=f"by {context.caller.name}",
            phase=job.phase,
        )
        try:
            saved = await context.store.save(replace(job, spec=spec), [record])
        except StaleVersionError:
            job = await context.store.get(job.id)
            continue
        context.link.changed(saved.id)
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
