"""Who gets a request: revisions by weight, backends by load, and what failed is left alone. Pure: time comes in."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gangline.model.routing import EjectionRules

_FIRST_REFUSAL_SECONDS = 0.05
_LONGEST_REFUSAL_SECONDS = 1.0
_SOFT_LIMIT = 10
"""An ejection gets no longer than this many times the first."""


@dataclass(slots=True, eq=False)
class Health:
    """How a backend has been doing."""

    failures: int = 0
    refusals: int = 0
    ejections: int = 0
    ejected_until: float = 0.0
    """For how it answers. If nobody else is left it is asked all the same: it may be well again."""
    refused_until: float = 0.0
    """For refusing connections."""

    def succeeded(self) -> None:
        """It answered well."""
        if self.failures or self.refusals or self.ejections:
            self.failures = self.refusals = self.ejections = 0
            self.ejected_until = 0.0

    def rests(self, now: float) -> bool:
        """Whether it is left alone."""
        return max(self.ejected_until, self.refused_until) > now

    def refused(self, now: float) -> None:
        """It accepts no connection, which is certain: nothing is sent there for a moment, then a little longer."""
        pause = min(_FIRST_REFUSAL_SECONDS * 2.0**self.refusals, _LONGEST_REFUSAL_SECONDS)
        self.refusals = min(self.refusals + 1, 10)
        self.refused_until = now + pause

    def failed(self, now: float, rules: EjectionRules, others: Sequence["Health"]) -> None:
        """It reset a connection, was too slow or answered that it cannot; after several of these it is ejected."""
        self.failures += 1
        if not rules.failures or self.failures < rules.failures:
            return
        ejected = sum(each.ejected_until > now for each in others if each is not self)
        if 2 * (ejected + 1) > len(others):
            return
        self.ejected_until = now + min(rules.seconds * 2.0**self.ejections, _SOFT_LIMIT * rules.seconds)
        self.ejections += 1
        self.failures = rules.failures - 1  # back on trial: one more failure is enough


@dataclass(slots=True, eq=False)
class Share:
    """One choice and the weight it has."""

    weight: float
    credit: float = 0.0


def next_share(shares: Sequence[Share]) -> int:
    """Choose so that after every choice each has been chosen as often as its weight says, but for one at most.

    This is what a random choice would do only in the long run: of ten requests a canary of 10 % gets exactly one.
    """
    total = 0.0
    best = 0
    for index, share in enumerate(shares):
        share.credit += share.weight
        total += share.weight
        if share.credit > shares[best].credit:
            best = index
    shares[best].credit -= total
    return best


@dataclass(slots=True)
class RetryBudget:
    """How many retries there may be: a part of the requests, and always a few."""

    part: float
    _saved: float = 10.0
    _since: float = 0.0
    _cap: float = field(default=100.0)

    def earn(self) -> None:
        """Count a request."""
        if self._saved < self._cap:
            self._saved += self.part

    def spend(self, now: float) -> bool:
        """Take a retry, if there is one left."""
        if self._saved < 10.0:
            self._saved = min(10.0, self._saved + 10.0 * (now - self._since))
        self._since = now
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True
