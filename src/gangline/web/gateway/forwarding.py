"""Forwards one request to the program of a workspace, with the router's reading and writing of messages.

The program sees the gateway's token in place of whatever the browser sent, and never the browser's cookie for the
gateway. What becomes a websocket is passed on byte by byte.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web

from gangline.errors import ConflictError
from gangline.router.exchange import connect
from gangline.router.messages import (
    HOP_BY_HOP,
    REPLACED,
    AnswerHead,
    Chunked,
    Fields,
    Length,
    MessageError,
    RequestHead,
    UntilClose,
    end_of_head,
    read_answer,
    write_answer,
    write_request,
)
from gangline.router.wires import READ_AHEAD, Sweep, Wire

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 300.0
_IDLE_SECONDS = 24 * 3600.0
"""A websocket may be quiet for as long as a person sleeps; who may is checked all the while."""
_DROPPED = HOP_BY_HOP | REPLACED | {b"authorization", b"cookie", b"expect"}
_CONTROL = 8
"""Opcodes of websocket frames from here on are pings and the like, which a browser sends by itself."""

Note = Callable[[], None]
"""Called when a person does something."""


async def forward(
    request: web.Request, address: str, *, token: str, own_cookie: str, sweep: Sweep, note: Note
) -> web.StreamResponse:
    """Have a request answered by the program at an address."""
    head = _head(request)
    extra = b"Authorization: token %s\r\n" % token.encode() + _cookies(request, own_cookie)
    extra += b"X-Forwarded-Proto: %s\r\nX-Forwarded-Host: %s\r\n" % (request.scheme.encode(), head.host)
    try:
        upstream = await connect(address, sweep, _CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise ConflictError("the program of the workspace does not accept connections; it may be starting") from error
    try:
        upstream.write(write_request(head, head.target, extra, _DROPPED))
        sending = asyncio.ensure_future(_send_body(request, upstream, head))
        try:
            answer = await _answer_head(upstream, head)
            if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
                return await _tunnel(request, head, upstream, answer, note)
            return await _answer(request, upstream, answer, own_cookie)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    except (MessageError, TimeoutError) as error:
        raise ConflictError("the program of the workspace does not answer as it should") from error
    finally:
        upstream.abort()


def _head(request: web.Request) -> RequestHead:
    """The head of a request as the router would have read it; aiohttp has read it as strictly."""
    target = request.raw_path
    if not target.startswith("/"):
        raise ConflictError("the address is malformed")
    fields: Fields = [(name.lower(), name, value) for name, value in request.raw_headers]
    connection = frozenset(
        word.strip().lower() for lower, _, value in fields if lower == b"connection" for word in value.split(b",")
    )
    upgrade = request.headers.get("Upgrade", "").lower().encode() if b"upgrade" in connection else b""
    length = request.content_length
    chunked = request.body_exists and length is None
    return RequestHead(
        method=request.method.encode(),
        target=target.encode("ascii", "replace"),
        host=request.host.encode(),
        fields=fields,
        body=Chunked() if chunked else Length(length or 0),
        keep_alive=False,
        modern=True,
        upgrade=upgrade if upgrade == b"websocket" else b"",
        listed=connection - {b"host", b"content-length", b"content-type"},
    )


def _cookies(request: web.Request, own: str) -> bytes:
    """The browser's cookies for the program: all but the one that is for us."""
    given = "; ".join(request.headers.getall("Cookie", []))
    kept = [each for part in given.split(";") if (each := part.strip()) and each.partition("=")[0].strip() != own]
    return b"Cookie: %s\r\n" % "; ".join(kept).encode("utf-8", "surrogateescape") if kept else b""


async def _send_body(request: web.Request, upstream: Wire, head: RequestHead) -> None:
    if not request.body_exists or head.upgrade:
        return
    chunked = isinstance(head.body, Chunked)
    async for piece in request.content.iter_any():
        upstream.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        await upstream.flow(_ANSWER_SECONDS)
    if chunked:
        upstream.write(b"0\r\n\r\n")


async def _answer_head(upstream: Wire, head: RequestHead) -> AnswerHead:
    while True:
        end = end_of_head(upstream.buffer)
        if end < 0:
            if not await upstream.more(_ANSWER_SECONDS):
                raise MessageError("it ended before it answered")
            continue
        answer = read_answer(bytes(upstream.buffer[:end]), head.method)
        del upstream.buffer[:end]
        if answer.status >= HTTPStatus.OK or (answer.status == HTTPStatus.SWITCHING_PROTOCOLS and head.upgrade):
            return answer


async def _answer(request: web.Request, upstream: Wire, answer: AnswerHead, own_cookie: str) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason.decode("latin-1"))
    for name, value in answer_headers(answer, own_cookie):
        response.headers.add(name, value)
    await response.prepare(request)
    while not answer.body.done:
        if not upstream.buffer and not await upstream.more(_ANSWER_SECONDS):
            if isinstance(answer.body, UntilClose):
                break
            if request.transport is not None:
                request.transport.abort()  # the browser must see that the answer is not whole
            return response
        if piece := answer.body.take(upstream.buffer):
            await response.write(piece)
    await response.write_eof()
    return response


def answer_headers(answer: AnswerHead, own_cookie: str) -> list[tuple[str, str]]:
    """The headers of a program's answer that a browser gets. A cookie of its stays with its own host."""
    dropped = HOP_BY_HOP | answer.listed
    found = []
    for lower, name, value in answer.fields:
        text = value.decode("utf-8", "surrogateescape")
        if lower in dropped:
            continue
        if lower == b"set-cookie":
            parts = [part for part in text.split(";") if not part.strip().lower().startswith("domain=")]
            if parts[0].partition("=")[0].strip() == own_cookie:
                continue
            text = ";".join(parts)
        found.append((name.decode("latin-1"), text))
    return found


class _Incoming:
    """What a browser sends on an upgraded connection; aiohttp hands it over as it comes."""

    def __init__(self, request: web.Request) -> None:
        self._transport = request.transport
        self.buffer = bytearray()
        self.ended = False
        self._news = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Keep what came."""
        self.buffer += data
        if len(self.buffer) > READ_AHEAD and isinstance(self._transport, asyncio.ReadTransport):
            self._transport.pause_reading()
        self._news.set()
        return False, b""

    def feed_eof(self) -> None:
        """Remember that nothing more will come."""
        self.ended = True
        self._news.set()

    async def take(self) -> bytes:
        """Return what came, or nothing at the end."""
        while not self.buffer and not self.ended:
            self._news.clear()
            await self._news.wait()
        data = bytes(self.buffer)
        self.buffer.clear()
        if isinstance(self._transport, asyncio.ReadTransport) and not self._transport.is_closing():
            self._transport.resume_reading()
        return data


class _Upgraded(web.StreamResponse):
    """Says to aiohttp that all has been written already."""

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing is left to be written."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to be written."""


async def _tunnel(
    request: web.Request, head: RequestHead, upstream: Wire, answer: AnswerHead, note: Note
) -> web.StreamResponse:
    """Pass bytes in both directions until one side ends."""
    transport = request.transport
    if transport is None:
        raise MessageError("the browser is gone")
    incoming = _Incoming(request)
    transport.write(write_answer(answer, b"Connection: Upgrade\r\nUpgrade: " + head.upgrade + b"\r\n"))
    request.protocol.set_parser(incoming)  # type: ignore[arg-type]  # it has what is asked of one
    ways = [
        asyncio.ensure_future(_outward(incoming, upstream, note)),
        asyncio.ensure_future(_inward(request, upstream)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        transport.close()
    response = _Upgraded(status=HTTPStatus.SWITCHING_PROTOCOLS)
    response.force_close()
    return response


async def _outward(incoming: _Incoming, upstream: Wire, note: Note) -> None:
    while data := await incoming.take():
        if data[0] & 0x0F < _CONTROL:
            note()
        upstream.write(data)
        await upstream.flow(_IDLE_SECONDS)
        if upstream.lost:
            return


async def _inward(request: web.Request, upstream: Wire) -> None:
    while upstream.buffer or await upstream.more(_IDLE_SECONDS):
        if request.transport is None or request.transport.is_closing():
            return
        request.transport.write(bytes(upstream.buffer))
        upstream.buffer.clear()
        await request.writer.drain()
