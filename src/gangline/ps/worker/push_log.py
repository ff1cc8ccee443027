"""The pushes a worker may have to repeat: those no server has confirmed, and those no snapshot holds yet.

Pure bookkeeping; the session decides what to send. When a server comes back from an older snapshot, the worker sends
again what that snapshot lacks, and the server drops what it has: together that is exactly once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from gangline.ps.blocks import Array

# A model may be larger than the memory set aside: with less than a few pushes a worker would wait at every step.
LEAST_PUSHES = 4


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
    """Pushes in order of their sequence.

    `retained_bytes` is the memory for pushes that are confirmed and not safe yet. Whatever it is, a few pushes fit;
    but with 0 none are kept.
    """

    def __init__(self, retained_bytes: int) -> None:
        self._retained_bytes = retained_bytes
        self._pushes: deque[LoggedPush] = deque()
        self._nbytes = 0
        self.dropped = 0

    def append(self, push: LoggedPush) -> None:
        """Remember a push that is about to be sent."""
        self._pushes.append(push)
        self._nbytes += push.nbytes

    @property
    def first_sequence(self) -> int:
        """Sequence of the oldest push that is kept; 0 when there is none."""
        return self._pushes[0].sequence if self._pushes else 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest push; 0 before the first."""
        return self._pushes[-1].sequence if self._pushes else 0

    def discard_last(self) -> None:
        """Forget the newest push: a server refused it for good."""
        if self._pushes:
            self._nbytes -= self._pushes.pop().nbytes

    def after(self, sequence: int) -> Iterator[LoggedPush]:
        """The pushes that came later than `sequence`."""
        return iter([push for push in self._pushes if push.sequence > sequence])

    def forget(self, durable: int) -> None:
        """Let go of what snapshots hold."""
        while self._pushes and self._pushes[0].sequence <= durable:
            self._nbytes -= self._pushes.popleft().nbytes

    def overfull(self, confirmed: int) -> bool:
        """Whether more is kept than there is room for, confirmed pushes among it."""
        if not 0 < self.first_sequence <= confirmed:
            return False
        room = max(self._retained_bytes, LEAST_PUSHES * self._pushes[-1].nbytes) if self._retained_bytes else 0
        return self._nbytes > room

    def drop(self, confirmed: int) -> None:
        """Make room by force. A confirmed push that is dropped is lost if its server dies now: it is counted."""
        while self.overfull(confirmed):
            self._nbytes -= self._pushes.popleft().nbytes
            self.dropped += 1

    def keep_last(self) -> None:
        """Copy the newest push's gradients, if it is kept at all: the caller's arrays are the caller's again."""
        if self._pushes:
            self._pushes[-1].keep()

    def unconfirmed(self, confirmed: int) -> tuple[int, int]:
        """How many pushes wait for a server, and how many bytes they take."""
        waiting = list(takewhile(lambda push: push.sequence > confirmed, reversed(self._pushes)))
        return len(waiting), sum(push.nbytes for push in waiting)
