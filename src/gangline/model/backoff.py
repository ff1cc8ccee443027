"""How long to wait before something that failed is tried again. Whoever waits, and on what clock, is not said here."""

from dataclasses import dataclass
from math import log2

_MOST_GROWTH = 2.0**32
"""How many times the first pause the longest is: beyond any limit in use, and within what a number holds."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that grow by a factor with every failure, up to a limit."""

    first_seconds: float
    longest_seconds: float
    factor: float = 2.0

    def pause(self, failures: int) -> float:
        """Return how long to wait after this many failures in a row, counted from one."""
        if not self.first_seconds:
            return 0.0
        steps = max(failures - 1, 0)
        grown = _MOST_GROWTH if steps * log2(self.factor) >= log2(_MOST_GROWTH) else self.factor**steps
        return float(min(self.longest_seconds, self.first_seconds * grown))
