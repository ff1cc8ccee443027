"""Which running trials are not worth while, which rest at a rung, and which of those go on.

Marks are kept in the sweep's record: once a trial has passed a rung, later ones do not change that. A request that
was lost in a crash is made again, since it follows from the marks and the phases of the jobs alone.
"""

import math
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from operator import attrgetter

from gangline.model import Job, JobId, Metric, Phase
from gangline.model.kinds.sweep import Copy, Objective, Sweep
from gangline.model.search.stopping import Mark, Rule, Stopping, Unit
from gangline.sweeps.population import begins_at, generation
from gangline.sweeps.trials import Trial, running_seconds

Curve = Sequence[tuple[int, float]]
"""The objective of one trial by step, in the order of the steps; more is better."""

_DIVERGED = -sys.float_info.max
"""What a report counts that is not a finite number: nothing is worse. Kept in marks, which have no infinite ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What becomes of the trials that have begun. ``pruned`` are the numbers of all that were ever stopped."""

    marks: tuple[Mark, ...] = ()
    pruned: tuple[int, ...] = ()
    cancel: tuple[JobId, ...] = ()
    halt: tuple[JobId, ...] = ()
    resume: tuple[JobId, ...] = ()
    copies: tuple[Copy, ...] = ()
    """The trials that may begin with another's checkpoint."""


def curves_of(sweep: Sweep, trials: Sequence[Trial], history: Sequence[Metric]) -> Mapping[int, Curve]:
    """Return what running trials reported, so that more is better; a report without a step counts as the next one.

    One that is not a finite number is the worst there is: a trial that diverged is judged like any other.
    """
    objective = sweep.spec.objective
    if objective is None:
        return {}
    reports = dict[JobId, list[Metric]]()
    for metric in sorted(history, key=lambda metric: metric.at):
        if metric.name == objective.metric:
            reports.setdefault(metric.job_id, []).append(metric)
    found = dict[int, Curve]()
    for trial in (each for each in trials if each.tried is None and each.job.id in reports):
        mine = _by_unit(sweep.spec.stopping, trial, reports[trial.job.id])
        found[trial.number] = sorted((at, _better(objective, value)) for at, value in mine)
    return found


def _better(objective: Objective, value: float) -> float:
    return objective.sign * value if math.isfinite(value) else _DIVERGED


def sift(sweep: Sweep, job: Job, reports: Sequence[Metric]) -> list[Metric]:
    """Return those of a running trial's reports that its curve needs; each has its step.

    There may be a million of them. Of those at or behind a rung only the first is ever asked for, with patience
    only the best and the last. Epochs are few, and all are counted.
    """
    rule, objective = sweep.spec.stopping, sweep.spec.objective
    if rule is None or objective is None or rule.unit is Unit.EPOCHS:
        return list(reports)
    times = rule.unit is Unit.TIME
    found = [(int(running_seconds(job, each.at)) if times else each.step or 0, each) for each in reports]
    placed = sorted(found, key=lambda pair: (pair[0], _better(objective, pair[1].value)))
    if not placed:
        return []
    if rule.rule is Rule.PATIENCE:
        best = max(placed, key=lambda pair: _better(objective, pair[1].value))
        return [best[1]] if best is placed[-1] else [best[1], placed[-1][1]]
    kept, rungs = list[Metric](), iter(rule.every_rung)
    rung = next(rungs, None)
    for at, report in placed:
        if rung is None or at < rung:
            continue
        kept.append(report)
        while rung is not None and rung <= at:
            rung = next(rungs, None)
    return kept


def _by_unit(rule: Stopping | None, trial: Trial, reports: Sequence[Metric]) -> list[tuple[int, float]]:
    """Return how far a trial was at each report, in the rule's unit, and what it reported."""
    if rule is not None and rule.unit is Unit.TIME:
        return [(int(running_seconds(trial.job, each.at)), each.value) for each in reports]
    steps = [(index if each.step is None else each.step, each.value) for index, each in enumerate(reports, 1)]
    if rule is None or rule.unit is Unit.STEPS:
        return steps
    # The same step again is the same epoch: a trial that went on from its checkpoint repeats what came after that.
    epochs = {step: epoch for epoch, step in enumerate(sorted({step for step, _ in steps}), begins_at(trial) + 1)}
    return [(epochs[step], value) for step, value in steps]


def judge(sweep: Sweep, trials: Sequence[Trial], curves: Mapping[int, Curve], room: int) -> Judgement:
    """Decide which trials stop, rest or go on; ``room`` says how many that rest may go on now."""
    rule, status = sweep.spec.stopping, sweep.status
    if rule is None:
        return Judgement(marks=status.marks, pruned=status.pruned)
    gone = frozenset(status.pruned)
    alive = [each for each in trials if each.tried is None]  # of thousands that have ended nothing is left to decide
    running = [each for each in alive if each.job.phase is Phase.PROCESSING and each.number not in gone]
    if rule.rule is Rule.PATIENCE:
        hopeless = {each.number for each in running if _is_stuck(curves.get(each.number, ()), rule)}
        marks = status.marks
    else:
        reached: dict[int, dict[int, Mark]] = {each.number: {} for each in running}
        for mark in status.marks:
            if mark.trial in reached:
                reached[mark.trial][mark.step] = mark
        found = (_new_marks(rule, each, reached[each.number], curves) for each in running)
        marks = (*status.marks, *(mark for mine in found for mark in mine))
        if rule.rule is Rule.PBT:
            return _next_generation(sweep, rule, trials, marks, room)
        if rule.rule.pauses:
            return _rest_or_go_on(promotable(rule, marks), status.pruned, alive, marks, room)
        hopeless = {mark.trial for mark in marks[len(status.marks) :] if _is_worse(rule, mark, marks)}
    pruned = (*status.pruned, *sorted(hopeless))
    gone |= hopeless
    cancel = tuple(each.job.id for each in alive if each.number in gone and not each.job.finished)
    return Judgement(marks=marks, pruned=pruned, cancel=cancel)


def _new_marks(rule: Stopping, trial: Trial, mine: Mapping[int, Mark], curves: Mapping[int, Curve]) -> list[Mark]:
    """Return the rungs that a trial has reached since; where trials rest, no rung behind one it has not passed.

    ``mine`` are its marks by step.
    """
    found = list[Mark]()
    for step in rule.rungs(trial.number):
        if step <= begins_at(trial):
            continue
        if step in mine:
            if rule.rule.pauses and not mine[step].passed:
                break
            continue
        value = next((value for at, value in curves.get(trial.number, ()) if at >= step), None)
        if value is None:
            break
        found.append(Mark(trial=trial.number, step=step, value=value, passed=not rule.rule.pauses))
        if rule.rule.pauses:
            break
    return found


def _is_stuck(curve: Curve, rule: Stopping) -> bool:
    if not curve or rule.patience is None:
        return False
    best = max(value for _, value in curve)
    since = next(step for step, value in curve if value == best)
    return curve[-1][0] - since >= rule.patience


def _is_worse(rule: Stopping, mark: Mark, marks: Sequence[Mark]) -> bool:
    """Whether a trial is not among the best ``percentile`` per cent of those that got as far."""
    others = sorted((each.value for each in marks if each.step == mark.step and each.trial != mark.trial), reverse=True)
    if len(others) < rule.min_trials:
        return False
    percentile = 50.0 if rule.rule is Rule.MEDIAN else rule.percentile
    position = percentile / 100 * (len(others) - 1)
    low, high = others[math.floor(position)], others[math.ceil(position)]
    return mark.value < low + (position - math.floor(position)) * (high - low)


def _next_generation(
    sweep: Sweep, rule: Stopping, trials: Sequence[Trial], marks: tuple[Mark, ...], room: int
) -> Judgement:
    """Let the worst of a population give way to copies of the best; the copies have room before those that rest."""
    proposed = sum(trial.assignment.copy is None for trial in trials)
    found = generation(rule, trials, marks, complete=proposed >= (sweep.spec.budget.trials or 0))
    gone = {mark.trial for mark in found.losers}
    pruned = (*sweep.status.pruned, *sorted(gone - set(sweep.status.pruned)))
    kept = tuple(mark for mark in marks if mark.trial not in gone)
    judged = _rest_or_go_on(found.going_on, pruned, trials, kept, max(0, room - len(found.due)))
    return replace(
        judged,
        marks=(*judged.marks, *(mark for mark in marks if mark.trial in gone)),
        cancel=tuple(each.job.id for each in trials if each.number in gone and not each.ended),
        copies=found.due,
    )


def _rest_or_go_on(
    may_pass: Sequence[Mark], pruned: tuple[int, ...], trials: Sequence[Trial], marks: tuple[Mark, ...], room: int
) -> Judgement:
    by_number = {trial.number: trial for trial in trials}
    going_on = set[tuple[int, int]]()
    for mark in sorted(may_pass, key=lambda each: (-each.step, -each.value, each.trial)):
        trial = by_number.get(mark.trial)
        if trial is None or trial.job.finished or trial.job.phase is Phase.HALTING:
            continue
        rests = trial.job.phase is Phase.HALTED
        if rests and room <= 0:
            continue
        room -= rests
        going_on.add((mark.trial, mark.step))
    marks = passed(marks, going_on)
    waiting = {mark.trial for mark in marks if not mark.passed}
    resumed = {mark.trial for mark in marks} - waiting
    return Judgement(
        marks=marks,
        pruned=pruned,
        halt=tuple(each.job.id for each in trials if each.number in waiting and each.job.phase is Phase.PROCESSING),
        resume=tuple(each.job.id for each in trials if each.number in resumed and each.job.phase is Phase.HALTED),
    )


def promotable(rule: Stopping, marks: Sequence[Mark]) -> list[Mark]:
    """Return the marks of trials that are among the best 1/factor at their rung and have not passed it."""
    rungs = dict[tuple[int, int], list[Mark]]()
    for mark in marks:
        rungs.setdefault((rule.bracket(mark.trial), mark.step), []).append(mark)
    found = list[Mark]()
    for reached in rungs.values():
        # Of equal ones the earlier: two stable sorts, for a key made here would cost most of a long sweep's plan.
        ranked = sorted(sorted(reached, key=attrgetter("trial")), key=attrgetter("value"), reverse=True)
        best = ranked[: len(reached) // rule.factor]
        found += [mark for mark in best if not mark.passed and mark.value != _DIVERGED]
    return found


def passed(marks: Sequence[Mark], these: Set[tuple[int, int]]) -> tuple[Mark, ...]:
    """Return the marks with these, given by trial and step, passed."""
    if not these:
        return tuple(marks)
    return tuple(replace(each, passed=True) if (each.trial, each.step) in these else each for each in marks)


def furthest(marks: Sequence[Mark]) -> Mark | None:
    """Return the best of those that rest at the highest rung anybody rests at."""
    resting = (mark for mark in marks if not mark.passed and mark.value != _DIVERGED)
    return max(resting, key=lambda each: (each.step, each.value), default=None)
