"""Going on when the service is away for a moment: it was restarted, upgraded or killed while a job was followed.

``Exchange`` uses it for every stream and every submission. A service that stays away is reported and raised.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from gangline.errors import UnreachableError, WaitTimeoutError

T = TypeVar("T")

_log = logging.getLogger(__name__)

PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_NOBODY = (FileNotFoundError, ConnectionRefusedError)
_STEADY_SECONDS = 2.0
"""A stream that breaks sooner after a gap than this is still in the same gap."""


class Reconnection:
    """Waits until a service answers again. Threads that follow the same job share one: a gap is told of once.

    ``revive`` is called before each question whether the service is back, and may start it; so is ``start``, where a
    submission waits: whoever submits wants a service, also in place of one that was stopped just now. ``say`` is told
    that a service is waited for.
    """

    def __init__(
        self,
        revive: Callable[[], object] = lambda: None,
        *,
        start: Callable[[], object] | None = None,
        say: Callable[[str], None] | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._revive = revive
        self._start = start
        self._say = say or _log.warning
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._pause = threading.Event()
        self._gone_since: float | None = None
        self._crossed_at: float | None = None
        self._told = False

    def cross(
        self,
        error: UnreachableError,
        ask: Callable[[], object],
        deadline: float | None = None,
        *,
        revive: Callable[[], object] | None = None,
    ) -> None:
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
            revive = revive or self._revive
            while (problem := _problem(revive, ask)) is not None or now - gone_since > self._patience_seconds:
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
                self._say("the service answers again")

    def retry(self, act: Callable[[], T], ask: Callable[[], object]) -> T:
        """Do what may be done twice until it was answered once; ``ask`` finds out whether the service is back."""
        first = True
        while True:
            try:
                return act()
            except UnreachableError as error:
                if first and self._start is None and isinstance(error.__cause__, _NOBODY):
                    raise  # nobody was there in the first place: an address may be wrong
                self.cross(error, ask, revive=self._start)
                first = False

    def _tell(self, error: UnreachableError) -> None:
        if not self._told:
            self._told = True
            self._say(f"{error}; waiting up to {self._patience_seconds:g} s for it")


def _problem(revive: Callable[[], object], ask: Callable[[], object]) -> UnreachableError | None:
    try:
        revive()
        ask()
    except UnreachableError as error:
        return error
    return None


def reconnected(
    stream: Iterator[T],
    *,
    again: Callable[[], Iterator[T]],
    over: Callable[[], bool],
    reconnection: Reconnection,
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
        reconnection.cross(error, over, deadline)
        begin = again
