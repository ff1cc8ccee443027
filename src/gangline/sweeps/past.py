"""The trials of a sweep that have ended, added up: a plan looks at each of thousands once, and not every time."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from gangline.model import Phase, Timestamp
from gangline.model.kinds.sweep import Sweep
from gangline.model.search.stopping import Rule
from gangline.sweeps.samplers import Outcome, Tried
from gangline.sweeps.trials import Trial, best_trial, gpu_hours

_number = attrgetter("number")


@dataclass(slots=True, kw_only=True)
class Past:
    """What plans ask of the trials that have ended. It grows with each of them, and is made anew if one goes."""

    tried: list[Tried] = field(default_factory=list)
    """By number, as a sampler sees them."""
    members: list[Trial] = field(default_factory=list)
    """Those of a population, in which one may go on from another long after that has ended; else nobody."""
    proposed: int = 0
    added: int = 0
    """How many of those that were added by hand have begun, as far as these tell."""
    completed: int = 0
    failed: int = 0
    silent: int = 0
    """How many completed without a number for every objective."""
    gpu_hours: float = 0.0
    """Counted only where the budget has them."""
    best: Trial | None = None

    @property
    def begun(self) -> int:
        """How many trials must have begun for the last of these to have its number."""
        return self.tried[-1].number + 1 if self.tried else 0


def gather(sweep: Sweep, before: Past | None, ended: Sequence[Trial | None]) -> Past:
    """Add trials that have ended to those ``before``, which change; None stands for a job that is not a trial."""
    past = Past() if before is None else before
    for trial in ended:
        if trial is not None and trial.tried is not None:
            _add(sweep, past, trial, trial.tried)
    return past


def _add(sweep: Sweep, past: Past, trial: Trial, tried: Tried) -> None:
    insort(past.tried, tried, key=_number)
    past.proposed += tried.proposed
    if trial.added is not None:
        past.added = max(past.added, trial.added + 1)
    completed = trial.job.phase is Phase.COMPLETED
    past.completed += completed
    if tried.outcome is Outcome.FAILED:
        past.silent += completed
        past.failed += trial.job.phase is Phase.FAILED
    past.best = best_trial(sweep.spec.objective, (trial,) if past.best is None else (past.best, trial))
    if sweep.spec.budget.gpu_hours is not None:
        past.gpu_hours += gpu_hours((trial,), trial.job.finished_at or Timestamp(0.0))
    if sweep.spec.stopping is not None and sweep.spec.stopping.rule is Rule.PBT:
        insort(past.members, trial, key=_number)


def joined(past: Past, others: Sequence[Tried]) -> list[Tried]:
    """Return these and others, which are sorted, by number: of thousands only those are moved that lie between."""
    if not others:
        return past.tried
    first = bisect_left(past.tried, others[0].number, key=_number)
    return [*past.tried[:first], *sorted([*past.tried[first:], *others], key=_number)]
