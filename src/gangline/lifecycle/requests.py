"""Handlers of what users ask for."""

from dataclasses import replace

from gangline.errors import InvalidInputError
from gangline.lifecycle.events import (
    CancelRequested,
    DeleteRequested,
    HaltRequested,
    ResumeRequested,
    ScaleRequested,
)
from gangline.lifecycle.outcome import Outcome, act, end, enter, where_it_goes_on
from gangline.model import Job, Phase, ResumePoint, Timestamp

_HALTED_BY_USER = {"reason": "HaltRequested", "message": "halted by its user; its checkpoint is kept"}


def halt_waiting(job: Job, event: HaltRequested) -> Outcome:
    """Nothing runs, so the job is halted at once, unless the last attempt is still being taken down."""
    phase = Phase.HALTING if job.holding else Phase.HALTED
    return act(replace(enter(job, phase, event, **_HALTED_BY_USER), retry_at=None))


def halt_running(job: Job, event: HaltRequested) -> Outcome:
    """Stop the gang with its checkpoint; the job rests when the gang is gone."""
    return act(enter(job, Phase.HALTING, event, **_HALTED_BY_USER))


def halt_for_good(job: Job, event: HaltRequested) -> Outcome:
    """The scheduler was about to queue it again, or it halts already: now it rests until its user resumes it."""
    return Outcome(replace(job, requeue=False))


def resume(job: Job, event: ResumeRequested) -> Outcome:
    """Queue again. The time at rest does not count against the deadline."""
    rested = event.at - job.history[-1].at
    deadline_at = None if job.deadline_at is None else Timestamp(job.deadline_at + max(0.0, rested))
    message = where_it_goes_on(job) if event.step is None else f"goes on from step {event.step}"
    moved = enter(job, Phase.RESUMED, event, reason="ResumeRequested", message=message)
    return Outcome(replace(_from_step(moved, event), deadline_at=deadline_at))


def resume_when_halted(job: Job, event: ResumeRequested) -> Outcome:
    """The gang is still being stopped; go on as soon as it is."""
    return Outcome(replace(_from_step(job, event), requeue=True))


def choose_step(job: Job, event: ResumeRequested) -> Outcome:
    """It will go on already; at most from another checkpoint."""
    return Outcome(_from_step(job, event))


def _from_step(job: Job, event: ResumeRequested) -> Job:
    if event.step is None:
        return job
    return replace(job, resume_from=ResumePoint(step=event.step, attempt=job.attempt + 1))


def cancel(job: Job, event: CancelRequested) -> Outcome:
    """End for good."""
    return end(job, Phase.CANCELLED, event, reason="CancelRequested", message="cancelled by its user", exit_code=None)


def scale(job: Job, event: ScaleRequested) -> Outcome:
    """Remember the wanted counts; the scheduler grows or shrinks the gang towards them."""
    known = {role.name: role for role in job.spec.roles}
    for name, count in event.scale.items():
        role = known.get(name)
        if role is None:
            raise InvalidInputError(
                f"the job has no role '{name}'", field="role", expected=f"one of {', '.join(sorted(known))}"
            )
        if not role.elastic and count != role.replicas:
            raise InvalidInputError(
                f"the number of replicas of role '{name}' is fixed at {role.replicas}",
                field=f"roles.{name}",
                expected="a role with min or max",
            )
        if not role.least <= count <= role.most:
            raise InvalidInputError(
                f"{count} replicas of '{name}'", field=f"roles.{name}", expected=f"{role.least} to {role.most}"
            )
    wanted = {**dict(job.scale), **event.scale}
    return Outcome(replace(job, scale=tuple(sorted(wanted.items()))))


def delete(job: Job, event: DeleteRequested) -> Outcome:
    """End for good if it has not, and disappear once nothing of it runs."""
    if job.finished:
        return act(replace(job, deleting=True))
    ended = end(job, Phase.CANCELLED, event, reason="DeleteRequested", message="being deleted", exit_code=None)
    return act(replace(ended.job, deleting=True))
