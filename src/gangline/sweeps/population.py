"""Population-based training: which members give way at a rung, to copies of whom, and with what values.

Every decision follows from the marks and from the labels of the trials, so that a plan that a crash interrupted is made
again as it was: a trial gives way to one copy, whose label names it.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gangline.model import Phase
from gangline.model.kinds.sweep import Assignment, Copy, SweepSpec
from gangline.model.search.parameter import Parameter
from gangline.model.search.search_space import exists
from gangline.model.search.stopping import Mark, Stopping
from gangline.sweeps.trials import Trial

RESAMPLED = 0.25
"""How likely a value of a copy is drawn anew; any other is altered."""
FACTORS = (0.8, 1.2)
"""What a number is multiplied by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What follows from the rungs that all members have reached."""

    losers: tuple[Mark, ...] = ()
    going_on: tuple[Mark, ...] = ()
    """Those that may pass their rung now: nobody waits for a copy of theirs."""
    due: tuple[Copy, ...] = ()
    """The copies that have not begun and whose parents are at rest."""


def generation(rule: Stopping, trials: Sequence[Trial], marks: Sequence[Mark], *, complete: bool) -> Generation:
    """Judge every rung that all have reached; ``complete`` says that all members of the population have begun."""
    if not complete:
        return Generation()
    losers, going_on, due = list[Mark](), list[Mark](), list[Copy]()
    by_number = {trial.number: trial for trial in trials}
    copies = {each.assignment.copy.replaces: each for each in trials if each.assignment.copy is not None}
    for step in rule.rungs(0):
        reached = sorted((mark for mark in marks if mark.step == step), key=lambda each: (-each.value, each.trial))
        if not reached or not _all_arrived(trials, step, {mark.trial for mark in reached}, {m.trial for m in losers}):
            break
        count = max(1, len(reached) // rule.factor) if len(reached) > 1 else 0
        gone = reached[len(reached) - count :]
        losers += gone
        wanted = {parent.trial for parent, loser in zip(reached, gone, strict=False) if _copying(copies, loser)}
        going_on += [mark for mark in reached[: len(reached) - count] if not mark.passed and mark.trial not in wanted]
        due += [
            Copy(parent=parent.trial, step=step, replaces=loser.trial)
            for parent, loser in zip(reached, gone, strict=False)
            if loser.trial not in copies and _rests(by_number.get(parent.trial))
        ]
    return Generation(losers=tuple(losers), going_on=tuple(going_on), due=tuple(due))


def _all_arrived(trials: Sequence[Trial], step: int, arrived: set[int], gone: set[int]) -> bool:
    """Whether nobody is left who could still reach the rung."""
    return all(
        trial.number in arrived or trial.number in gone or trial.ended or begins_at(trial) >= step for trial in trials
    )


def begins_at(trial: Trial) -> int:
    """Return the step of the checkpoint that a trial began with."""
    return 0 if trial.assignment.copy is None else trial.assignment.copy.step


def _copying(copies: Mapping[int, Trial], loser: Mark) -> bool:
    """Whether the copy that takes this trial's place still needs its parent at rest."""
    copy = copies.get(loser.trial)
    if copy is None:
        return True
    return copy.job.phase in (Phase.QUEUED, Phase.STARTING, Phase.DOWNLOADING) and copy.job.attempt <= 1


def _rests(parent: Trial | None) -> bool:
    return parent is not None and (parent.ended or parent.job.phase is Phase.HALTED)


def copy_to_assignment(
    spec: SweepSpec, seed: int, copy: Copy, number: int, trials: Sequence[Trial]
) -> Assignment | None:
    """Return the trial that goes on from a copy of another's checkpoint with altered values; None if that is gone."""
    parent = next((trial for trial in trials if trial.number == copy.parent), None)
    if parent is None:
        return None
    source = random.Random(f"{seed}/{copy.replaces}")  # repeatable, and no secret
    return Assignment(number=number, values=altered(spec, parent.assignment.values, source), copy=copy)


def altered(spec: SweepSpec, values: Mapping[str, str], source: random.Random) -> dict[str, str]:
    """Return values near these: each a little more or less, or drawn anew."""
    found = dict[str, str]()
    for parameter in spec.parameters:
        anew, fraction, up = source.random() < RESAMPLED, source.random(), source.random() < 0.5
        if exists(parameter, found):
            value = values.get(parameter.name)
            found[parameter.name] = (
                parameter.at(fraction) if anew or value is None else _neighbour(parameter, value, up=up)
            )
    return found


def _neighbour(parameter: Parameter, value: str, *, up: bool) -> str:
    if parameter.range is not None:
        return parameter.range.nearest(float(value) * FACTORS[up])
    place = parameter.values.index(value) + (1 if up else -1)
    return parameter.values[min(max(place, 0), len(parameter.values) - 1)]
