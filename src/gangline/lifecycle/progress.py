"""Handlers of what engines report: starts, exits, losses, the end of a stage."""

from collections.abc import Callable
from dataclasses import replace

from gangline.lifecycle.events import (
    BackoffElapsed,
    CheckpointSaved,
    DownloadStarted,
    GangEvent,
    GangFailed,
    GangStalled,
    GangStopped,
    LossDiverged,
    OutputsStored,
    ReplicaDelayed,
    ReplicaExited,
    ReplicaLost,
    ReplicaNoticed,
    ReplicaStarted,
    SpeedMeasured,
    SpeedRecalled,
    TransferReported,
)
from gangline.lifecycle.outcome import Outcome, act, end, enter, ignore, settle, succeed, where_it_goes_on
from gangline.lifecycle.verdict import (
    backoff_seconds,
    has_succeeded,
    may_retry,
    may_shrink,
    quick_restarts,
    replica_backoff_seconds,
    too_late,
)
from gangline.model import (
    Job,
    NanAction,
    Phase,
    ReplicaId,
    ReplicaState,
    ReplicaStatus,
    Restart,
    StallAction,
    Timestamp,
)
from gangline.model.jobs.speed import EARLY, SpeedRecord, with_sample

CHECKPOINT_RESOLUTION_SECONDS = 5.0
"""Checkpoints that follow each other faster are one: nobody's decision depends on less, and each costs a write."""

LOST_EXIT_CODE = 137
"""What a killed process would have returned: nobody knows the real one."""

_TIMED_OUT = 124
"""What ``timeout`` returns: the job did not end by itself."""


def download(job: Job, event: DownloadStarted) -> Outcome:
    """The inputs are on their way."""
    return Outcome(enter(job, Phase.DOWNLOADING, event, reason="DownloadStarted"))


def transfer_reported(job: Job, event: TransferReported) -> Outcome:
    """Show how far it is while that is what the job does; what was moved stays on record."""
    shown = Phase.STORING if event.storing else Phase.DOWNLOADING
    known = job.outputs if event.storing else job.inputs
    moved = event.moved if len(event.moved) >= len(known) else known
    after = replace(
        job,
        transfer=event.progress if job.phase is shown else job.transfer,
        inputs=job.inputs if event.storing else moved,
        outputs=moved if event.storing else job.outputs,
    )
    return ignore(job, event) if after == job else Outcome(after)


def replica_started(job: Job, event: ReplicaStarted) -> Outcome:
    """One more runs; when all do, the job is processing."""
    status = _speaks_of(job, event.replica, event.incarnation)
    if status is None or status.state is not ReplicaState.PENDING:
        return ignore(job, event)
    running = replace(status, state=ReplicaState.RUNNING, started_at=event.at, message="")
    if event.image and event.replica == ReplicaId(job.spec.lead_role, 0):
        job = replace(job, image=event.image)
    return Outcome(_ready(_with(job, running), event))


def replica_delayed(job: Job, event: ReplicaDelayed) -> Outcome:
    """It goes on waiting for its start; people can read what for."""
    status = _speaks_of(job, event.replica, event.incarnation)
    if status is None or status.state is not ReplicaState.PENDING or status.message == event.message:
        return ignore(job, event)
    return Outcome(_with(job, replace(status, message=event.message)))


def replica_noticed(job: Job, event: ReplicaNoticed) -> Outcome:
    """It runs on; people can read what is the matter with it."""
    status = job.replica(event.replica)
    if status is None or status.state is not ReplicaState.RUNNING or status.message == event.message:
        return ignore(job, event)
    return Outcome(_with(job, replace(status, message=event.message)))


def gang_stalled(job: Job, event: GangStalled) -> Outcome:
    """Start all again from the checkpoint, or give up, as the policy says."""
    rule = job.spec.policy.stalled
    if rule is None or rule.action is StallAction.TELL:
        return ignore(job, event)
    if rule.action is StallAction.FAIL:
        return end(job, Phase.FAILED, event, reason="Stalled", message=event.message, exit_code=_TIMED_OUT)
    return _retry_or_fail(job, event, reason="Stalled", message=event.message, exit_code=_TIMED_OUT)


def loss_diverged(job: Job, event: LossDiverged) -> Outcome:
    """Give up, or stop and keep the checkpoints, as the policy says. Another try would diverge again."""
    rule = job.spec.policy.nan
    if rule is None:
        return ignore(job, event)
    if rule.action is NanAction.HALT:
        return act(enter(job, Phase.HALTING, event, reason="LossDiverged", message=event.message))
    return end(job, Phase.FAILED, event, reason="LossDiverged", message=event.message, exit_code=1)


def checkpointed(job: Job, event: CheckpointSaved) -> Outcome:
    """Work up to here is safe. Engines repeat old news, so only a later moment counts."""
    known = job.checkpoint_at
    if known is not None and event.at < known + CHECKPOINT_RESOLUTION_SECONDS:
        return ignore(job, event)
    return Outcome(replace(job, checkpoint_at=event.at))


def speed_measured(job: Job, event: SpeedMeasured) -> Outcome:
    """Keep what was measured; what the program did not say stays as it was known."""
    before = job.speed or SpeedRecord()
    known = with_sample(before, event.sample)
    begins = event.progress is not None and event.progress <= EARLY
    speed = replace(
        known,
        batches=event.batches or known.batches,
        noise=known.noise if event.noise is None else event.noise,
        first_noise=event.noise if event.noise is not None and begins else known.first_noise or event.noise,
        progress=known.progress if event.progress is None else event.progress,
        restart_seconds=known.restart_seconds if event.restart_seconds is None else event.restart_seconds,
        measured_at=event.at if event.sample.sound else known.measured_at,
    )
    return ignore(job, event) if speed == before else Outcome(replace(job, speed=speed))


def speed_recalled(job: Job, event: SpeedRecalled) -> Outcome:
    """Begin with what earlier runs have shown; what a job has measured itself is not replaced."""
    return ignore(job, event) if job.speed is not None else Outcome(replace(job, speed=event.speed))


def replica_exited(job: Job, event: ReplicaExited) -> Outcome:
    """An exit may complete the job, restart the replica, restart the gang, fail the job, or mean nothing yet."""
    status = _speaks_of(job, event.replica, event.incarnation)
    if status is None or status.state not in (ReplicaState.PENDING, ReplicaState.RUNNING):
        return ignore(job, event)
    noted = _ready(_with(job, _exit_noted(status, event)), event)
    if event.exit_code == 0 and job.spec.is_endless(event.replica.role):
        return _start_again_or_fail(noted, event)
    if event.exit_code == 0:
        return succeed(noted, event) if has_succeeded(noted) else Outcome(noted)
    message = f"{event.replica} exited with {event.exit_code}" + (f": {event.message}" if event.message else "")
    rule = job.spec.restart_of(event.replica.role)
    if rule is Restart.NEVER or not may_retry(job.spec.retry_of(event.replica.role), event.exit_code):
        return end(noted, Phase.FAILED, event, reason="ReplicaFailed", message=message, exit_code=event.exit_code)
    if rule is Restart.REPLICA:
        limit = job.spec.policy.max_replica_restarts
        if job.replica_restarts < limit:
            return _back_off(noted, event)
        message = f"no more restarts in place, policy.max_replica_restarts is {limit}: {message}"
    return _retry_or_fail(noted, event, reason="ReplicaFailed", message=message, exit_code=event.exit_code)


def note_exit(job: Job, event: ReplicaExited) -> Outcome:
    """The gang is being taken down: its exits are recorded and decide nothing."""
    status = _speaks_of(job, event.replica, event.incarnation)
    if status is None or status.state not in (ReplicaState.PENDING, ReplicaState.RUNNING):
        return ignore(job, event)
    return Outcome(_with(job, _exit_noted(status, event)))


def replica_lost(job: Job, event: ReplicaLost) -> Outcome:
    """An elastic role lives on with fewer; else the replica starts again alone, or the gang, which costs no attempt."""
    status = _speaks_of(job, event.replica, event.incarnation)
    if status is None or status.state not in (ReplicaState.PENDING, ReplicaState.RUNNING):
        return ignore(job, event)
    if may_shrink(job, event.replica):
        kept = tuple(other for other in job.replicas if other.id != event.replica)
        return settle(_ready(replace(job, replicas=kept), event), event)
    message = f"{event.replica} was lost" + (f": {event.message}" if event.message else "")
    noted = _with(job, replace(status, state=ReplicaState.LOST, finished_at=event.at, message=event.message))
    rule = job.spec.restart_of(event.replica.role)
    if rule is Restart.NEVER:
        return end(noted, Phase.FAILED, event, reason="ReplicaLost", message=message, exit_code=LOST_EXIT_CODE)
    if rule is Restart.REPLICA and event.in_place and job.replica_restarts < job.spec.policy.max_replica_restarts:
        return _back_off(noted, event)
    return _restart(noted, event, reason="ReplicaLost", message=message, tries=job.attempt)


def gang_failed(job: Job, event: GangFailed) -> Outcome:
    """The engine could not start the gang."""
    if event.permanent:
        return end(job, Phase.FAILED, event, reason=event.reason, message=event.message, exit_code=1)
    if event.blameless:
        return _restart(job, event, reason=event.reason, message=event.message, tries=job.attempt)
    return _retry_or_fail(job, event, reason=event.reason, message=event.message, exit_code=1)


def storing_failed(job: Job, event: GangFailed) -> Outcome:
    """The training is done but its results did not arrive; running it again would waste it."""
    return end(job, Phase.FAILED, event, reason=event.reason, message=event.message, exit_code=1)


def complete(job: Job, event: OutputsStored) -> Outcome:
    """The results are where they belong."""
    return end(job, Phase.COMPLETED, event, reason="Succeeded", message=event.note, exit_code=0)


def gang_vanished(job: Job, event: GangStopped) -> Outcome:
    """Nobody asked for the gang to stop, and yet it is gone."""
    freed = replace(job, holding=False)
    if job.phase is Phase.STORING:
        message = "the gang disappeared while its results were being stored"
        return end(freed, Phase.FAILED, event, reason="GangVanished", message=message, exit_code=1)
    return _retry_or_fail(freed, event, reason="GangVanished", message="the gang disappeared", exit_code=LOST_EXIT_CODE)


def halted(job: Job, event: GangStopped) -> Outcome:
    """The gang is gone: rest, or queue again if it was only preempted."""
    phase, reason, message = Phase.HALTED, "Halted", job.message
    if job.requeue:
        phase, reason, message = Phase.RESUMED, "Requeued", where_it_goes_on(job)
    return Outcome(enter(job, phase, event, reason=reason, message=message, holding=False, requeue=False))


def release(job: Job, event: GangStopped) -> Outcome:
    """What the gang held is free."""
    return act(replace(job, holding=False)) if job.holding else ignore(job, event)


def restart_due_replicas(job: Job, event: BackoffElapsed) -> Outcome:
    """Start those again whose back-off is over."""
    incarnation = job.incarnations + 1
    due = {
        status.id
        for status in job.replicas
        if status.state is ReplicaState.BACKING_OFF and status.retry_at is not None and status.retry_at <= event.at
    }
    if not due:
        return ignore(job, event)
    replicas = tuple(
        ReplicaStatus(
            id=status.id,
            node=status.node,
            incarnation=incarnation,
            restarts=quick_restarts(status) + 1,
            gpu_slot=status.gpu_slot,
        )
        if status.id in due
        else status
        for status in job.replicas
    )
    return act(replace(job, replicas=replicas, incarnations=incarnation))


def _back_off(job: Job, event: ReplicaExited | ReplicaLost) -> Outcome:
    def wait(status: ReplicaStatus) -> ReplicaStatus:
        delay = replica_backoff_seconds(job.spec.policy, status)
        return replace(status, state=ReplicaState.BACKING_OFF, retry_at=Timestamp(event.at + delay))

    changed = _change(job, event.replica, wait)
    return Outcome(replace(changed, replica_restarts=job.replica_restarts + 1))


def _start_again_or_fail(job: Job, event: ReplicaExited) -> Outcome:
    """A replica that should never end has. Nothing went wrong, so the others go on whatever the rule for failures."""
    limit = job.spec.policy.max_replica_restarts
    if job.replica_restarts < limit:
        return _back_off(job, event)
    message = f"{event.replica} exited with 0 once more; policy.max_replica_restarts is {limit}"
    return end(job, Phase.FAILED, event, reason="RestartLimitReached", message=message, exit_code=1)


def _retry_or_fail(job: Job, event: GangEvent, *, reason: str, message: str, exit_code: int) -> Outcome:
    failures = job.failures + 1
    counted = replace(job, failures=failures)
    budget = job.spec.policy.max_attempts
    late = too_late(job, event.at + backoff_seconds(job.spec.policy, failures))
    if failures < budget and not late:
        return _restart(
            counted, event, reason=reason, message=f"{message} (try {failures} of {budget})", tries=failures
        )
    if failures < budget:
        message = f"failed {failures} times, policy.retry_for is {job.spec.policy.retry_for_seconds:g} s: {message}"
    elif budget > 1:
        message = f"failed {failures} times, policy.max_attempts is {budget}: {message}"
    return end(counted, Phase.FAILED, event, reason=reason, message=message, exit_code=exit_code)


def _restart(job: Job, event: GangEvent, *, reason: str, message: str, tries: int) -> Outcome:
    retry_at = Timestamp(event.at + backoff_seconds(job.spec.policy, tries))
    return act(enter(job, Phase.RESTARTING, event, reason=reason, message=message, retry_at=retry_at))


def _ready(job: Job, event: GangEvent) -> Job:
    """Move to PROCESSING once every replica has started."""
    if job.phase is Phase.PROCESSING or any(status.state is ReplicaState.PENDING for status in job.replicas):
        return job
    return enter(job, Phase.PROCESSING, event, reason="AllReplicasStarted")


def _exit_noted(status: ReplicaStatus, event: ReplicaExited) -> ReplicaStatus:
    state = ReplicaState.SUCCEEDED if event.exit_code == 0 else ReplicaState.FAILED
    started_at = status.started_at if status.started_at is not None else event.at
    return replace(
        status,
        state=state,
        exit_code=event.exit_code,
        started_at=started_at,
        finished_at=event.at,
        message=event.message,
        result=event.result,
    )


def _speaks_of(job: Job, replica: ReplicaId, incarnation: int) -> ReplicaStatus | None:
    status = job.replica(replica)
    return status if status is not None and status.incarnation == incarnation else None


def _with(job: Job, changed: ReplicaStatus) -> Job:
    return _change(job, changed.id, lambda _: changed)


def _change(job: Job, replica: ReplicaId, change: Callable[[ReplicaStatus], ReplicaStatus]) -> Job:
    return replace(job, replicas=tuple(change(status) if status.id == replica else status for status in job.replicas))
