"""Handlers of what the scheduler decides and of the deadline."""

from dataclasses import replace

from gangline.lifecycle.events import DeadlinePassed, GangEvicted, GangFound, GangGrown, GangPlaced, GangShrunk
from gangline.lifecycle.outcome import Outcome, act, end, enter, ignore, settle
from gangline.model import Job, Phase, ReplicaStatus, Timestamp

DEADLINE_EXIT_CODE = 124
"""What the ``timeout`` command returns."""


def launch(job: Job, event: GangPlaced) -> Outcome:
    """Begin the next attempt on these nodes."""
    if not job.placeable:
        return ignore(job, event)
    limit = job.spec.policy.deadline_seconds
    deadline_at = job.deadline_at if job.deadline_at is not None or limit is None else Timestamp(event.at + limit)
    nodes = len(set(event.placement.values()))
    count = len(event.placement)
    message = f"{count} replica{'s' * (count != 1)} on {nodes} node{'s' * (nodes != 1)}"
    return act(
        enter(
            job,
            Phase.STARTING,
            event,
            reason="GangPlaced",
            message=message,
            attempt=job.attempt + 1,
            incarnations=0,
            holding=True,
            replicas=tuple(
                ReplicaStatus(id=replica, node=node, gpu_slot=event.gpu_slots.get(replica))
                for replica, node in event.placement.items()
            ),
            started_at=job.started_at if job.started_at is not None else event.at,
            deadline_at=deadline_at,
            retry_at=None,
            exit_code=None,
        )
    )


def recall(job: Job, event: GangFound) -> Outcome:
    """Go on with a gang that was started before it was on record."""
    return launch(job, GangPlaced(job_id=job.id, at=event.at, placement=event.placement))


def withdraw(job: Job, event: GangFound) -> Outcome:
    """Its user ended or halted the job before the start of the gang was on record: the gang is stopped."""
    replicas = tuple(ReplicaStatus(id=replica, node=node) for replica, node in event.placement.items())
    changes = {"attempt": event.attempt, "incarnations": 0, "replicas": replicas, "holding": True}
    if job.phase is Phase.HALTED:
        return act(enter(job, Phase.HALTING, event, reason=job.reason, message=job.message, **changes))
    return act(replace(job, **changes))  # type: ignore[arg-type]  # replace checks the names


def grow(job: Job, event: GangGrown) -> Outcome:
    """Add replicas to the running gang."""
    present = {status.id for status in job.replicas}
    incarnation = job.incarnations + 1
    added = tuple(
        ReplicaStatus(id=replica, node=node, incarnation=incarnation, gpu_slot=event.gpu_slots.get(replica))
        for replica, node in event.added.items()
        if replica not in present
    )
    if not added:
        return ignore(job, event)
    return act(replace(job, replicas=job.replicas + added, incarnations=incarnation))


def shrink(job: Job, event: GangShrunk) -> Outcome:
    """Let replicas of elastic roles go."""
    kept = tuple(status for status in job.replicas if status.id not in event.removed)
    if len(kept) == len(job.replicas):
        return ignore(job, event)
    return settle(replace(job, replicas=kept), event)


def evict(job: Job, event: GangEvicted) -> Outcome:
    """Halt with the checkpoint and queue again."""
    return act(enter(job, Phase.HALTING, event, reason="Preempted", message=event.reason, requeue=True))


def overrun(job: Job, event: DeadlinePassed) -> Outcome:
    """The job has had its time."""
    if job.deadline_at is None or event.at < job.deadline_at:
        return ignore(job, event)
    what = "its results were not stored within" if job.phase is Phase.STORING else "ran longer than"
    message = f"{what} policy.deadline, which is {job.spec.policy.deadline_seconds:g} s"
    return end(job, Phase.FAILED, event, reason="DeadlineExceeded", message=message, exit_code=DEADLINE_EXIT_CODE)
