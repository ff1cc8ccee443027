"""How handlers answer: one JSON document, or a stream of them, as lines or as server-sent events."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Protocol
from weakref import WeakSet

import msgspec
from aiohttp import web

from gangline.errors import GanglineError
from gangline.wire import error_to_body, plain

KEEP_ALIVE_SECONDS = 15.0
"""How long a stream may be silent before an empty line shows whether the client is still there."""

STALL_SECONDS = 300.0
"""How long a client may read nothing while there is something to read."""

_EVENTS = "text/event-stream"
_LOOK_SECONDS = 1.0
_CHUNK_BYTES = 64 * 1024
_encoder = msgspec.json.Encoder()

STREAMS: web.AppKey[WeakSet["asyncio.Task[None]"]] = web.AppKey("streams", WeakSet)
"""The streams that are open now: a service that stops ends them instead of waiting for their clients."""


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Answer with one value, and the version of a job or record as its entity tag."""
    response = web.Response(body=_encoder.encode(plain(value)), status=status, content_type="application/json")
    if (tag := entity_tag(value)) is not None:
        response.headers["ETag"] = f'"{tag}"'
    return response


def entity_tag(value: object) -> str | None:
    """Return what stands for the version of a job, a record or a view of one; None for anything else."""
    thing, version = getattr(value, "id", None), getattr(value, "version", None)
    return f"{thing}.{version}" if isinstance(thing, str) and isinstance(version, int) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """One event of a stream that knows where its client can go on."""

    kind: str = "change"
    data: object = None
    id: str | None = None


IdOf = Callable[[Any], str]


def wants_events(request: web.Request) -> bool:
    """Whether a client asks for server-sent events and not for lines."""
    return _EVENTS in request.headers.get("Accept", "")


def last_event_of(request: web.Request) -> str | None:
    """Return the last event that a client has that was cut off."""
    return request.headers.get("Last-Event-ID") or None if wants_events(request) else None


async def stream_answer(
    request: web.Request, items: AsyncGenerator[Any, None], *, id_of: IdOf | None = None
) -> web.StreamResponse:
    """Answer with one line or event per item until the items end, the client goes away or the service stops.

    An error on the way is the last line, told from the others by its single field ``error``, or an event of this name.
    What can be refused should be refused by the handler before it comes here, while the answer can still have its
    proper status. Events have the id that ``id_of`` says. Without it an item is known by its content, and the first one
    is left out if its client has it already.
    """
    form: _Form = _Events(last_event_of(request), id_of) if wants_events(request) else _LineForm()
    response = web.StreamResponse(headers={"Content-Type": form.content_type, "Cache-Control": "no-store"})
    await response.prepare(request)
    pump = asyncio.create_task(_pump(response, items, form))
    request.app[STREAMS].add(pump)
    try:
        while not pump.done() and request.transport is not None:  # it has none once its client is gone
            await asyncio.wait((pump,), timeout=_LOOK_SECONDS)
    finally:
        pump.cancel()
        await asyncio.wait((pump,))
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


class _Form(Protocol):
    """How items are written."""

    content_type: str
    silence: bytes
    """What shows that the service is still there."""

    def written(self, item: object) -> bytes: ...
    def refusal(self, error: GanglineError) -> bytes: ...


class _LineForm:
    content_type = "application/x-ndjson"
    silence = b"\n"

    def written(self, item: object) -> bytes:
        return _encoder.encode(plain(item)) + b"\n"

    def refusal(self, error: GanglineError) -> bytes:
        return self.written(error_to_body(error))


class _Events:
    content_type = _EVENTS
    silence = b":\n\n"

    def __init__(self, last: str | None, id_of: IdOf | None) -> None:
        self._last = last
        self._id_of = id_of

    def written(self, item: object) -> bytes:
        event = item if isinstance(item, StreamEvent) else self._event(item)
        data = b"{}" if event.data is None else _encoder.encode(plain(event.data))
        if not isinstance(item, StreamEvent) and self._id_of is None:
            event = replace(event, id=hashlib.sha256(data).hexdigest()[:16])
            last, self._last = self._last, None
            if event.id == last:
                return b""
        number = b"" if event.id is None else f"id: {event.id}\n".encode()
        return b"%sevent: %s\ndata: %s\n\n" % (number, event.kind.encode(), data)

    def _event(self, item: object) -> StreamEvent:
        return StreamEvent(data=item, id=None if self._id_of is None else self._id_of(item))

    def refusal(self, error: GanglineError) -> bytes:
        return self.written(StreamEvent(kind="error", data=error_to_body(error)))


async def _pump(response: web.StreamResponse, items: AsyncGenerator[object, None], form: _Form) -> None:
    """Write the items. Lines that are ready at once travel together; a line never waits for the next one."""
    lines = _Lines()
    reading = asyncio.create_task(_read(items, lines, form))
    reading.add_done_callback(lambda _: lines.news.set())
    try:
        # A client that goes away has seen enough; nothing is owed to it.
        with suppress(ConnectionResetError, TimeoutError):
            while not reading.done():
                async with asyncio.timeout(STALL_SECONDS):
                    await response.write(lines.take() or form.silence)
                with suppress(TimeoutError):
                    await asyncio.wait_for(lines.news.wait(), KEEP_ALIVE_SECONDS)
            await response.write_eof(lines.take() + _last_words(reading, form))
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


async def _read(items: AsyncGenerator[object, None], lines: _Lines, form: _Form) -> None:
    async with aclosing(items):
        async for item in items:
            await lines.put(form.written(item))


def _last_words(reading: "asyncio.Task[None]", form: _Form) -> bytes:
    """What is left to say when the items are over: nothing, or the error that ended them."""
    error = reading.exception()
    if error is None:
        return b""
    if not isinstance(error, GanglineError):
        raise error
    return form.refusal(error)
