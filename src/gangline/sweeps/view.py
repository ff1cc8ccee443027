"""What a user is told of a sweep: its trials as they stand, and the best of them."""

from collections.abc import Mapping, Sequence, Set

from gangline.errors import InvalidInputError
from gangline.model import FINAL_PHASES, Phase
from gangline.model.kinds.sweep import GRID, KnownTrial, Sweep, SweepSpec, SweepState, SweepStatus, TrialStatus
from gangline.model.search.search_space import check_values, count_combinations
from gangline.sweeps.results import importance, pareto_front
from gangline.sweeps.trials import Trial, best_trial, is_stopped, stopped_numbers


def view(sweep: Sweep, trials: Sequence[Trial]) -> SweepStatus:
    """Show a sweep with its trials."""
    best = best_trial(sweep.spec.objective, trials)
    stopped = stopped_numbers(sweep)
    rule = sweep.spec.stopping.rule if sweep.spec.stopping is not None else ""
    shown = tuple(_trial_status(trial, stopped, rule) for trial in trials)
    return SweepStatus(
        id=sweep.id,
        spec=sweep.spec,
        state=SweepState(sweep.state),
        created_at=sweep.created_at,
        trials=shown,
        begun=sweep.status.begun,
        best=None if best is None else best.assignment.number,
        finished_at=sweep.status.finished_at,
        end=sweep.status.end,
        front=pareto_front(sweep.spec, shown) if sweep.spec.other_objectives else (),
        importance=importance(sweep.spec, shown),
        version=sweep.version,
    )


def _trial_status(trial: Trial, stopped: Set[int], rule: str) -> TrialStatus:
    job, early = trial.job, is_stopped(trial, stopped)
    over = early and job.finished
    return TrialStatus(
        number=trial.assignment.number,
        values=trial.assignment.values,
        job=job.name,
        job_id=job.id,
        phase=job.phase,
        reason="StoppedEarly" if over else job.reason,
        message=f"by the rule {rule}" if over else job.message,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        result=trial.result,
        results=trial.results,
        stopped=early,
        parent=None if trial.assignment.copy is None else trial.assignment.copy.parent,
    )


def progress_text(sweep: SweepStatus) -> str:
    """Write how many trials have ended, of how many there will be or, if nobody knows, are so far."""
    ended = sum(1 for trial in sweep.trials if trial.phase in FINAL_PHASES)
    total = count_combinations(sweep.spec.parameters) if sweep.spec.sampler == GRID else sweep.spec.budget.trials
    return f"{ended}/{max(total or 0, sweep.begun)}"


def values_text(trial: TrialStatus) -> str:
    """Write what makes this trial different."""
    return " ".join(f"{name}={value}" for name, value in trial.values.items())


def result_text(trial: TrialStatus) -> str:
    """Write the newest value of the objective."""
    return "-" if trial.result is None else f"{trial.result:.6g}"


def best_text(sweep: SweepStatus) -> str | None:
    """Write the best trial so far."""
    best = next((trial for trial in sweep.trials if trial.number == sweep.best), None)
    if best is None or sweep.spec.objective is None:
        return None
    return f"{sweep.spec.objective.metric} {result_text(best)} with {values_text(best)}"


def known_trials(spec: SweepSpec, earlier: SweepStatus) -> tuple[KnownTrial, ...]:
    """Return what another sweep learnt that this one can use: values of its space with every objective reported."""
    wanted = {objective.metric for objective in spec.objectives}
    usable = (each for each in earlier.trials if each.phase is Phase.COMPLETED and wanted <= each.results.keys())
    return tuple(
        KnownTrial(values=each.values, results={name: each.results[name] for name in sorted(wanted)})
        for each in usable
        if _fits(spec, each.values)
    )


def _fits(spec: SweepSpec, values: Mapping[str, str]) -> bool:
    try:
        check_values(spec.parameters, values)
    except InvalidInputError:
        return False
    return True
