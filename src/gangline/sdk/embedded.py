"""A whole service inside this process, on a socket of its own: Gangline as a library.

The service runs on a thread with its own event loop and is spoken to over HTTP like any other, so that there is
one way in and one set of errors.
"""

import asyncio
import tempfile
import threading
from pathlib import Path

from gangline.compose import Service
from gangline.errors import UnreachableError
from gangline.sdk.http import HttpAnswer, HttpTransport
from gangline.sdk.transport import Request, Transport
from gangline.settings import Settings

_START_SECONDS = 30.0


class EmbeddedTransport:
    """Owns the service's thread. Without a ``home``, everything lives in a temporary directory and dies with it."""

    def __init__(self, *, home: Path | None = None, nodes: int | None = None) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="gangline-")
        scratch = Path(self._scratch.name)
        self.temporary = home is None
        self.settings = Settings.load(home=home or scratch / "home", runtime_directory=scratch / "run", nodes=nodes)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="gangline service", daemon=True)
        self._thread.start()
        self._wait_until_ready()
        self._http = HttpTransport(f"unix:{self.settings.socket}")

    @property
    def address(self) -> str:
        """The private socket."""
        return self._http.address

    def send(self, request: Request) -> HttpAnswer:
        """Send a request; see Transport."""
        return self._http.send(request)

    def close(self) -> None:
        """Stop the service; gangs in a home of their own go on."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._scratch.cleanup()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001  # the top of a thread: told to whoever waits for it
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await Service(self.settings).run(ready=self._ready.set, stop=self._stop)

    def _wait_until_ready(self) -> None:
        if not self._ready.wait(_START_SECONDS):
            raise UnreachableError(f"the embedded service is not ready after {_START_SECONDS:g} s")
        if self._failure is not None:
            self._scratch.cleanup()
            raise UnreachableError(f"the embedded service did not start: {self._failure}") from self._failure


_conforms: type[Transport] = EmbeddedTransport
