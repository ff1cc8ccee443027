"""What a keeper's record means as events. Pure: the same record gives the same news, which is how news is repeated."""

from collections.abc import Iterator

from gangline.engines.local.keeper.records import AttemptRecord, ReplicaRecord, Stage, Status
from gangline.lifecycle.events import (
    DownloadStarted,
    GangEvent,
    GangFailed,
    GangStopped,
    OutputsStored,
    ReplicaExited,
    ReplicaLost,
    ReplicaStarted,
)
from gangline.model import GangId, ReplicaId, Timestamp


def news_of(gang_id: GangId, record: AttemptRecord) -> Iterator[GangEvent]:
    """Return all that has happened to an attempt, in order. Callers leave out what they have told before."""
    job_id, attempt = gang_id
    if record.inputs is not Stage.NONE and record.inputs_at is not None:
        yield DownloadStarted(job_id=job_id, at=Timestamp(record.inputs_at), attempt=attempt)
    happened = [event for replica in record.replicas.values() for event in _replica_news(gang_id, replica)]
    yield from sorted(happened, key=lambda event: event.at)
    if record.failure is not None:
        yield GangFailed(job_id=job_id, attempt=attempt, **record.failure)
    if record.outputs is Stage.DONE and record.outputs_at is not None:
        at = Timestamp(record.outputs_at)
        yield OutputsStored(job_id=job_id, at=at, attempt=attempt, note=record.outputs_note)
    if record.stopped_at is not None:
        yield GangStopped(job_id=job_id, at=Timestamp(record.stopped_at), attempt=attempt)


def _replica_news(gang_id: GangId, record: ReplicaRecord) -> Iterator[GangEvent]:
    job_id, attempt = gang_id
    replica = ReplicaId.parse(record.name)
    if record.started_at is not None:
        yield ReplicaStarted(
            job_id=job_id,
            at=Timestamp(record.started_at),
            attempt=attempt,
            replica=replica,
            incarnation=record.incarnation,
        )
    if record.finished_at is None:
        return
    if record.status is Status.EXITED and record.exit_code is not None:
        yield ReplicaExited(
            job_id=job_id,
            at=Timestamp(record.finished_at),
            attempt=attempt,
            replica=replica,
            exit_code=record.exit_code,
            incarnation=record.incarnation,
            message=record.message,
            result=record.result,
        )
    elif record.status is Status.LOST:
        yield ReplicaLost(
            job_id=job_id,
            at=Timestamp(record.finished_at),
            attempt=attempt,
            replica=replica,
            incarnation=record.incarnation,
            message=record.message,
        )
