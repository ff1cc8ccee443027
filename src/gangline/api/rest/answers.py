"""How handlers answer: one JSON document, or a stream of them, one per line."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import TypeVar
from weakref import WeakSet

import msgspec
from aiohttp import web

from gangline.api.errors import error_to_body
from gangline.errors import GanglineError

T = TypeVar("T")

KEEP_ALIVE_SECONDS = 15.0
"""How long a stream may be silent before an empty line shows whether the client is still there."""

_CHUNK_BYTES = 64 * 1024
_encoder = msgspec.json.Encoder()

STREAMS: web.AppKey[WeakSet["asyncio.Task[None]"]] = web.AppKey("streams", WeakSet)
"""The streams that are open now: a service that stops ends them instead of waiting for their clients."""


def json_answer(body: object, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Answer with one document."""
    return web.Response(body=_encoder.encode(body), status=status, content_type="application/json")


async def stream_answer(
    request: web.Request, items: AsyncGenerator[T, None], schema_of: Callable[[T], object]
) -> web.StreamResponse:
    """Answer with one line per item until the items end, the client goes away or the service stops.

    An error on the way is the last line, told from the others by its single field ``error``. What can be refused
    should be refused by the handler before it comes here, while the answer can still have its proper status.
    """
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    pump = asyncio.create_task(_pump(response, items, schema_of))
    request.app[STREAMS].add(pump)
    try:
        await asyncio.wait((pump,))
    finally:
        pump.cancel()
    if not pump.cancelled() and (error := pump.exception()) is not None:
        raise error
    return response


async def end_streams(app: web.Application) -> None:
    """End every stream; called when the service stops."""
    streams = app[STREAMS]
    for pump in list(streams):
        pump.cancel()


async def _pump(response: web.StreamResponse, items: AsyncGenerator[T, None], schema_of: Callable[[T], object]) -> None:
    """Write the items. Lines that are ready at once travel together; a line never waits for the next one."""
    lines = bytearray()
    # A client that goes away has seen enough; nothing is owed to it.
    with suppress(ConnectionResetError):
        try:
            async with aclosing(_with_pauses(items)) as steps:
                async for item in steps:
                    if item is not None:
                        lines += _encoder.encode(schema_of(item)) + b"\n"
                    if item is None or len(lines) >= _CHUNK_BYTES:
                        await response.write(bytes(lines) or b"\n")
                        lines.clear()
        except GanglineError as error:
            lines += _encoder.encode(error_to_body(error)) + b"\n"
        await response.write_eof(bytes(lines))


async def _with_pauses(items: AsyncGenerator[T, None]) -> AsyncGenerator[T | None, None]:
    """Return the items, and None whenever the next one is not there at once or has not come for long."""
    async with aclosing(items):
        while True:
            step = asyncio.ensure_future(_next(items))
            try:
                await asyncio.sleep(0)
                while not step.done():
                    yield None
                    await asyncio.wait((step,), timeout=KEEP_ALIVE_SECONDS)
                yield step.result()
            except StopAsyncIteration:
                return
            finally:
                step.cancel()
                await asyncio.wait((step,))


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
