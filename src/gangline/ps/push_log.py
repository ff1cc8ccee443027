"""The pushes a worker may have to repeat: those no server has confirmed, and those no snapshot holds yet.

Pure bookkeeping; the session decides what to send. When a server comes back from an older snapshot, the worker sends
again what that snapshot lacks, and the server drops what it has: together that is exactly once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gangline.ps.blocks import Array


@dataclass(slots=True, kw_only=True)
class LoggedPush:
    """One step's gradients, flat, by number of tensor."""

    sequence: int
    clock: int
    scale: float
    gradients: Mapping[int, Array]
    owned: bool = False

    @property
    def nbytes(self) -> int:
        """Memory the gradients take."""
        return sum(gradient.nbytes for gradient in self.gradients.values())

    def keep(self) -> None:
        """Copy the gradients: the caller's arrays are the caller's again."""
        if not self.owned:
            self.gradients = {number: gradient.copy() for number, gradient in self.gradients.items()}
            self.owned = True


class PushLog:
    """Pushes in order of their sequence."""

    def __init__(self, retained_bytes: int) -> None:
        self._retained_bytes = retained_bytes
        self._pushes: deque[LoggedPush] = deque()
        self.dropped = 0

    def append(self, push: LoggedPush) -> None:
        """Remember a push that is about to be sent."""
        self._pushes.append(push)

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest push; 0 before the first."""
        return self._pushes[-1].sequence if self._pushes else 0

    def discard_last(self) -> None:
        """Forget the newest push: a server refused it for good."""
        if self._pushes:
            self._pushes.pop()

    def after(self, sequence: int) -> Iterator[LoggedPush]:
        """The pushes that came later than `sequence`."""
        return iter([push for push in self._pushes if push.sequence > sequence])

    def settle(self, *, confirmed: int, durable: int) -> None:
        """Forget what a snapshot holds; of what is only confirmed, keep as much as fits the memory set aside.

        A confirmed push forgotten for lack of room is lost if its server dies before the next snapshot: it is counted.
        """
        while self._pushes and self._pushes[0].sequence <= durable:
            self._pushes.popleft()
        room = self._retained_bytes - sum(push.nbytes for push in self._pushes)
        while self._pushes and self._pushes[0].sequence <= confirmed and room < 0:
            room += self._pushes.popleft().nbytes
            self.dropped += 1
        for push in self._pushes:
            push.keep()

    def unconfirmed(self, confirmed: int) -> tuple[int, int]:
        """How many pushes wait for a server, and how many bytes they take."""
        waiting = [push for push in self._pushes if push.sequence > confirmed]
        return len(waiting), sum(push.nbytes for push in waiting)
