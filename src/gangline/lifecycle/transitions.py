"""The table: what each event does to a job in each phase.

A pair that is not in the table raises InvalidTransitionError: a request that makes no sense in that phase.
News that comes late (of an earlier attempt, of a finished job, a decision made on an older snapshot) maps to
``ignore``, so that it is ignored by rule and not by accident. The handlers are in ``requests``, ``decisions``
and ``progress``; each is a pure function of a job and an event.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gangline.errors import InvalidTransitionError
from gangline.lifecycle import decisions, progress, requests
from gangline.lifecycle.events import (
    BackoffElapsed,
    CancelRequested,
    CheckpointSaved,
    DeadlinePassed,
    DeleteRequested,
    DownloadStarted,
    Event,
    GangEvent,
    GangEvicted,
    GangFailed,
    GangFound,
    GangGrown,
    GangPlaced,
    GangShrunk,
    GangStalled,
    GangStopped,
    HaltRequested,
    LossDiverged,
    OutputsStored,
    ReplicaDelayed,
    ReplicaExited,
    ReplicaLost,
    ReplicaNoticed,
    ReplicaStarted,
    ResumeRequested,
    ScaleRequested,
    SpeedMeasured,
    SpeedRecalled,
    TransferReported,
)
from gangline.lifecycle.outcome import Outcome, ignore
from gangline.model import FINAL_PHASES, WAITING_PHASES, Job, Phase

Handler = Callable[[Job, Any], Outcome]

_LAUNCHED = frozenset({Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING})
_ENDING = frozenset({Phase.STORING, Phase.HALTING, Phase.RESTARTING}) | FINAL_PHASES
_OPEN = frozenset(Phase) - FINAL_PHASES


def _rows(handler: Handler, phases: Iterable[Phase], *events: type[Event]) -> dict[tuple[Phase, type[Event]], Handler]:
    return {(phase, event): handler for phase in phases for event in events}


_NEWS = (
    CheckpointSaved,
    SpeedMeasured,
    SpeedRecalled,
    GangFound,
    DownloadStarted,
    TransferReported,
    ReplicaDelayed,
    ReplicaNoticed,
    GangStalled,
    LossDiverged,
    ReplicaStarted,
    ReplicaExited,
    ReplicaLost,
    OutputsStored,
    GangFailed,
    GangStopped,
)

TRANSITIONS: Mapping[tuple[Phase, type[Event]], Handler] = {
    # News and decisions may always come late; the rows below say where they matter.
    **_rows(ignore, Phase, *_NEWS, GangPlaced, GangGrown, GangShrunk, GangEvicted, DeadlinePassed, BackoffElapsed),
    # What users ask for.
    **_rows(requests.halt_waiting, WAITING_PHASES, HaltRequested),
    **_rows(requests.halt_running, _LAUNCHED, HaltRequested),
    (Phase.HALTING, HaltRequested): requests.halt_for_good,
    (Phase.HALTED, HaltRequested): ignore,
    (Phase.HALTED, ResumeRequested): requests.resume,
    (Phase.HALTING, ResumeRequested): requests.resume_when_halted,
    (Phase.RESUMED, ResumeRequested): requests.choose_step,
    **_rows(requests.cancel, _OPEN, CancelRequested),
    **_rows(requests.scale, _OPEN - {Phase.STORING}, ScaleRequested),
    **_rows(requests.delete, Phase, DeleteRequested),
    # What the scheduler decides.
    **_rows(decisions.launch, WAITING_PHASES, GangPlaced),
    **_rows(decisions.grow, _LAUNCHED, GangGrown),
    **_rows(decisions.shrink, _LAUNCHED, GangShrunk),
    **_rows(decisions.evict, _LAUNCHED, GangEvicted),
    # What time brings.
    **_rows(decisions.overrun, _LAUNCHED | {Phase.STORING, Phase.RESUMED, Phase.RESTARTING}, DeadlinePassed),
    **_rows(progress.restart_due_replicas, _LAUNCHED, BackoffElapsed),
    # What engines report.
    **_rows(decisions.recall, WAITING_PHASES, GangFound),
    **_rows(decisions.withdraw, FINAL_PHASES | {Phase.HALTED}, GangFound),
    (Phase.STARTING, DownloadStarted): progress.download,
    **_rows(progress.transfer_reported, Phase, TransferReported),
    **_rows(progress.checkpointed, _LAUNCHED | {Phase.HALTING}, CheckpointSaved),
    **_rows(progress.speed_recalled, _OPEN, SpeedRecalled),
    **_rows(progress.speed_measured, _LAUNCHED | {Phase.HALTING}, SpeedMeasured),
    **_rows(progress.replica_delayed, _LAUNCHED, ReplicaDelayed),
    (Phase.PROCESSING, ReplicaNoticed): progress.replica_noticed,
    (Phase.PROCESSING, GangStalled): progress.gang_stalled,
    **_rows(progress.loss_diverged, _LAUNCHED, LossDiverged),
    **_rows(progress.replica_started, _LAUNCHED, ReplicaStarted),
    **_rows(progress.replica_exited, _LAUNCHED, ReplicaExited),
    **_rows(progress.note_exit, _ENDING, ReplicaExited),
    **_rows(progress.replica_lost, _LAUNCHED, ReplicaLost),
    **_rows(progress.gang_failed, _LAUNCHED, GangFailed),
    (Phase.STORING, GangFailed): progress.storing_failed,
    (Phase.STORING, OutputsStored): progress.complete,
    **_rows(progress.gang_vanished, _LAUNCHED | {Phase.STORING}, GangStopped),
    (Phase.HALTING, GangStopped): progress.halted,
    **_rows(progress.release, FINAL_PHASES | {Phase.RESTARTING}, GangStopped),
}

_HINTS: Mapping[type[Event], str] = {
    HaltRequested: "only a job that waits or runs can be halted",
    ResumeRequested: "only a halted job can be resumed",
    CancelRequested: "it has ended already",
    ScaleRequested: "only a job that has not ended can be scaled",
}


def advance(job: Job, event: Event) -> Outcome:
    """Return what the job becomes and what must be done about it. The only way a job ever changes."""
    handler = TRANSITIONS.get((job.phase, type(event)))
    if handler is None:
        raise InvalidTransitionError(job.name, job.phase, type(event).__name__, hint=_HINTS.get(type(event)))
    if isinstance(event, GangEvent) and event.attempt != job.attempt + isinstance(event, GangFound):
        return ignore(job, event)
    return handler(job, event)
