"""A service on a thread of this process, with its own event loop, spoken to over HTTP like any other."""

import asyncio
import threading
from typing import Protocol

from gangline.errors import GanglineError, UnreachableError

_START_SECONDS = 30.0


class Runnable(Protocol):
    """A service that says when it answers and ends when it is told to."""

    async def run(self, *, ready: "Signal", stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set; call ``ready`` once requests are answered."""
        ...


class Signal(Protocol):
    """A call that says one thing."""

    def __call__(self) -> None:
        """Say it."""
        ...


class ServiceThread:
    """Owns the thread. Made when the service answers; raises what kept it from doing so."""

    def __init__(self, service: Runnable) -> None:
        self._service = service
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="gangline service", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_SECONDS):
            raise UnreachableError(f"the service in this process is not ready after {_START_SECONDS:g} s")
        if isinstance(self._failure, GanglineError):
            raise self._failure
        if self._failure is not None:
            raise UnreachableError(f"the service in this process did not start: {self._failure}") from self._failure

    def close(self) -> None:
        """Stop the service and wait until it has let go of everything."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

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
