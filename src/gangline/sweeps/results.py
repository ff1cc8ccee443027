"""What a sweep found: the best trials, those that nothing beats, how the search went, which parameters mattered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gangline.model import FINAL_PHASES, JobSpec
from gangline.model.kinds.sweep import (
    ADDED_LABEL,
    SWEEP_LABEL,
    TRIAL_LABEL,
    Assignment,
    SweepSpec,
    SweepStatus,
    TrialStatus,
)
from gangline.model.search.parameter import Parameter
from gangline.sweeps.rendering import trial_to_job

_BINS = 5
"""Into how many parts of equal size the numbers of a range are divided to see whether they matter."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A trial that ended with a result, and the best result up to then."""

    trial: TrialStatus
    result: float
    best: float


@dataclass(frozen=True, slots=True)
class Slice:
    """The results by the values of one parameter, in the order of its values."""

    parameter: str
    points: tuple[tuple[TrialStatus, str, float], ...]
    """The trial, its value and its result."""


@dataclass(frozen=True, slots=True)
class Line:
    """A trial in parallel coordinates: where its value lies on the axis of each parameter, from 0 to 1."""

    trial: TrialStatus
    places: tuple[float | None, ...]
    """In the order of the parameters; None where the trial does not have one."""
    result: float


def ranked(sweep: SweepStatus) -> list[TrialStatus]:
    """Return the trials with a result, the best first; of equal ones the first."""
    if sweep.spec.objective is None:
        return []
    sign = sweep.spec.objective.sign
    found = [(sign * trial.result, trial) for trial in sweep.trials if trial.result is not None]
    return [trial for _, trial in sorted(found, key=lambda pair: (-pair[0], pair[1].number))]


def pareto_front(spec: SweepSpec, trials: Sequence[TrialStatus]) -> tuple[int, ...]:
    """Return the numbers of the trials that no other beats in one objective without being worse in another."""
    points = sorted(
        (
            (tuple(each.sign * trial.results[each.metric] for each in spec.objectives), trial.number)
            for trial in trials
            if all(each.metric in trial.results for each in spec.objectives)
        ),
        key=lambda pair: (tuple(-value for value in pair[0]), pair[1]),
    )
    front = list[tuple[tuple[float, ...], int]]()
    for point, number in points:  # sorted: whoever beats a point comes before it
        # Of two objectives the newest of the front is the best in the second: who does not lose to it loses to nobody.
        rivals = front[-1:] if len(spec.objectives) == 2 else front
        if not any(_beats(other, point) for other, _ in rivals):
            front.append((point, number))
    return tuple(sorted(number for _, number in front))


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(mine >= its for mine, its in zip(one, other, strict=True))


def history(sweep: SweepStatus) -> list[Moment]:
    """Return how the best result became better, trial by trial in the order in which they ended."""
    objective = sweep.spec.objective
    if objective is None:
        return []
    ended = [trial for trial in sweep.trials if trial.phase in FINAL_PHASES and trial.result is not None]
    moments = list[Moment]()
    for trial in sorted(ended, key=lambda trial: (trial.finished_at or 0.0, trial.number)):
        result = trial.result or 0.0
        before = moments[-1].best if moments else result
        best = max(before, result) if objective.sign > 0 else min(before, result)
        moments.append(Moment(trial, result, best))
    return moments


def slices(sweep: SweepStatus) -> list[Slice]:
    """Return the results by the values of each parameter that varies."""
    return [
        Slice(
            parameter.name,
            tuple(
                (trial, trial.values[parameter.name], trial.result)
                for trial in sorted(
                    (each for each in ranked(sweep) if parameter.name in each.values),
                    key=lambda each: (parameter.place(each.values[parameter.name]), each.number),
                )
                if trial.result is not None
            ),
        )
        for parameter in sweep.spec.parameters
        if parameter.count != 1
    ]


def coordinates(sweep: SweepStatus) -> list[Line]:
    """Return every trial with a result in parallel coordinates, the best first."""
    return [
        Line(
            trial,
            tuple(
                each.place(trial.values[each.name]) if each.name in trial.values else None
                for each in sweep.spec.parameters
            ),
            trial.result,
        )
        for trial in ranked(sweep)
        if trial.result is not None
    ]


def importance(spec: SweepSpec, trials: Sequence[TrialStatus]) -> Mapping[str, float]:
    """Return which share of the variance of the results each parameter explains by itself, from 0 to 1.

    Results are grouped by value, or by fifths of a range; what as many groups would explain by chance is taken off
    (epsilon squared). Interactions of parameters are not seen. Empty with fewer than ten results.
    """
    scored = [(trial.values, trial.result) for trial in trials if trial.result is not None]
    if len(scored) < 2 * _BINS:
        return {}
    return {each.name: _explained(_groups(each, scored)) for each in spec.parameters if each.count != 1}


def _groups(parameter: Parameter, scored: Sequence[tuple[Mapping[str, str], float]]) -> list[list[float]]:
    """Return the results by value of one parameter; trials without it are a group of their own."""
    groups = dict[object, list[float]]()
    having = [(values[parameter.name], result) for values, result in scored if parameter.name in values]
    if parameter.range is not None and len({value for value, _ in having}) > _BINS:
        ordered = sorted(having, key=lambda pair: float(pair[0]))
        for index, (_, result) in enumerate(ordered):
            groups.setdefault(index * _BINS // len(ordered), []).append(result)
    else:
        for value, result in having:
            groups.setdefault(value, []).append(result)
    without = [result for values, result in scored if parameter.name not in values]
    return [*groups.values(), *([without] if without else [])]


def _explained(groups: Sequence[Sequence[float]]) -> float:
    results = [result for group in groups for result in group]
    mean = sum(results) / len(results)
    total = sum((result - mean) ** 2 for result in results)
    if total == 0 or len(groups) < 2 or len(results) <= len(groups):
        return 0.0
    between = sum(len(group) * (sum(group) / len(group) - mean) ** 2 for group in groups)
    noise = (total - between) / (len(results) - len(groups))
    return min(1.0, max(0.0, (between - (len(groups) - 1) * noise) / total))


def winner_to_job(sweep: SweepStatus, trial: TrialStatus) -> JobSpec:
    """Return a job that does once more what a trial did, as a job of its own."""
    job = trial_to_job(sweep.spec, Assignment(number=trial.number, values=trial.values))
    kept = {name: text for name, text in job.labels.items() if name not in (SWEEP_LABEL, TRIAL_LABEL, ADDED_LABEL)}
    return replace(job, name=f"{sweep.name}-best", labels=kept)
