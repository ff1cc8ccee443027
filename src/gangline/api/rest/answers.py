"""How handlers answer: one JSON document, or a stream of them, one per line."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from http import HTTPStatus
from weakref import WeakSet

import msgspec
from aiohttp import web

from gangline.errors import GanglineError
from gangline.wire import error_to_body, plain

KEEP_ALIVE_SECONDS = 15.0
"""How long a stream may be silent before an empty line shows whether the client is still there."""

_CHUNK_BYTES = 64 * 1024
_encoder = msgspec.json.Encoder()

STREAMS: web.AppKey[WeakSet["asyncio.Task[None]"]] = web.AppKey("streams", WeakSet)
"""The streams that are open now: a service that stops ends them instead of waiting for their clients."""


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Answer with one value."""
    return web.Response(body=_encoder.encode(plain(value)), status=status, content_type="application/json")


async def stream_answer(request: web.Request, items: AsyncGenerator[object, None]) -> web.StreamResponse:
    """Answer with one line per item until the items end, the client goes away or the service stops.

    An error on the way is the last line, told from the others by its single field ``error``. What can be refused
    should be refused by the handler before it comes here, while the answer can still have its proper status.
    """
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    pump = asyncio.create_task(_pump(response, items))
    request.app[STREAMS].add(pump)
    try:
        await asyncio.wait((pump,))
    finally:
        pump.cancel()
    if pump.cancelled() and request.transport is not None:
        request.transport.close()  # the service stops: a stream that is cut short must not look whole
    if not pump.cancelled() and (error := pump.exception()) is not None:
        raise error
    return response


async def end_streams(app: web.Application) -> None:
    """End every stream; called when the service stops."""
    streams = app[STREAMS]
    for pump in list(streams):
        pump.cancel()


async def _pump(response: web.StreamResponse, items: AsyncGenerator[object, None]) -> None:
    """Write the items. Lines that are ready at once travel together; a line never waits for the next one."""
    lines = _Lines()
    reading = asyncio.create_task(_read(items, lines))
    reading.add_done_callback(lambda _: lines.news.set())
    try:
        # A client that goes away has seen enough; nothing is owed to it.
        with suppress(ConnectionResetError):
            while not reading.done():
                await response.write(lines.take() or b"\n")
                with suppress(TimeoutError):
                    await asyncio.wait_for(lines.news.wait(), KEEP_ALIVE_SECONDS)
            await response.write_eof(lines.take() + _last_words(reading))
    finally:
        reading.cancel()
        await asyncio.wait((reading,))


class _Lines:
    """Lines on their way from whoever reads them to whoever writes them; a full buffer holds the reader back."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._room = asyncio.Event()
        self.news = asyncio.Event()

    async def put(self, line: bytes) -> None:
        self._buffer += line
        self._buffer += b"\n"
        self.news.set()
        if len(self._buffer) >= _CHUNK_BYTES:
            self._room.clear()
            await self._room.wait()

    def take(self) -> bytes:
        taken = bytes(self._buffer)
        self._buffer.clear()
        self.news.clear()
        self._room.set()
        return taken


async def _read(items: AsyncGenerator[object, None], lines: _Lines) -> None:
    async with aclosing(items):
        async for item in items:
            await lines.put(_encoder.encode(plain(item)))


def _last_words(reading: "asyncio.Task[None]") -> bytes:
    """What is left to say when the items are over: nothing, or the error that ended them."""
    error = reading.exception()
    if error is None:
        return b""
    if not isinstance(error, GanglineError):
        raise error
    return _encoder.encode(plain(error_to_body(error))) + b"\n"
