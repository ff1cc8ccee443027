"""Whether a sweep has come to its end: a target that was reached, a budget that is used up, too many failures."""

from collections.abc import Sequence

from gangline.errors import InvalidInputError
from gangline.model import Job, Phase, Timestamp
from gangline.model.kinds.sweep import GRID, End, EndReason, Sweep, SweepSpec
from gangline.sweeps.past import Past
from gangline.sweeps.trials import Trial, best_trial, gpu_hours, gpus

FAILURES_ALLOWED = 10
"""Of a search without a limit of its own. A grid tries everything however often it fails, as it always did."""

LOOK_SECONDS = 2.0
"""How often the numbers of running trials are read where they may end something: nobody announces them."""


def check_end(spec: SweepSpec) -> None:
    """Refuse a search that only GPU hours would end, and whose trials use none."""
    budget, used = spec.budget, any(role.resources.gpus for role in spec.template.roles)
    if spec.sampler != GRID and budget.trials is None and budget.time_seconds is None and not used:
        raise InvalidInputError(
            "the search never ends: its trials use no GPU",
            field="spec.budget.gpu_hours",
            expected="trials or time, or GPUs in the template",
        )


def ended(sweep: Sweep, trials: Sequence[Trial], now: Timestamp, past: Past) -> End | None:
    """Return why the sweep has to end now, running trials included."""
    budget = sweep.spec.budget
    reached = _reached(sweep, trials if past.best is None else (past.best, *trials))
    if reached is not None:
        return reached
    if budget.time_seconds is not None and now >= sweep.created_at + budget.time_seconds:
        return End(reason=EndReason.TIME_USED, message=f"its {budget.time_seconds:g} s are over")
    if budget.gpu_hours is not None and past.gpu_hours + gpu_hours(trials, now) >= budget.gpu_hours:
        return End(reason=EndReason.GPU_HOURS_USED, message=f"its {budget.gpu_hours:g} GPU hours are used")
    return _failed(sweep, trials, past)


def _reached(sweep: Sweep, trials: Sequence[Trial]) -> End | None:
    objective = sweep.spec.objective
    if objective is None or objective.target is None:
        return None
    best = best_trial(objective, trials)
    if best is None or best.result is None:
        return None
    if objective.sign * best.result < objective.sign * objective.target:
        return None
    message = f"trial {best.number} reached {objective.metric} {best.result:g} (the target is {objective.target:g})"
    return End(reason=EndReason.TARGET_REACHED, message=message)


def in_vain(sweep: Sweep, end: End | None, trials: Sequence[Trial], past: Past) -> End | None:
    """Return the end of a search; one that was to learn from results and saw none has failed.

    A grid has tried everything all the same.
    """
    used_up = end is not None and end.reason in (EndReason.EXHAUSTED, EndReason.TRIALS_USED)
    if not used_up or sweep.spec.sampler == GRID or sweep.spec.objective is None or past.best is not None:
        return end
    if any(trial.result is not None for trial in trials):
        return end
    message = f"none of its {sweep.status.begun} trials reported a finite number for '{sweep.spec.objective.metric}'"
    return End(reason=EndReason.TOO_MANY_FAILURES, message=message)


def _failed(sweep: Sweep, trials: Sequence[Trial], past: Past) -> End | None:
    limit = sweep.spec.budget.failures
    if limit is None:
        limit = None if sweep.spec.sampler == GRID else FAILURES_ALLOWED
    if limit is None:
        return None
    in_vain = [trial for trial in trials if trial.ended and _is_failure(sweep, trial)]
    silent = past.silent + sum(trial.job.phase is Phase.COMPLETED for trial in in_vain)
    failed = past.failed + past.silent + len(in_vain) - silent
    if failed + silent < limit:
        return None
    wanted = " and ".join(f"'{each.metric}'" for each in sweep.spec.objectives)
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{silent} ended without a finite number for {wanted}"] if silent else []
    return End(
        reason=EndReason.TOO_MANY_FAILURES,
        message=f"of its trials, {' and '.join(parts)} (budget.failures is {limit})",
    )


def _is_failure(sweep: Sweep, trial: Trial) -> bool:
    """Whether a trial failed or said nothing; what its user cancelled did neither."""
    if trial.job.phase is Phase.COMPLETED:
        return len(trial.results) < len(sweep.spec.objectives)
    return trial.job.phase is Phase.FAILED


def next_look(
    sweep: Sweep, trials: Sequence[Trial], running: Sequence[Job], now: Timestamp, past: Past
) -> Timestamp | None:
    """Return when the passing of time alone may end the sweep, if it may."""
    budget = sweep.spec.budget
    moments = list[float]()
    if budget.time_seconds is not None:
        moments.append(sweep.created_at + budget.time_seconds)
    rate = sum(gpus(job) for job in running) / 3600
    if budget.gpu_hours is not None and rate > 0:
        used = past.gpu_hours + gpu_hours(trials, now)
        moments.append(now + max(1.0, (budget.gpu_hours - used) / rate))
    objective = sweep.spec.objective
    followed = sweep.spec.stopping is not None or sweep.spec.share is not None
    if running and (followed or (objective is not None and objective.target is not None)):
        moments.append(now + LOOK_SECONDS)
    return Timestamp(max(min(moments), now)) if moments else None
