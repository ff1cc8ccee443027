"""Who comes first: jobs inside a queue, and queues among their siblings."""

from dataclasses import dataclass
from typing import NamedTuple

from gangline.model import ACTIVE_PHASES, Job, Phase, Queue, Timestamp


class PriorityThenAge:
    """Higher priority first, then whoever was submitted first."""

    def rank(self, job: Job, now: Timestamp) -> float:
        """The user's priority, the highest first."""
        del now
        return -job.spec.priority

    def key(self, job: Job, now: Timestamp) -> tuple[float, ...]:
        """Nothing further: the age breaks ties anyway."""
        del job, now
        return ()


class ShortestFirst(PriorityThenAge):
    """Higher priority first, then the shortest declared run time; jobs that declare none come last."""

    def key(self, job: Job, now: Timestamp) -> tuple[float, ...]:
        """The declared seconds."""
        del now
        declared = job.spec.policy.expected_seconds
        return (float("inf") if declared is None else declared,)


THRESHOLD_GPU_SECONDS = 57_600.0
"""Sixteen GPU hours: what a gang may have had before it makes way for others."""

LEVEL_APART = 1e12
"""More than any submission time in seconds."""

PROCESSORS_PER_GPU = 100.0
"""Processor time counts as service, too, or gangs without a GPU would never have had any."""

OVERDUE_SECONDS = 24 * 3600.0
"""Whoever has waited for so long is served with those who have had nothing."""

SPARED_SECONDS = 120.0
"""For so long a gang that was stopped before, times how often it was, is not stopped for having had much."""


@dataclass(frozen=True, slots=True)
class LeastAttained:
    """The default: higher priority first; of equal priority, whoever has had little GPU time; then by age.

    There are two levels (Tiresias, NSDI'19): a gang that has had more than the threshold makes way for those that have
    not. What it has saved counts double, since stopping it does not lose that; one that never saved anything is not
    stopped for it, and one that was stopped before is spared for a while: the more often, the longer. What runs forever
    (services) is not measured by what it has had. Whoever has waited for a day counts as one that has had nothing.
    Inside a level the users of a queue take turns, by age.
    """

    threshold_gpu_seconds: float = THRESHOLD_GPU_SECONDS

    def rank(self, job: Job, now: Timestamp) -> float:
        """The level inside the priority."""
        return self._level(job, now) - 2.0 * job.spec.priority

    def key(self, job: Job, now: Timestamp) -> tuple[float, ...]:
        """Nothing further: first come, first served inside a level."""
        del job, now
        return ()

    def party(self, job: Job) -> str:
        """Users are told apart by their tenant."""
        return job.spec.tenant

    def changes_at(self, job: Job, now: Timestamp) -> Timestamp | None:
        """When a gang that runs will have had too much, if nobody stops it."""
        if job.checkpoint_at is None or is_endless(job):
            return None
        size, served = size_of(job), service_of(job, now)
        if not size or not served.running or self._is_above(served, size):
            return None
        # A clock that runs ahead tells of work saved in the future, which counts double as it is done.
        pace = 2.0 if job.checkpoint_at > now else 1.0
        lacking = self.threshold_gpu_seconds / size - served.counted
        return Timestamp(now + max(lacking / pace, served.spared))

    def _level(self, job: Job, now: Timestamp) -> float:
        if len(job.history) == 1:
            return 0.0
        size = size_of(job)
        # What it has had counts at most double, and began with its second entry: most gangs need no further look.
        if 2 * (now - job.history[1].at) * size < self.threshold_gpu_seconds:
            return 0.0
        served = service_of(job, now)
        if not self._is_above(served, size) or is_endless(job) or _is_overdue(job, now):
            return 0.0
        return 0.0 if served.running and job.checkpoint_at is None else 1.0

    def _is_above(self, served: "Service", size: float) -> bool:
        return served.counted * size >= self.threshold_gpu_seconds and not served.spared


@dataclass(frozen=True, slots=True)
class Tiresias:
    """The original, to compare with: the two levels, and in each an older job may stop a younger one.

    Neither priority nor what is lost counts.
    """

    threshold_gpu_seconds: float = THRESHOLD_GPU_SECONDS

    def rank(self, job: Job, now: Timestamp) -> float:
        """The submission time behind the level."""
        return LEVEL_APART * (attained_gpu_seconds(job, now) >= self.threshold_gpu_seconds) + job.created_at

    def key(self, job: Job, now: Timestamp) -> tuple[float, ...]:
        """Nothing further: the age is part of the rank."""
        del job, now
        return ()


class DominantShare:
    """The default: queues below their guarantee first, then by priority, then who has least beyond it, per weight."""

    def key(self, queue: Queue, share: float, *, below_guarantee: bool) -> tuple[float, ...]:
        """Guarantee, then priority, then weighted share."""
        return (0.0 if below_guarantee else 1.0, float(-queue.priority), share / queue.weight)


def _is_overdue(job: Job, now: Timestamp) -> bool:
    """Whether it has stood in line for too long."""
    entry = job.history[-1]
    return entry.phase not in ACTIVE_PHASES and now - entry.at >= OVERDUE_SECONDS


class Service(NamedTuple):
    """Seconds that a job has had machines, those of which it has saved the work, and for how long it is spared yet."""

    seconds: float
    saved: float
    spared: float
    running: bool

    @property
    def counted(self) -> float:
        """What counts against it: saved work double, since nothing of it is lost."""
        return self.seconds + self.saved


def service_of(job: Job, now: Timestamp) -> Service:
    """What a job has had so far, by its history, which is kept with its record."""
    seconds, saved, stops, launched = 0.0, 0.0, 0, None
    checkpoint = job.checkpoint_at or 0.0
    for entry, following in zip(job.history, (*job.history[1:], None), strict=True):
        if entry.phase in ACTIVE_PHASES:
            end = now if following is None else following.at
            seconds += end - entry.at
            saved += max(min(end, checkpoint) - entry.at, 0.0)
            launched = entry.at if launched is None else launched
        else:
            stops += entry.phase is Phase.RESUMED
            launched = None
    spared = 0.0 if launched is None else max(launched + stops * SPARED_SECONDS - now, 0.0)
    return Service(seconds, saved, spared, running=launched is not None)


def size_of(job: Job) -> float:
    """How much of the machines a job takes, in GPUs."""
    return sum(
        role.replicas * (role.resources.gpu_millis + role.resources.cpu_millis / PROCESSORS_PER_GPU) / 1000
        for role in job.spec.roles
    )


def is_endless(job: Job) -> bool:
    """Whether part of it runs until somebody stops it."""
    return any(job.spec.is_endless(role.name) for role in job.spec.roles)


def attained_gpu_seconds(job: Job, now: Timestamp) -> float:
    """GPU time a job has had: seconds in phases that hold machines, times the GPUs that it asks for."""
    return service_of(job, now).seconds * sum(role.resources.gpus * role.replicas for role in job.spec.roles)
