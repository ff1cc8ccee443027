"""Ending connections of clients that never say what they want, or never read the answer: each holds memory and more."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.operation import Handler
from gangline.model import Clock

SILENT_SECONDS = 30.0
"""How long a client may take from its connection to the end of its first request's headers."""
KEEP_ALIVE_SECONDS = 75.0
"""How long a client may be silent between two requests, half of the next one's headers included."""
UNREAD_SECONDS = 300.0
"""How long a client may take nothing of an answer while there is something to take."""
_LOOK_SECONDS = 5.0


class Connection(Protocol):
    """A client's connection."""

    @property
    def transport(self) -> asyncio.BaseTransport | None:
        """What its bytes go through; None once it has ended."""

    def force_close(self) -> None:
        """End it."""


class SilentConnections:
    """Knows which connections have not asked for anything yet or do not read, and since when."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: set[Connection] = set()
        self._since: dict[Connection, float] = {}
        self._unread: dict[Connection, tuple[int, float]] = {}
        """How many bytes wait for a client, and since when it has taken none of them."""

    @property
    def noting(self) -> Middleware:
        """Make what notes that a connection has asked for something."""

        @web.middleware
        async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
            self.note(request.protocol)
            return await handler(request)

        return note

    def note(self, connection: Connection) -> None:
        """Note that a connection has asked for something."""
        self._asked.add(connection)

    def end_silent(self, connections: Iterable[Connection]) -> None:
        """End those that were silent for too long, of all that there are now."""
        now, present = self._clock.now(), set(connections)
        self._asked &= present
        self._since = {each: self._since.get(each, now) for each in present - self._asked}
        for each, since in self._since.items():
            if now - since >= SILENT_SECONDS:
                each.force_close()

    def end_unread(self, connections: Iterable[Connection]) -> None:
        """End those whose clients have taken nothing for too long of what waits for them.

        Whatever waits is dropped with them: to close one in order would be to wait for its client once more.
        """
        now, before, self._unread = self._clock.now(), self._unread, {}
        for each in connections:
            transport = each.transport
            waiting = transport.get_write_buffer_size() if isinstance(transport, asyncio.WriteTransport) else 0
            if not waiting:
                continue
            size, since = before.get(each, (0, now))
            self._unread[each] = (waiting, since if size == waiting else now)
            if isinstance(transport, asyncio.WriteTransport) and now - self._unread[each][1] >= UNREAD_SECONDS:
                transport.abort()

    async def watch(self, runner: web.AppRunner) -> None:
        """Look again and again at the connections of a server."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if runner.server is not None:
                self.end_silent(runner.server.connections)
                self.end_unread(runner.server.connections)
