"""A thread that renews a worker's lease, so that a long step does not look like a dead worker."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from gangline.ps.errors import NoMapError, NotLeadError, ReplacedError, UnknownWorkerError, WireError
from gangline.ps.protocol.link import Link, ask, ask_map
from gangline.ps.protocol.messages import Renew

RETRY_SECONDS = 0.5


class Heartbeat:
    """Says "alive" to the lead every so often on a link of its own, and finds it again when another server leads."""

    def __init__(self, dial: Callable[[str], Link], servers: Sequence[str], renew: Renew, every_seconds: float) -> None:
        self._dial = dial
        self._servers = deque(servers)
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
        heard = True
        # A lead that comes back has heard nothing of us for a while: it is not left waiting for the next regular time.
        while not self._stop.wait(self._every_seconds if heard else min(self._every_seconds, RETRY_SECONDS)):
            try:
                heard = self._beat()
            except UnknownWorkerError:
                continue  # the lease has ended: the session takes a new one when it next speaks to the lead
            except ReplacedError as error:
                self._replaced = error
                break
        self._close()

    def _beat(self) -> bool:
        """Renew with the server that leads; whether one was found. If none can be reached it is tried again soon."""
        for _ in range(len(self._servers) + 1):
            try:
                self._link = self._link or self._dial(self._servers[0])
                try:
                    ask(self._link, self._renew)
                except NotLeadError:
                    self._servers = deque(ask_map(self._link).servers)
                    self._close()
                else:
                    return True
            except (OSError, NoMapError, WireError):
                self._close()
                # The lead is away or has left, and somebody else may have its address: any other server knows.
                self._servers.rotate(-1)
        return False

    def _close(self) -> None:
        if self._link:
            self._link.close()
            self._link = None
