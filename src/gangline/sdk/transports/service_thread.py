"""A service on a thread of this process, with its own event loop, spoken to over its socket like any other."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gangline.errors import GanglineError, UnreachableError
from gangline.sdk.transports.http import HttpAnswer, HttpTransport
from gangline.sdk.transports.interface import Request, Transport
from gangline.sdk.transports.scratch import Scratch

_START_SECONDS = 30.0


class Runnable(Protocol):
    """A service that says when it answers and ends when it is told to."""

    async def run(self, *, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set; call ``ready`` once requests are answered."""
        ...


class ServiceThread:
    """Owns the thread, a scratch directory and the way to the service. Made when the service answers.

    ``make`` is given the scratch directory and returns the service with its socket; what keeps it from starting is
    raised.
    """

    def __init__(self, make: Callable[[Path], tuple[Runnable, Path]]) -> None:
        self.scratch = Scratch()
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        try:
            self._service, socket = make(self.scratch.path)
            self._thread = threading.Thread(target=self._run, name="gangline service", daemon=True)
            self._thread.start()
            self._wait()
        except GanglineError:
            self.scratch.remove()
            raise
        self._http = HttpTransport(f"unix:{socket}")

    @property
    def address(self) -> str:
        """The private socket."""
        return self._http.address

    def send(self, request: Request) -> HttpAnswer:
        """Send a request; see Transport."""
        return self._http.send(request)

    def close(self) -> None:
        """Stop the service and wait until it has let go of everything."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self.scratch.remove()

    def _wait(self) -> None:
        if not self._ready.wait(_START_SECONDS):
            raise UnreachableError(f"the service in this process is not ready after {_START_SECONDS:g} s")
        if isinstance(self._failure, GanglineError):
            raise self._failure
        if self._failure is not None:
            raise UnreachableError(f"the service in this process did not start: {self._failure}") from self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001  # the top of a thread: told to whoever waits for it
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await self._service.run(ready=self._ready.set, stop=self._stop)


_conforms: type[Transport] = ServiceThread
