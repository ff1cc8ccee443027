"""What a transition returns, and the few moves all handlers are made of."""

from dataclasses import dataclass, replace

from gangline.lifecycle.events import Event
from gangline.lifecycle.instructions import Instruction, standing
from gangline.lifecycle.verdict import has_succeeded
from gangline.model import FINAL_PHASES, Job, Phase, PhaseEntry, Timestamp


@dataclass(frozen=True, slots=True)
class Outcome:
    """The job as it is now, and what must be carried out."""

    job: Job
    instructions: tuple[Instruction, ...] = ()


_SMOOTH = (Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING, Phase.STORING, Phase.COMPLETED)
"""The phases of a smooth run. Moving along it visits every one, those without work in zero time."""

NOTHING_TO_DO = "NothingToDo"
"""The reason of a phase that was passed through in zero time."""


def ignore(job: Job, event: Event) -> Outcome:
    """Late news: nothing changes."""
    return Outcome(job)


def act(job: Job) -> Outcome:
    """Return the job with everything its new state calls for."""
    return Outcome(job, standing(job))


def enter(job: Job, phase: Phase, event: Event, *, reason: str, message: str = "", **changes: object) -> Job:
    """Move to a phase, with further fields of the job that change on the way.

    Time never runs backwards in a history, even if a machine's clock did.
    """
    at = Timestamp(max(event.at, job.history[-1].at))
    steps = [*_between(job.phase, phase), phase]
    entries = tuple(
        PhaseEntry(
            phase=step,
            at=at,
            reason=reason if step is phase else NOTHING_TO_DO,
            message=message if step is phase else "",
        )
        for step in steps
    )
    finished_at = at if phase in FINAL_PHASES else None
    changes = {"transfer": None, **changes}
    return replace(job, history=job.history + entries, finished_at=finished_at, **changes)  # type: ignore[arg-type]  # replace checks the names, and the callers are few


def end(job: Job, phase: Phase, event: Event, *, reason: str, message: str, exit_code: int | None) -> Outcome:
    """Move to a final phase; whatever still runs is stopped."""
    changes = {"exit_code": exit_code, "requeue": False, "retry_at": None}
    return act(enter(job, phase, event, reason=reason, message=message, **changes))


def settle(job: Job, event: Event) -> Outcome:
    """Complete the job if the replicas that count are done; else give its gang the standing orders."""
    if not has_succeeded(job):
        return act(job)
    return succeed(job, event)


def succeed(job: Job, event: Event) -> Outcome:
    """The training is done: store its results, if it has any."""
    if job.spec.outputs:
        return act(enter(job, Phase.STORING, event, reason="Trained"))
    return end(job, Phase.COMPLETED, event, reason="Succeeded", message="", exit_code=0)


def _between(now: Phase, then: Phase) -> tuple[Phase, ...]:
    if now in _SMOOTH and then in _SMOOTH:
        return _SMOOTH[_SMOOTH.index(now) + 1 : _SMOOTH.index(then)]
    return ()


def where_it_goes_on(job: Job) -> str:
    """Say where a job that was stopped goes on, as far as anybody knows."""
    if job.checkpoint_at is not None:
        return "goes on from its last checkpoint"
    return "waits for machines" if job.started_at is None else "it has reported no checkpoint and may begin anew"
