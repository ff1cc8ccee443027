"""A whole service inside this process, on a socket of its own: Gangline as a library."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gangline.compose import Service
from gangline.errors import GanglineError
from gangline.sdk.abandoned import Executor
from gangline.sdk.http import HttpAnswer, HttpTransport
from gangline.sdk.scratch import Scratch
from gangline.sdk.service_thread import ServiceThread
from gangline.sdk.transport import Request, Transport
from gangline.settings import Settings, parse_setting


class EmbeddedTransport:
    """Owns the service. Without a ``home``, everything lives in a temporary directory and dies with it."""

    def __init__(self, *, home: Path | None = None, nodes: int | None = None) -> None:
        self._process = os.getpid()
        self._close: Callable[[], None] | None = None
        nodes = None if nodes is None else parse_setting("nodes", nodes)
        self._scratch = Scratch()
        scratch = self._scratch.path
        self.temporary = home is None
        self.settings = Settings.load(home=home or scratch / "home", runtime_directory=scratch / "run", nodes=nodes)
        try:
            self._service = ServiceThread(Service(self.settings))
        except GanglineError:
            self._scratch.remove()
            raise
        self._http = HttpTransport(f"unix:{self.settings.socket}")
        self._executor: Executor | None = None
        if self.temporary:
            with suppress(FileNotFoundError):  # a machine without a shell
                self._executor = Executor(scratch)

    @property
    def address(self) -> str:
        """The private socket."""
        return self._http.address

    def send(self, request: Request) -> HttpAnswer:
        """Send a request; see Transport."""
        return self._http.send(request)

    def before_exit(self, close: Callable[[], None]) -> None:
        """Have the owner's ``close`` called when the program ends, unless it has been closed by then.

        Otherwise training would go on in a home that is gone, where nobody finds it. ``atexit`` would come too late:
        by then threads can no longer hand out work, and the service needs them to the end.
        """
        self._close = close
        threading._register_atexit(self._close_at_exit)  # type: ignore[attr-defined]  # noqa: SLF001  # see above

    def _close_at_exit(self) -> None:
        # A forked child inherits this, but not the service: its end is none of ours.
        if self._close is not None and os.getpid() == self._process:
            self._close()

    def close(self) -> None:
        """Stop the service; gangs in a home of their own go on."""
        self._close = None
        self._service.close()
        self._scratch.remove()
        if self._executor is not None:
            self._executor.dismiss()


_conforms: type[Transport] = EmbeddedTransport
