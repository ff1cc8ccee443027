"""Whether replicas get on with their work: which have stalled, are far slower than the others, or diverge. Pure.

The controller feeds in what engines measure and what programs report; what is said here becomes events.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from gangline.model import Framework, Job, Metric, Phase, ReplicaId, ReplicaState, Timestamp
from gangline.model.jobs.spec import SERVICE_ROLES

STALLED = "stalled: "
SLOW = "slow: "
_IDLE_SHARE = 0.01
"""Below this share of one processor a replica counts as idle: an interpreter that waits wakes now and then."""
_FEWEST_PEERS = 3
"""Of two replicas nobody knows which one is slow."""
_FEWEST_STEPS = 5
"""Steps that a speed is told from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What an engine sees of one replica now."""

    cpu_seconds: float
    """Processor time since its start."""
    output_at: Timestamp | None = None
    """When it last wrote a line."""
    gpu_busy: bool = False
    idle_since: Timestamp | None = None
    """Since when it says itself that it has been idle, if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is known of one replica: its last sign of life, and its steps."""

    active_at: Timestamp
    seen_at: Timestamp
    cpu_seconds: float
    first_step: int | None = None
    first_step_at: Timestamp | None = None
    step: int | None = None
    step_at: Timestamp | None = None

    @property
    def steps_per_second(self) -> float | None:
        """How fast it steps, if it has told enough to say so."""
        if self.first_step is None or self.step is None or self.first_step_at is None or self.step_at is None:
            return None
        steps, seconds = self.step - self.first_step, self.step_at - self.first_step_at
        return steps / seconds if steps >= _FEWEST_STEPS and seconds > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What is to be said of a replica."""

    replica: ReplicaId
    message: str


def seen(before: Watched | None, pulse: Pulse, now: Timestamp) -> Watched:
    """Take in what an engine sees. Processor time counts as life only of a replica that reports no steps.

    One that does and has none to report may well be spinning in a collective that will never end.
    """
    if before is None or pulse.cpu_seconds < before.cpu_seconds:  # it was started again
        return Watched(active_at=now, seen_at=now, cpu_seconds=pulse.cpu_seconds)
    moments = [before.active_at, pulse.output_at or before.active_at]
    busy = pulse.gpu_busy or pulse.cpu_seconds - before.cpu_seconds > _IDLE_SHARE * (now - before.seen_at)
    if busy and before.step is None:
        moments.append(now)
    active = Timestamp(min(max(moments), now))
    if pulse.idle_since is not None and before.step is None:
        active = Timestamp(min(active, max(pulse.idle_since, pulse.output_at or pulse.idle_since)))
    return replace(before, active_at=active, seen_at=now, cpu_seconds=pulse.cpu_seconds)


def heard(before: Watched, metric: Metric, now: Timestamp) -> Watched:
    """Take in what a replica reported: any number is a sign of life, one with a new step is a step."""
    active = replace(before, active_at=now)
    if metric.step is None or metric.step == before.step:
        return active if metric.step is None else before
    if before.step is None or metric.step < before.step:
        return replace(active, first_step=metric.step, first_step_at=metric.at, step=metric.step, step_at=metric.at)
    return replace(active, step=metric.step, step_at=metric.at)


def is_watched(job: Job, replica: ReplicaId) -> bool:
    """Whether a replica has work of its own: those that serve others, or wait for a launcher, are quiet by nature."""
    waits = job.spec.framework is Framework.MPI and replica.role != job.spec.lead_role
    status = job.replica(replica)
    running = status is not None and status.state is ReplicaState.RUNNING
    return running and replica.role not in SERVICE_ROLES and not waits


def stalled(job: Job, watched: Mapping[ReplicaId, Watched], now: Timestamp) -> tuple[Notice, ...]:
    """Return the replicas that have shown no sign of life for as long as the job's policy allows."""
    rule = job.spec.policy.stalled
    if rule is None:
        return ()
    return tuple(
        Notice(replica=replica, message=f"{STALLED}{_silence(each)}")
        for replica, each in sorted(watched.items())
        if is_watched(job, replica) and now - each.active_at >= rule.after_seconds
    )


def _silence(watched: Watched) -> str:
    if watched.step is not None:
        return f"no step and no output since step {watched.step}"
    return "no report, no output and no use of a processor or GPU"


def stragglers(job: Job, watched: Mapping[ReplicaId, Watched]) -> tuple[Notice, ...]:
    """Return the replicas that step at less than half the median speed of their role."""
    found = list[Notice]()
    for role in job.spec.roles:
        speeds = {
            replica: speed
            for replica, each in watched.items()
            if replica.role == role.name and is_watched(job, replica) and (speed := each.steps_per_second) is not None
        }
        if len(speeds) >= _FEWEST_PEERS:
            usual = median(speeds.values())
            found += [
                Notice(replica=replica, message=f"{SLOW}less than half as many steps as the median of its role")
                for replica, speed in sorted(speeds.items())
                if speed < usual / 2
            ]
    return tuple(found)


def notices(job: Job, watched: Mapping[ReplicaId, Watched], now: Timestamp) -> Sequence[Notice]:
    """Return what is to be said now; one that has stalled is not called slow as well."""
    still = stalled(job, watched, now)
    names = {each.replica for each in still}
    return (*still, *(each for each in stragglers(job, watched) if each.replica not in names))


def diverged(job: Job, metric: Metric) -> str | None:
    """Return what is wrong with a metric by the job's policy. What is repeated of earlier attempts does not count."""
    rule = job.spec.policy.nan
    if rule is None or math.isfinite(metric.value) or not rule.covers(metric.name):
        return None
    begun = next((entry.at for entry in reversed(job.history) if entry.phase is Phase.STARTING), None)
    if begun is None or metric.at < begun:
        return None
    step = "" if metric.step is None else f" at step {metric.step}"
    return f"{metric.name} of {metric.replica} is NaN or infinite{step}"
