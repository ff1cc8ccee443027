"""A whole service inside this process, on a socket of its own: Gangline as a library."""

import atexit
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gangline.compose import Service
from gangline.sdk.transports.abandoned import ExitWatcher
from gangline.sdk.transports.interface import Transport
from gangline.sdk.transports.service_thread import ServiceThread
from gangline.settings import Settings, parse_setting


class EmbeddedTransport(ServiceThread):
    """Owns the service. Without a ``home``, everything lives in a temporary directory and dies with it."""

    def __init__(self, *, home: Path | None = None, nodes: int | None = None) -> None:
        self._process = os.getpid()
        self._close: Callable[[], None] | None = None
        self.temporary = home is None
        nodes = None if nodes is None else parse_setting("nodes", nodes)

        def make(scratch: Path) -> tuple[Service, Path]:
            place = home or scratch / "home"
            self.settings = Settings.load(home=place, runtime_directory=scratch / "run", nodes=nodes)
            return Service(self.settings), self.settings.socket

        super().__init__(make)
        self._exit_watcher: ExitWatcher | None = None
        if self.temporary:
            with suppress(FileNotFoundError):  # a machine without a shell
                self._exit_watcher = ExitWatcher(self.scratch.path)

    def before_exit(self, close: Callable[[], None]) -> None:
        """Have the owner's ``close`` called when the program ends, unless it has been closed by then.

        Otherwise training would go on in a home that is gone, where nobody finds it. Threads of the program that
        outlive its main thread have ended by then; the service works on, on threads of its own (``ThreadPool``).
        """
        self._close = close
        atexit.register(self._close_at_exit)

    def _close_at_exit(self) -> None:
        # A forked child inherits this, but not the service: its end is none of ours.
        if self._close is not None and os.getpid() == self._process:
            self._close()

    def close(self) -> None:
        """Stop the service; gangs in a home of their own go on."""
        self._close = None
        atexit.unregister(self._close_at_exit)
        super().close()
        if self._exit_watcher is not None:
            self._exit_watcher.dismiss()


_conforms: type[Transport] = EmbeddedTransport
