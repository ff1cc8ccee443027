"""What should happen to a sweep now: which trials begin, which are cancelled, whether it is over."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gangline.model import Job, JobId, Phase
from gangline.model.sweep import TRIAL_LABEL, Assignment, Sweep
from gangline.sweeps.samplers import SAMPLERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial as its job stands."""

    job_id: JobId
    assignment: Assignment
    phase: Phase
    finished: bool
    result: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do next. ``over`` means that nothing runs and nothing is left to try."""

    start: tuple[Assignment, ...] = ()
    cancel: tuple[JobId, ...] = ()
    over: bool = False


def trial_of(job: Job, result: float | None = None) -> Trial:
    """Read a trial off its job."""
    values: Mapping[str, str] = json.loads(job.spec.env["TRIAL_PARAMETERS"])
    return Trial(
        job_id=job.id,
        assignment=Assignment(number=int(job.spec.labels[TRIAL_LABEL]), values=values),
        phase=job.phase,
        finished=job.finished,
        result=result,
    )


def plan(sweep: Sweep, trials: Sequence[Trial]) -> Plan:
    """Decide what the sweep needs now. Calling it again after its plan was carried out finds nothing more to do."""
    open_trials = [trial for trial in trials if not trial.finished]
    if sweep.stopped:
        return Plan(cancel=tuple(trial.job_id for trial in open_trials), over=not open_trials)
    room = None if sweep.spec.parallelism is None else max(0, sweep.spec.parallelism - len(open_trials))
    results = {trial.assignment.number: trial.result for trial in trials if trial.result is not None}
    tried = [trial.assignment for trial in trials]
    proposed = SAMPLERS[sweep.spec.sampler].propose(sweep.spec, tried, results)
    return Plan(start=tuple(proposed[:room]), over=not proposed and not open_trials)
