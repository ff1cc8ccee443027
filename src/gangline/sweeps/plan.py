"""What should happen to a sweep now: which trials begin, which are cancelled, whether it is over."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gangline.model import Job, JobId, Metric
from gangline.model.sweep import PARAMETERS_VARIABLE, TRIAL_LABEL, Assignment, Goal, Objective, Sweep
from gangline.sweeps.samplers import SAMPLERS

MOST_WAITING = 100
"""How many trials of a sweep wait for machines at a time: enough to fill what becomes free, and nobody who submits
after a sweep of thousands waits behind all of it."""

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial: its job, its values, and the newest value of the sweep's objective that it reported."""

    job: Job
    assignment: Assignment
    result: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do next. ``over`` means that nothing runs and nothing is left to try."""

    start: tuple[Assignment, ...] = ()
    cancel: tuple[JobId, ...] = ()
    over: bool = False


def trials_of(sweep: Sweep, jobs: Iterable[Job], metrics: Iterable[Metric] = ()) -> tuple[Trial, ...]:
    """Return the sweep's own trials among jobs that bear its label, in their order, with what they reported.

    Labels are anybody's to set; the id is what makes a job a trial of this very sweep.
    """
    results = _results(sweep, metrics)
    found = ((job, _assignment(sweep, job)) for job in jobs)
    trials = (Trial(job=job, assignment=mine, result=results.get(job.id)) for job, mine in found if mine is not None)
    return tuple(sorted(trials, key=lambda trial: trial.assignment.number))


def plan(sweep: Sweep, trials: Sequence[Trial]) -> Plan:
    """Decide what the sweep needs now. Calling it again after its plan was carried out finds nothing more to do."""
    running = [trial for trial in trials if not trial.job.finished]
    if sweep.stopped:
        return Plan(cancel=tuple(trial.job.id for trial in running), over=not running)
    room = MOST_WAITING - sum(1 for trial in running if trial.job.placeable)
    if sweep.spec.parallelism is not None:
        room = min(room, sweep.spec.parallelism - len(running))
    room = max(0, room)
    results = {trial.assignment.number: trial.result for trial in trials if trial.job.finished}
    known = {trial.assignment.number: trial.assignment for trial in trials}
    gone = {number: Assignment(number=number) for number in range(sweep.begun)}
    proposed = SAMPLERS[sweep.spec.sampler].propose(
        sweep.spec,
        tuple((gone | known).values()),
        {number: result for number, result in results.items() if result is not None},
        room,
    )
    return Plan(start=tuple(proposed[:room]), over=not proposed and not running)


def best_trial(objective: Objective | None, trials: Iterable[Trial]) -> Trial | None:
    """Return the trial with the best result so far, if the sweep says what is better and anything was reported."""
    if objective is None:
        return None
    sign = 1.0 if objective.goal is Goal.MAXIMIZE else -1.0
    scored = [(sign * trial.result, trial) for trial in trials if trial.result is not None]
    return max(scored, key=lambda pair: pair[0])[1] if scored else None


def _assignment(sweep: Sweep, job: Job) -> Assignment | None:
    """Return what a job tries; None if it is no trial of the sweep, whatever somebody wrote into its labels."""
    number = job.spec.labels.get(TRIAL_LABEL, "")
    if not _NUMBER.fullmatch(number) or job.id != sweep.trial_id(int(number)):
        return None
    try:
        values = json.loads(job.spec.env.get(PARAMETERS_VARIABLE, ""))
    except ValueError:
        return None
    return Assignment(number=int(number), values=values) if isinstance(values, dict) else None


def _results(sweep: Sweep, metrics: Iterable[Metric]) -> dict[JobId, float]:
    """The newest value of the objective by job, whichever replica reported it; what is no number is no result."""
    if sweep.spec.objective is None:
        return {}
    wanted = sweep.spec.objective.metric
    found = (metric for metric in metrics if metric.name == wanted and math.isfinite(metric.value))
    return {metric.job_id: metric.value for metric in sorted(found, key=lambda metric: metric.at)}
