"""The speed of jobs that leave their size to the scheduler: measured as they report, recalled from earlier runs."""

from collections import OrderedDict
from itertools import pairwise

from gangline.lifecycle.events import SpeedMeasured, SpeedRecalled
from gangline.model import WAITING_PHASES, Job, JobId, Metric, Phase, ReplicaId, ReplicaState, Sizing, Timestamp
from gangline.model.jobs.speed import SpeedRecord, SpeedSample, for_new_run

RUNS_RECALLED = 8
"""Runs of the same code whose records are put together."""
CODES_RECALLED = 1000
"""Different codes that are remembered, those that ran last."""
PROGRESS_METRIC = "progress"
"""The share of its work that a program has done (``gangline.runtime.report`` with ``total_steps``)."""
SHORTEST_SECONDS = 5.0
"""A measurement lasts at least this long; what is shorter says more of the clock than of the job."""
MOST_RESTART_SECONDS = 300.0
"""No change counts as dearer than this: a job whose changes seem to cost hours could not be asked to make way."""
UNSETTLED_SECONDS = 2.0
"""What is reported so soon after a change of size is still work of before, or a start."""


def is_measured(job: Job) -> bool:
    """Whether the speed of a job is worth knowing."""
    return job.spec.policy.replicas is Sizing.AUTO


class EarlierRuns:
    """The records of jobs by what they run."""

    def __init__(self) -> None:
        self._runs: OrderedDict[object, dict[JobId, SpeedRecord]] = OrderedDict()

    def note(self, job: Job) -> None:
        """Remember what a job has shown."""
        if job.speed is None or not job.attempt:
            return
        runs = self._runs.setdefault(_code_of(job), {})
        runs.pop(job.id, None)
        runs[job.id] = job.speed
        if len(runs) > RUNS_RECALLED:
            del runs[next(iter(runs))]
        self._runs.move_to_end(_code_of(job))
        if len(self._runs) > CODES_RECALLED:
            self._runs.popitem(last=False)

    def recall(self, job: Job, now: Timestamp) -> SpeedRecalled | None:
        """What earlier runs tell of a job that has measured nothing yet."""
        if job.speed is not None or not (runs := self._runs.get(_code_of(job))):
            return None
        speed = for_new_run(runs.values())
        return None if speed is None else SpeedRecalled(job_id=job.id, at=now, speed=speed)


def _code_of(job: Job) -> object:
    """What makes two jobs runs of the same code: programs, their arguments and what each replica has; not its name."""
    spec = job.spec
    roles = tuple(
        (role.name, role.command, role.image, tuple(sorted(role.resources.amounts().items()))) for role in spec.roles
    )
    return (spec.tenant, spec.framework, spec.image, spec.code, roles)


_WAITING = WAITING_PHASES | {Phase.HALTED}
_Gang = tuple[int, tuple[tuple[ReplicaId, int], ...]]
"""An attempt, and who is at work in it."""


class _Span:
    """Reports of one replica while its gang stayed as it was: from when, with what done, how long the whole would take
    (None before it was measured), and what the change to this gang has cost."""

    __slots__ = ("at", "cost", "gang", "progress", "whole")

    def __init__(
        self, gang: _Gang, at: float, progress: float, *, whole: float | None = None, cost: float | None = None
    ) -> None:
        self.gang = gang
        self.at = at
        self.progress = progress
        self.whole = whole
        self.cost = cost


class SpeedMeter:
    """Makes measurements of the progress that programs report."""

    def __init__(self) -> None:
        self._spans: dict[JobId, _Span] = {}

    def hear(self, job: Job, metric: Metric) -> SpeedMeasured | None:
        """A replica has reported; return a measurement once enough has been reported with the gang as it is.

        Replicas of a data-parallel job report the same progress, and those of one that works asynchronously the
        progress of all; the lead speaks for all of them, so that nobody counts twice.
        """
        if metric.name != PROGRESS_METRIC or job.phase is not Phase.PROCESSING or not _leads(job, metric):
            return None
        gang, settled_at = _gang_of(job)
        if gang is None or metric.at < settled_at + UNSETTLED_SECONDS:
            return None
        known = self._spans.get(job.id)
        if known is None or known.gang != gang or metric.value < known.progress:
            cost = None if known is None or known.gang == gang else _cost_of_change(job, known, metric)
            self._spans[job.id] = _Span(gang, metric.at, metric.value, cost=cost)
            return None
        seconds, done = metric.at - known.at, metric.value - known.progress
        if seconds < SHORTEST_SECONDS or done <= 0:
            return None
        self._spans[job.id] = _Span(gang, metric.at, metric.value, whole=seconds / done)
        return SpeedMeasured(
            job_id=job.id,
            at=metric.at,
            sample=_sample(job, seconds, done),
            progress=min(max(metric.value, 0.0), 1.0),
            restart_seconds=known.cost,
        )

    def forget(self, job_id: JobId) -> None:
        """The job is gone."""
        self._spans.pop(job_id, None)


def _leads(job: Job, metric: Metric) -> bool:
    role = job.spec.lead_role
    present = [status.id.index for status in job.replicas if status.id.role == role]
    return metric.replica.role == role and metric.replica.index == min(present, default=0)


def _cost_of_change(job: Job, before: _Span, metric: Metric) -> float | None:
    """The seconds that went by beside what the work done since would have taken the gang of before: for stopping,
    starting, and repeating what no checkpoint had. Time in the line is not the change's; None if nobody can tell."""
    if before.whole is None:
        return None
    passed = metric.at - before.at - _waited(job, before.at)
    return min(max(passed - (metric.value - before.progress) * before.whole, 0.0), MOST_RESTART_SECONDS)


def _waited(job: Job, since: float) -> float:
    """How long a job has waited for machines since then."""
    return sum(
        after.at - max(entry.at, since)
        for entry, after in pairwise(job.history)
        if entry.phase in _WAITING and after.at > since
    )


def _gang_of(job: Job) -> tuple[_Gang | None, float]:
    """Who is at work, and since when all of them are; None while somebody is missing."""
    running = [status for status in job.replicas if status.state is ReplicaState.RUNNING]
    if any(status.state is ReplicaState.PENDING for status in job.replicas) or not running:
        return None, 0.0
    since = max(status.started_at or 0.0 for status in running)
    return (job.attempt, tuple((status.id, status.incarnation) for status in running)), since


def _sample(job: Job, seconds: float, done: float) -> SpeedSample:
    """The whole training as one step: how long it would take at this speed."""
    running = [status for status in job.replicas if status.state is ReplicaState.RUNNING]
    servers = sum(status.id.role == "ps" for status in running)
    elastic = {role.name for role in job.spec.roles if role.elastic and role.name != "ps"}
    workers = [status for status in running if status.id.role in elastic]
    return SpeedSample(
        workers=max(len(workers), 1),
        servers=servers,
        nodes=max(len({status.node for status in workers}), 1),
        step_seconds=seconds / done,
        steps=done,
    )
