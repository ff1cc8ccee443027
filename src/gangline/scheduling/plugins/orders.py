"""Who comes first: jobs inside a queue, and queues among their siblings."""

from gangline.model import ACTIVE_PHASES, Job, Queue, Timestamp


class PriorityThenAge:
    """The default: higher priority first, then whoever was submitted first."""

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


LEVEL_APART = 1e12
"""More than any submission time in seconds."""


class LeastAttained:
    """Two levels by GPU time used so far (Tiresias, NSDI'19): long jobs make way for those that have had little.

    With ``older_first`` an older job may also stop a younger one of its own level, as in the original.
    """

    def __init__(self, threshold_gpu_seconds: float = 57_600.0, *, older_first: bool = False) -> None:
        self._threshold = threshold_gpu_seconds
        self._older_first = older_first

    def rank(self, job: Job, now: Timestamp) -> float:
        """The level; with ``older_first``, the submission time behind it."""
        level = float(attained_gpu_seconds(job, now) >= self._threshold)
        return LEVEL_APART * level + job.created_at if self._older_first else level

    def key(self, job: Job, now: Timestamp) -> tuple[float, ...]:
        """Nothing further: first come, first served inside a level."""
        del job, now
        return ()


class DominantShare:
    """The default: queues below their guarantee first, then who has least of the cluster beyond it, per weight."""

    def key(self, queue: Queue, share: float, *, below_guarantee: bool) -> tuple[float, ...]:
        """Guarantee, then weighted share."""
        return (0.0 if below_guarantee else 1.0, share / queue.weight)


def attained_gpu_seconds(job: Job, now: Timestamp) -> float:
    """GPU time a job has had: seconds in phases that hold machines, times the GPUs that it asks for."""
    seconds = 0.0
    for entry, following in zip(job.history, (*job.history[1:], None), strict=True):
        if entry.phase in ACTIVE_PHASES:
            seconds += (now if following is None else following.at) - entry.at
    return seconds * sum(role.resources.gpus * role.replicas for role in job.spec.roles)
