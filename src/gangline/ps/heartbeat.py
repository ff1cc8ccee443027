"""A thread that renews a worker's lease, so that a long step does not look like a dead worker."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gangline.ps.errors import ReplacedError, UnknownWorkerError
from gangline.ps.link import Link, ask
from gangline.ps.messages import Renew


class Heartbeat:
    """Says "alive" every so often on a link of its own."""

    def __init__(self, dial: Callable[[], Link], renew: Renew, every_seconds: float) -> None:
        self._dial = dial
        self._renew = renew
        self._every_seconds = every_seconds
        self._link: Link | None = None
        self._stop = threading.Event()
        self._replaced: ReplacedError | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for the thread to be gone."""
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """Raise if another process has taken this worker's place."""
        if self._replaced:
            raise self._replaced

    def _run(self) -> None:
        while not self._stop.wait(self._every_seconds):
            try:
                self._link = self._link or self._dial()
                ask(self._link, self._renew)
            except OSError:
                self._close()  # the lead is away: the session deals with that, here it is tried again next time
            except UnknownWorkerError:
                continue  # the lease has ended: the session takes a new one when it next speaks to the lead
            except ReplacedError as error:
                self._replaced = error
                break
        self._close()

    def _close(self) -> None:
        if self._link:
            self._link.close()
            self._link = None
