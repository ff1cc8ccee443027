"""The trials of a sweep, read from its jobs and from what they reported."""

import json
import math
import re
import sys
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace

from gangline.model import ACTIVE_PHASES, Job, JobId, Metric, Phase, Timestamp
from gangline.model.kinds.sweep import (
    ADDED_LABEL,
    COPY_LABEL,
    PARAMETERS_VARIABLE,
    TRIAL_LABEL,
    Assignment,
    Copy,
    Objective,
    Sweep,
)
from gangline.model.search.stopping import Rule
from gangline.sweeps.samplers import Outcome, Tried

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_COPY = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial: its job, its values, and the newest value of each of the sweep's objectives that it reported."""

    job: Job
    assignment: Assignment
    results: dict[str, float] = field(default_factory=dict)
    result: float | None = None
    """That of the first objective."""
    tried: Tried | None = None
    """What a sampler is told of it, once nothing can change that any more."""

    @property
    def number(self) -> int:
        """Its number within the sweep."""
        return self.assignment.number

    @property
    def ended(self) -> bool:
        """Whether nothing will ever run for it again."""
        return self.tried is not None or self.job.finished

    @property
    def added(self) -> int | None:
        """Its position among the trials that were added by hand, if it is one of them."""
        return self.assignment.added


def trials_of(sweep: Sweep, jobs: Iterable[Job], metrics: Iterable[Metric] = ()) -> tuple[Trial, ...]:
    """Return the sweep's own trials among jobs that bear its label, in their order, with what they reported.

    Labels are anybody's to set; the id is what makes a job a trial of this very sweep.
    """
    results = _results(sweep, metrics)
    first = sweep.spec.objective.metric if sweep.spec.objective is not None else ""
    found = ((job, _assignment(sweep, job), results.get(job.id, {})) for job in jobs)
    trials = (
        Trial(job=job, assignment=mine, results=reported, result=reported.get(first))
        for job, mine, reported in found
        if mine is not None
    )
    return tuple(sorted(trials, key=lambda trial: trial.number))


def ended_trial(sweep: Sweep, job: Job, metrics: Iterable[Metric]) -> Trial | None:
    """Return a trial that has ended as little as can be said of it; None for a job that is not a trial of the sweep.

    Its job has the template's spec in place of its own: what was rendered into that is the bulk of it.
    """
    for trial in trials_of(sweep, (job,), metrics):
        stopped = stopped_numbers(sweep) if job.phase is Phase.CANCELLED else frozenset()
        return replace(trial, job=_slim(sweep, job), tried=tried(sweep, trial, stopped))
    return None


def _slim(sweep: Sweep, job: Job) -> Job:
    """Return a job that has ended without what no plan asks for; a population's go on from others by their names."""
    spec, last = sweep.spec, job.history[-1]
    population = spec.stopping is not None and spec.stopping.rule is Rule.PBT
    return Job(
        id=job.id,
        spec=replace(spec.template, name=job.name) if population else spec.template,
        created_at=job.created_at,
        finished_at=job.finished_at,
        history=job.history if spec.budget.gpu_hours is not None else (replace(last, reason="", message=""),),
    )


def tried(sweep: Sweep, trial: Trial, stopped: Set[int]) -> Tried:
    """Return a trial as a sampler sees it; ``stopped`` are the numbers that were found not worth while."""
    if trial.tried is not None:
        return trial.tried
    numbers = tuple(trial.results[each.metric] for each in sweep.spec.objectives if each.metric in trial.results)
    complete = len(numbers) == len(sweep.spec.objectives)
    outcome = Outcome.FAILED
    if not trial.job.finished:
        outcome = Outcome.RUNNING
    elif trial.job.phase is Phase.COMPLETED and complete:
        outcome = Outcome.COMPLETED
    if complete and outcome is not Outcome.COMPLETED and is_stopped(trial, stopped):
        outcome = Outcome.STOPPED
    return Tried(
        number=trial.number,
        values=trial.assignment.values,
        outcome=outcome,
        results=() if outcome in (Outcome.RUNNING, Outcome.FAILED) else numbers,
        proposed=trial.added is None and trial.assignment.copy is None,
        began_at=trial.job.created_at,
        ended_at=trial.job.finished_at,
    )


def stopped_numbers(sweep: Sweep) -> frozenset[int]:
    """Return the trials that were told to stop, or to rest at a rung, because others were better."""
    return frozenset(mark.trial for mark in sweep.status.marks if not mark.passed) | set(sweep.status.pruned)


def is_stopped(trial: Trial, stopped: Set[int]) -> bool:
    """Whether a trial that was told so has stopped or rests."""
    return trial.number in stopped and trial.job.phase in (Phase.CANCELLED, Phase.HALTED)


def best_trial(objective: Objective | None, trials: Iterable[Trial]) -> Trial | None:
    """Return the trial with the best result so far, if the sweep says what is better and anything was reported."""
    if objective is None:
        return None
    scored = [(objective.sign * trial.result, trial) for trial in trials if trial.result is not None]
    return max(scored, key=lambda pair: pair[0])[1] if scored else None


def gpu_hours(trials: Iterable[Trial], now: Timestamp) -> float:
    """Return for how long all trials together had their GPUs."""
    return sum(gpus(trial.job) * _held_seconds(trial.job, now) for trial in trials) / 3600


def gpus(job: Job) -> float:
    """Return how many GPUs a job asks for."""
    return sum(role.resources.gpus * role.replicas for role in job.spec.roles)


def running_seconds(job: Job, at: Timestamp) -> float:
    """Return for how long a job had been running by then, the times before it rested included."""
    return _seconds_in(job, {Phase.PROCESSING}, at)


def _held_seconds(job: Job, now: Timestamp) -> float:
    return _seconds_in(job, ACTIVE_PHASES, job.finished_at or now)


def _seconds_in(job: Job, phases: Set[Phase], until: Timestamp) -> float:
    ends = [entry.at for entry in job.history[1:]] + [until]
    spans = zip(job.history, ends, strict=True)
    return sum(max(0.0, min(end, until) - entry.at) for entry, end in spans if entry.phase in phases)


def _assignment(sweep: Sweep, job: Job) -> Assignment | None:
    """Return what a job tries; None if it is not a trial of the sweep, whatever somebody wrote into its labels."""
    number = job.spec.labels.get(TRIAL_LABEL, "")
    if not _NUMBER.fullmatch(number) or job.id != sweep.job_id(int(number)):
        return None
    try:
        values = json.loads(job.spec.env.get(PARAMETERS_VARIABLE, ""))
    except ValueError:
        return None
    if not isinstance(values, dict):
        return None
    added, copied = job.spec.labels.get(ADDED_LABEL, ""), _COPY.fullmatch(job.spec.labels.get(COPY_LABEL, ""))
    return Assignment(
        number=int(number),
        values={sys.intern(name): value for name, value in values.items()},  # thousands have the same names
        added=int(added) if _NUMBER.fullmatch(added) else None,
        copy=Copy(parent=int(copied[1]), step=int(copied[2]), replaces=int(copied[3])) if copied else None,
    )


def _results(sweep: Sweep, metrics: Iterable[Metric]) -> dict[JobId, dict[str, float]]:
    """The newest value of each objective by job, whichever replica reported it; what is not a number does not count."""
    wanted = {each.metric: each.metric for each in sweep.spec.objectives}
    found = (metric for metric in metrics if metric.name in wanted and math.isfinite(metric.value))
    results = dict[JobId, dict[str, float]]()
    for metric in sorted(found, key=lambda metric: metric.at):
        results.setdefault(metric.job_id, {})[wanted[metric.name]] = metric.value
    return results
