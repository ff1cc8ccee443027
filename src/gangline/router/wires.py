"""Connections as the router uses them: read by one coroutine, written by another, at the pace of both ends.

Unlike asyncio's streams they are bounded on both sides and hand out what there is. Limits of time are attributes that
one sweep looks at, not timers: a request would set four of them.
"""

import asyncio
import math
from typing import Protocol

READ_AHEAD = 128 << 10
"""A connection is not read while more than this waits to be passed on."""
_WRITE_AHEAD = 128 << 10
SWEEP_SECONDS = 0.1


class Goodbye(Protocol):
    """A connection of many streams."""

    def say_goodbye(self) -> None:
        """Take no more, and end with the last."""


class Sweep:
    """All open connections, and the end of those that wait too long."""

    def __init__(self) -> None:
        self.wires: set[Wire] = set()

    async def run(self) -> None:
        """Look after the limits until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = loop.time()
            for wire in [wire for wire in self.wires if wire.deadline < now or wire.write_deadline < now]:
                wire.expire(now)


class Wire(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_blocked", "_loop", "_paused", "_reader", "_sweep", "_writer",
        "buffer", "deadline", "half_open", "idle_since", "lost", "on_lost", "transport", "write_deadline",
    )  # fmt: skip

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._blocked = self._paused = False
        self.transport: asyncio.Transport
        self.buffer = bytearray()
        self.deadline = self.write_deadline = math.inf
        self.idle_since = 0.0
        self.lost = False
        self.half_open = False
        """The end of what the other side says is not the end of the connection."""
        self.on_lost: asyncio.Task[None] | None = None
        """Cancelled when the connection is lost: nobody waits for what it does."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = transport  # type: ignore[assignment]  # connections of streams have nothing else
        self.transport.set_write_buffer_limits(high=_WRITE_AHEAD)
        self._sweep.wires.add(self)

    def data_received(self, data: bytes) -> None:
        """Keep what came until it is asked for."""
        self.buffer += data
        if len(self.buffer) > READ_AHEAD and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def eof_received(self) -> bool:
        """Remember that nothing more will come."""
        if self.half_open:
            self.lost = True
            self._wake()
        return self.half_open

    def pause_writing(self) -> None:
        """Remember that the other side does not read fast enough."""
        self._blocked = True

    def resume_writing(self) -> None:
        """Go on."""
        self._blocked = False
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake whoever waits."""
        self.lost = True
        self._blocked = False
        self._sweep.wires.discard(self)
        self._wake()
        if self.on_lost is not None:
            self.on_lost.cancel()

    def _wake(self) -> None:
        for waiting in (self._reader, self._writer):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def expire(self, now: float) -> None:
        """Let whoever has waited too long fail."""
        for waiting, deadline in ((self._reader, self.deadline), (self._writer, self.write_deadline)):
            if waiting is not None and not waiting.done() and deadline < now:
                waiting.set_exception(TimeoutError())

    def interrupt(self, problem: Exception) -> None:
        """Let whoever waits for this connection fail."""
        for waiting in (self._reader, self._writer):
            if waiting is not None and not waiting.done():
                waiting.set_exception(problem)

    async def more(self, seconds: float) -> bool:
        """Wait for more bytes than there are; False if none will come. Raises TimeoutError."""
        if self.lost:
            return False
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        self._reader = self._loop.create_future()
        self.deadline = self._loop.time() + seconds
        before = len(self.buffer)
        try:
            await self._reader
        finally:
            self._reader = None
            self.deadline = math.inf
        return len(self.buffer) > before

    @property
    def blocked(self) -> bool:
        """Whether the other side has enough to read for now."""
        return self._blocked

    async def flow(self, seconds: float) -> None:
        """Wait until the other side has read. Raises TimeoutError."""
        if not self._blocked:
            return
        self._writer = self._loop.create_future()
        self.write_deadline = self._loop.time() + seconds
        try:
            await self._writer
        finally:
            self._writer = None
            self.write_deadline = math.inf

    def write(self, data: bytes) -> None:
        """Send, unless the connection is gone."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        """Send what is left, then end."""
        self.transport.close()

    def abort(self) -> None:
        """End at once."""
        self.transport.abort()
