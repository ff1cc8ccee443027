"""Taking in a new job."""

import difflib
from collections.abc import Sequence

from gangline.engines.addresses import check_addresses
from gangline.errors import ConflictError, GanglineError, InvalidInputError, NotFoundError, PermissionDeniedError
from gangline.lifecycle import new_job
from gangline.model import Job, JobId, JobSpec, JournalRecord, Queue, QueueName, Tenant
from gangline.model.identity import check_name
from gangline.model.kinds.queue import queue_path
from gangline.operations.code import CODE_PREFIX, has_code, has_packages
from gangline.operations.context import OperationContext
from gangline.storage.owned import read_queues


async def submit(
    context: OperationContext, job_id: JobId, spec: JobSpec, *, halted: bool = False, notes: Sequence[str] = ()
) -> Job:
    """Record a new job, or return the one that this very submission made before.

    The id is the client's choice, so that a submission whose answer was lost may simply be repeated.
    A job submitted ``halted`` waits for its user's word (``resume``) before it queues.
    ``notes`` say what of a foreign file could not be expressed; they go into the job's journal.
    """
    context.caller.check(spec.tenant)
    check_name(job_id, "id")
    await check_spec(context, spec)
    check_addresses(spec)
    at = context.clock.now()
    job = new_job(job_id, spec, at, halted=halted)
    words = [("Submitted", f"by {context.caller.name}"), *(("Note", note) for note in notes)]
    records = [
        JournalRecord(job_id=job_id, at=at, reason=reason, message=message, phase=job.phase)
        for reason, message in words
    ]
    try:
        job = await context.store.create(job, records)
    except ConflictError as error:
        return await _conflict(context, job_id, spec, error)
    await _send(context, job)
    context.link.changed(job_id)
    return job


async def _send(context: OperationContext, job: Job) -> None:
    """Send what the job needs to where it will run; a job whose things cannot be sent was never submitted."""
    if context.uploader is None:
        return
    try:
        await context.uploader.send_code(job.id, job.spec)
    except GanglineError:
        await context.store.remove(job.id)
        raise


async def check_spec(context: OperationContext, spec: JobSpec) -> None:
    """Refuse a job whose queue or code is not there."""
    await check_queue(context, spec.queue, spec.tenant)
    _check_code(context, spec)


async def check_queue(context: OperationContext, name: QueueName, tenant: Tenant) -> None:
    """Refuse a queue that jobs of a tenant cannot go to."""
    queues = await read_queues(context.store)
    if context.caller.tenants is not None:  # who may not know of a queue is told that there is none
        names = {queue.name: queue for queue in queues}
        queues = tuple(queue for queue in queues if all(each.admits(tenant) for each in queue_path(queue.name, names)))
    _check_queue(name, tenant, queues)


async def _conflict(context: OperationContext, job_id: JobId, spec: JobSpec, error: ConflictError) -> Job:
    """Tell a repeated submission from a name or an id that is taken."""
    try:
        known = await context.store.get(job_id)
        if known.spec.tenant != spec.tenant:
            raise ConflictError(f"the id '{job_id}' is taken; submit with a new id")
    except NotFoundError:
        raise ConflictError(
            f"tenant '{spec.tenant}' already has a job named '{spec.name}'; "
            f"delete it (gangline delete {spec.name} --tenant {spec.tenant}) or submit under another name (--name)"
        ) from error
    if known.spec != spec:
        raise ConflictError(f"the id '{known.id}' belongs to another job, '{known.name}'; submit with a new id")
    return known


def _check_queue(name: QueueName, tenant: Tenant, queues: tuple[Queue, ...]) -> None:
    names = {queue.name: queue for queue in queues}
    if name not in names:
        nearest = difflib.get_close_matches(name, names, n=1)
        raise InvalidInputError(
            f"there is no queue '{name}'",
            field="metadata.queue",
            expected=f"one of {', '.join(sorted(names))}",
            suggestion=nearest[0] if nearest else None,
        )
    if any(queue.parent == name for queue in queues):
        children = sorted(queue.name for queue in queues if queue.parent == name)
        raise InvalidInputError(
            f"queue '{name}' only groups others", field="metadata.queue", expected=f"one of {', '.join(children)}"
        )
    for queue in queue_path(name, names):
        if not queue.admits(tenant):
            admitted = f"'{queue.name}' admits {', '.join(queue.tenants)}"
            raise PermissionDeniedError(f"queue '{name}' is not for tenant '{tenant}': {admitted}")


def _check_code(context: OperationContext, spec: JobSpec) -> None:
    packages = (spec.source.packages if spec.source else "").removeprefix(CODE_PREFIX)
    if packages and context.caller.tenants is not None and not has_packages(context, packages):
        raise NotFoundError("list of packages", packages, hint="send it before the job that names it")
    if spec.code is None:
        return
    digest = spec.code.removeprefix(CODE_PREFIX)
    if digest == spec.code:
        raise InvalidInputError(
            f"'{spec.code}' is not a code archive",
            field="spec.code",
            expected="sha256:DIGEST of an archive sent before",
        )
    if not has_code(context, digest):
        raise NotFoundError("code archive", digest, hint="send it before the job that needs it")
