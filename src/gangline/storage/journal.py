"""What a change of a job leaves in its journal: a pure function of the job before and after."""

from collections.abc import Iterator

from gangline.lifecycle import NOTHING_TO_DO
from gangline.lifecycle.watching import SLOW, STALLED
from gangline.model import Job, JournalRecord, Phase, ReplicaState, ReplicaStatus, Timestamp

_REASONS = {
    ReplicaState.RUNNING: "ReplicaStarted",
    ReplicaState.SUCCEEDED: "ReplicaSucceeded",
    ReplicaState.FAILED: "ReplicaFailed",
    ReplicaState.BACKING_OFF: "ReplicaBackingOff",
    ReplicaState.LOST: "ReplicaLost",
}

_NOTICES = {STALLED: "ReplicaStalled", SLOW: "ReplicaSlow"}


def records_between(
    before: Job | None, after: Job, at: Timestamp, *, shrunk_for: str = ""
) -> tuple[JournalRecord, ...]:
    """Return one record per phase with work, per replica whose state changed and per change of size, in order.

    ``shrunk_for`` is the scheduler's reason, where it took replicas away.
    """
    known = {} if before is None else {(status.id, status.incarnation): status for status in before.replicas}
    if before is not None and before.attempt != after.attempt:
        known = {}
    seen = 0 if before is None else len(before.history)
    phases = [
        JournalRecord(job_id=after.id, at=entry.at, reason=entry.reason, message=entry.message, phase=entry.phase)
        for entry in after.history[seen:]
        if entry.reason != NOTHING_TO_DO
    ]
    # Whatever an engine's clock says, replicas start after their gang was placed.
    until = max((place for place, record in enumerate(phases, 1) if record.phase is Phase.STARTING), default=0)
    launched = phases[until - 1].at if until else Timestamp(0.0)
    records = phases[:until]
    for status in after.replicas:
        earlier = known.get((status.id, status.incarnation))
        if status.state not in _REASONS or _same(earlier, status):
            continue
        goes_on = earlier is not None and earlier.state is status.state
        records.append(_noticed_record(after, status, at) if goes_on else _replica_record(after, status, at, launched))
    records += phases[until:]
    if before is not None and before.attempt == after.attempt:
        records += _size_records(before, after, at, shrunk_for)
    if before is not None and before.scale != after.scale:
        wanted = ", ".join(f"{role}={count}" for role, count in after.scale)
        records.append(
            JournalRecord(job_id=after.id, at=at, reason="ScaleRequested", message=wanted, phase=after.phase)
        )
    return tuple(sorted(records, key=lambda record: record.at))


def _size_records(before: Job, after: Job, at: Timestamp, shrunk_for: str) -> Iterator[JournalRecord]:
    """A running gang grew or shrank."""
    old, new = ({status.id for status in job.replicas} for job in (before, after))
    for reason, changed, why in (("GangGrown", new - old, ""), ("GangShrunk", old - new, shrunk_for)):
        if changed:
            message = ", ".join(str(replica) for replica in sorted(changed)) + (f": {why}" if why else "")
            yield JournalRecord(job_id=after.id, at=at, reason=reason, message=message, phase=after.phase)


def _same(known: ReplicaStatus | None, status: ReplicaStatus) -> bool:
    """Whether there is nothing to tell; of a replica that runs, what was noticed is news too."""
    if known is None or known.state is not status.state:
        return False
    return status.state is not ReplicaState.RUNNING or known.message == status.message


def _replica_record(job: Job, status: ReplicaStatus, at: Timestamp, launched: Timestamp) -> JournalRecord:
    moment = {ReplicaState.RUNNING: status.started_at}.get(status.state, status.finished_at)
    if status.state is ReplicaState.RUNNING:
        message = f"on {status.node}"
    elif status.state is ReplicaState.BACKING_OFF and status.retry_at is not None and status.finished_at is not None:
        message = f"{_ending(status)}; starts again in {status.retry_at - status.finished_at:.1f} s"
    else:
        message = _ending(status)
    return JournalRecord(
        job_id=job.id,
        at=max(moment if moment is not None else at, launched),
        reason=_REASONS[status.state],
        message=message,
        phase=job.phase,
        replica=status.id,
    )


def _ending(status: ReplicaStatus) -> str:
    if status.exit_code is None:
        return status.message
    return f"exit code {status.exit_code}" + (f": {status.message}" if status.message else "")


def _noticed_record(job: Job, status: ReplicaStatus, at: Timestamp) -> JournalRecord:
    """What was noticed of a replica that runs on."""
    reason = next((each for word, each in _NOTICES.items() if status.message.startswith(word)), "ReplicaRecovered")
    message = status.message or "it gets on with its work again"
    return JournalRecord(job_id=job.id, at=at, reason=reason, message=message, phase=job.phase, replica=status.id)
