"""Going on when the service is away for a moment: it was restarted, upgraded or killed while a command followed a job.

``PatientClient`` uses it for every stream. A service that stays away is told of and ends the command as before.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from gangline.cli.terminal import say
from gangline.errors import UnreachableError, WaitTimeoutError

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_STEADY_SECONDS = 2.0
"""A stream that breaks sooner after a gap than this is still in the same gap."""


class Bridge:
    """Waits until a service answers again. Threads that follow the same job share one: a gap is told of once.

    ``revive`` is called before each question whether the service is back, and may start it.
    """

    def __init__(self, revive: Callable[[], object], *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._revive = revive
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._pause = threading.Event()
        self._gone_since: float | None = None
        self._crossed_at: float | None = None
        self._told = False

    def cross(self, error: UnreachableError, ask: Callable[[], object], deadline: float | None = None) -> None:
        """Return when the question is answered.

        Raises UnreachableError if it is not for too long, WaitTimeoutError when the deadline of the command passes.
        """
        with self._lock:
            # Also where it answers at once: a service that ends every stream it begins is not asked in a tight loop.
            self._pause.wait(_PAUSE_SECONDS)
            now = time.monotonic()
            if self._crossed_at is not None and now - self._crossed_at > _STEADY_SECONDS:
                self._gone_since = None
            gone_since = self._gone_since = self._gone_since or now
            while (problem := self._problem(ask)) is not None or now - gone_since > self._patience_seconds:
                if deadline is not None and now >= deadline:
                    raise WaitTimeoutError("the time given to wait ran out")
                if now - gone_since >= self._patience_seconds:
                    raise problem or error
                self._tell(error)
                self._pause.wait(_PAUSE_SECONDS)
                now = time.monotonic()
            self._crossed_at = now
            if self._told:
                self._told = False
                say("the service answers again")

    def retry(self, act: Callable[[], T], ask: Callable[[], object]) -> T:
        """Do what may be done twice until it was answered once; ``ask`` finds out whether the service is back."""
        while True:
            try:
                return act()
            except UnreachableError as error:
                self.cross(error, ask)

    def _tell(self, error: UnreachableError) -> None:
        if not self._told:
            self._told = True
            say(f"{error}; waiting up to {self._patience_seconds:g} s for it")

    def _problem(self, ask: Callable[[], object]) -> UnreachableError | None:
        try:
            self._revive()
            ask()
        except UnreachableError as error:
            return error
        return None


def unbroken(
    stream: Iterator[T],
    *,
    again: Callable[[], Iterator[T]],
    over: Callable[[], bool],
    bridge: Bridge,
    deadline: float | None = None,
) -> Iterator[T]:
    """Return the items of a stream and of its continuations, until it is over.

    A service that stops in good order ends its streams as if they were whole; so ``over`` is asked at each end.
    """
    begin: Callable[[], Iterator[T]] = lambda: stream  # noqa: E731  # the first of several ways to begin
    while True:
        try:
            yield from begin()
            if over():
                return
            error = UnreachableError("the service ended the connection")
        except UnreachableError as broken:
            error = broken
        bridge.cross(error, over, deadline)
        begin = again
