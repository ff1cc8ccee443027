"""Which moments matter to a job. The controller waits for them; nobody else looks at a clock."""

from dataclasses import dataclass

from gangline.lifecycle.events import BackoffElapsed, DeadlinePassed, DeleteRequested, Event
from gangline.model import Job, Phase, ReplicaState, Timestamp

_DEADLINE_PHASES = frozenset(
    {Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING, Phase.STORING, Phase.RESUMED, Phase.RESTARTING},
)

_RESTART_PHASES = frozenset({Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING})
"""Where a back-off that is over starts a replica again; elsewhere its timer would come due forever."""


@dataclass(frozen=True, slots=True)
class Timer:
    """At this time, feed this event."""

    at: Timestamp
    event: Event


def timers(job: Job) -> tuple[Timer, ...]:
    """Return every timer the job's present state calls for."""
    found: list[Timer] = []
    if job.deadline_at is not None and job.phase in _DEADLINE_PHASES:
        found.append(Timer(job.deadline_at, DeadlinePassed(job_id=job.id, at=job.deadline_at)))
    waiting = [status.retry_at for status in job.replicas if status.state is ReplicaState.BACKING_OFF]
    due = min((at for at in waiting if at is not None), default=None)
    if due is not None and job.phase in _RESTART_PHASES:
        found.append(Timer(due, BackoffElapsed(job_id=job.id, at=due)))
    ttl = job.spec.policy.ttl_seconds
    if ttl is not None and job.finished_at is not None and not job.deleting:
        end = Timestamp(job.finished_at + ttl)
        found.append(Timer(end, DeleteRequested(job_id=job.id, at=end)))
    return tuple(found)
