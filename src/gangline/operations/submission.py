"""Taking in a new job."""

import difflib
from collections.abc import Mapping, Sequence

from gangline.errors import ConflictError, GanglineError, InvalidInputError, NotFoundError, PermissionDeniedError
from gangline.lifecycle import new_job
from gangline.model import Job, JobId, JobSpec, JournalRecord, Queue, QueueName, Tenant
from gangline.model.identity import check_name
from gangline.operations.code import CODE_PREFIX, has_code
from gangline.operations.desk import Desk


async def submit(desk: Desk, job_id: JobId, spec: JobSpec, *, halted: bool = False, notes: Sequence[str] = ()) -> Job:
    """Record a new job, or return the one that this very submission made before.

    The id is the client's choice, so that a submission whose answer was lost may simply be repeated.
    A job submitted ``halted`` waits for its user's word (``resume``) before it queues.
    ``notes`` say what of a foreign file could not be expressed; they go into the job's journal.
    """
    desk.caller.check(spec.tenant)
    check_name(job_id, "id")
    await check_spec(desk, spec)
    at = desk.clock.now()
    job = new_job(job_id, spec, at, halted=halted)
    words = [("Submitted", f"by {desk.caller.name}"), *(("Note", note) for note in notes)]
    records = [
        JournalRecord(job_id=job_id, at=at, reason=reason, message=message, phase=job.phase)
        for reason, message in words
    ]
    try:
        job = await desk.store.create(job, records)
    except ConflictError as error:
        return await _conflict(desk, job_id, spec, error)
    await _send(desk, job)
    desk.link.changed(job_id)
    return job


async def _send(desk: Desk, job: Job) -> None:
    """Send what the job needs to where it will run; a job whose things cannot be sent was never submitted."""
    if desk.courier is None:
        return
    try:
        await desk.courier.send_code(job.id, job.spec)
    except GanglineError:
        await desk.store.remove(job.id)
        raise


async def check_spec(desk: Desk, spec: JobSpec) -> None:
    """Refuse a job whose queue or code is not there."""
    _check_queue(spec.queue, spec.tenant, tuple(await desk.store.queues()))
    _check_code(desk, spec)


async def _conflict(desk: Desk, job_id: JobId, spec: JobSpec, error: ConflictError) -> Job:
    """Tell a repeated submission from a name or an id that is taken."""
    try:
        known = await desk.store.get(job_id)
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
    for queue in _path(name, names):
        if not queue.admits(tenant):
            admitted = f"'{queue.name}' admits {', '.join(queue.tenants)}"
            raise PermissionDeniedError(f"queue '{name}' is not for tenant '{tenant}': {admitted}")


def _path(name: QueueName, queues: Mapping[QueueName, Queue]) -> tuple[Queue, ...]:
    """A queue and everything above it; parents in a circle end where they began."""
    path: dict[QueueName, Queue] = {}
    above: QueueName | None = name
    while above is not None and above in queues and above not in path:
        path[above] = queues[above]
        above = queues[above].parent
    return tuple(path.values())


def _check_code(desk: Desk, spec: JobSpec) -> None:
    if spec.code is None:
        return
    digest = spec.code.removeprefix(CODE_PREFIX)
    if digest == spec.code:
        raise InvalidInputError(
            f"'{spec.code}' is no code archive", field="spec.code", expected="sha256:DIGEST of an archive sent before"
        )
    if not has_code(desk, digest):
        raise NotFoundError("code archive", digest, hint="send it before the job that needs it")
