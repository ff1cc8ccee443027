"""Virtual time: a clock that moves only when told to, and what is due when.

Events are ordered by time and then by number, so that every run repeats exactly.
"""

import heapq
from collections.abc import Callable
from itertools import count

from gangline.model import Timestamp


class Timeline:
    """A clock and an agenda in one. The simulator moves it; the engine and the controller read it."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._cancelled: set[int] = set()
        self._numbers = count()

    def now(self) -> Timestamp:
        """The present moment of the simulation."""
        return Timestamp(self._now)

    def after(self, seconds: float, act: Callable[[], None]) -> int:
        """Do something later; returns a number to cancel it by."""
        number = next(self._numbers)
        heapq.heappush(self._due, (self._now + max(seconds, 0.0), number, act))
        return number

    def cancel(self, number: int) -> None:
        """Do not do it after all. Cancelling what is done already would be a defect of the caller."""
        self._cancelled.add(number)

    @property
    def next(self) -> Timestamp | None:
        """When something is due next."""
        while self._due and self._due[0][1] in self._cancelled:
            self._cancelled.discard(heapq.heappop(self._due)[1])
        return Timestamp(self._due[0][0]) if self._due else None

    def move_to(self, at: float) -> None:
        """Move the clock and do everything that is due by then, in order."""
        while True:
            moment = self.next
            if moment is None or moment > at:
                break
            self._now = max(self._now, moment)
            _, _, act = heapq.heappop(self._due)
            act()
        self._now = max(self._now, at)
