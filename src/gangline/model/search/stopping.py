"""How trials that are not worth while are stopped: the rule, and the marks by which they are compared."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import accumulate

from gangline.errors import InvalidInputError


class Rule(StrEnum):
    """By what a trial is judged while it runs."""

    MEDIAN = "median"
    """Stop what is worse than the median of the others at the same step."""
    PERCENTILE = "percentile"
    """Stop what is not among the best ``percentile`` per cent at the same step."""
    PATIENCE = "patience"
    """Stop what has not become better for ``patience`` steps."""
    ASHA = "asha"
    """Pause everything at each rung and let the best 1/``factor`` go on (asynchronous successive halving)."""
    HYPERBAND = "hyperband"
    """The same in several brackets, whose first rungs are further and further away."""
    PBT = "pbt"
    """Pause everything every ``first`` steps; the worst 1/``factor`` give way to altered copies of the best
    (population-based training)."""

    @property
    def pauses(self) -> bool:
        """Whether trials rest at a rung and may go on later."""
        return self in (Rule.ASHA, Rule.HYPERBAND, Rule.PBT)


class Unit(StrEnum):
    """What ``first``, ``last`` and ``patience`` count."""

    STEPS = "steps"
    """The steps that trials report."""
    EPOCHS = "epochs"
    """Reports of the objective, one for each epoch, whatever steps they name."""
    TIME = "time"
    """Seconds that a trial has been running, those before it rested included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """When and how trials are judged: at rungs of first, first * factor, ... units; with pbt, every first units."""

    rule: Rule
    unit: Unit = Unit.STEPS
    first: int = 1
    factor: int = 3
    last: int | None = None
    """The steps of a whole run: there is no rung there or behind it."""
    percentile: float = 50.0
    min_trials: int = 3
    """How many others must have got as far before the median or a percentile counts."""
    patience: int | None = None

    def __post_init__(self) -> None:
        for name, number, least in (
            ("first", self.first, 1),
            ("factor", self.factor, 2),
            ("min_trials", self.min_trials, 1),
        ):
            if number < least:
                raise InvalidInputError(
                    f"{number} is too small", field=f"spec.stopping.{name}", expected=f"{least} or more"
                )
        if not 0 < self.percentile < 100:
            raise InvalidInputError(
                f"{self.percentile:g} is outside", field="spec.stopping.percentile", expected="more than 0, below 100"
            )
        if self.rule is Rule.PATIENCE and (self.patience is None or self.patience < 1):
            raise InvalidInputError("steps are needed", field="spec.stopping.patience", expected="1 or more")
        if self.rule.pauses and (self.last is None or self.last <= self.first):
            raise InvalidInputError(
                f"{self.rule} needs the steps of a whole run",
                field="spec.stopping.last",
                expected=f"above {self.first}",
            )

    def bracket(self, trial: int) -> int:
        """Return how many of the rungs a trial leaves out.

        Hyperband gives every bracket about the same number of steps: the one that judges first has the most trials,
        the one that never does has the fewest.
        """
        if self.rule is not Rule.HYPERBAND:
            return 0
        ends = _bracket_ends(len(self.every_rung), self.factor)
        return bisect_right(ends, trial % ends[-1])

    def rungs(self, trial: int) -> tuple[int, ...]:
        """Return the steps at which a trial is judged."""
        return self.every_rung[self.bracket(trial) :]

    @property
    def every_rung(self) -> tuple[int, ...]:
        """The steps at which any trial is judged."""
        last = self.last or 2**31
        if self.rule is Rule.PBT:
            return tuple(range(self.first, last, self.first))
        found, step = [], self.first
        while step < last:
            found.append(step)
            step *= self.factor
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The objective of a trial when it reached a rung; ``passed`` once it may go on beyond it."""

    trial: int
    step: int
    value: float
    passed: bool = False


@cache
def _bracket_ends(rungs: int, factor: int) -> tuple[int, ...]:
    """Return behind which trial of a round of brackets each of them ends; kept, for it is asked for every mark."""
    left = range(rungs, -1, -1)
    return tuple(accumulate(math.ceil((rungs + 1) * factor**each / (each + 1)) for each in left))
