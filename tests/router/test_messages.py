"""What clients send: streamed as it comes, refused where two programs could read it differently."""

import asyncio
import io

import pytest
from aiohttp import web

from gangline.router.messages import Chunked, MessageError, end_of_head, read_request
from tests.router.conftest import Routed, service

HEAD = b"POST /services/digits/ HTTP/1.1\r\nHost: x\r\n"
BAD = {
    "both lengths": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a list of lengths": HEAD + b"Content-Length: 5, 5\r\n\r\nhello",
    "a signed length": HEAD + b"Content-Length: +5\r\n\r\nhello",
    "obs-fold": HEAD + b"X: a\r\n b\r\n\r\n",
    "bare line feeds": b"GET /services/digits/ HTTP/1.1\nHost: x\n\n",
    "a bare line feed in a value": HEAD + b"X: a\nTransfer-Encoding: chunked\r\n\r\n",
    "a space before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n",
    "an encoding hidden by another": HEAD + b"Transfer-Encoding: x, chunked\r\n\r\n",
    "two encodings": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
    "an encoding before HTTP/1.1": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "two hosts": HEAD + b"Host: y\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "a zero byte": HEAD + b"X: \0\r\n\r\n",
    "a long head": HEAD + b"X: " + b"y" * 40000 + b"\r\n\r\n",
    "no request": b"\x16\x03\x01\x02\x00\r\n\r\n",
    "a chunk without a carriage return": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
    "a chunk longer than it says": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
    "a size that is no number": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
async def test_what_could_be_read_in_two_ways_never_reaches_a_backend_whole(routed: Routed, data: bytes) -> None:
    whole = 0

    async def count(request: web.Request) -> web.Response:
        nonlocal whole
        await request.read()
        whole += 1
        return web.Response()

    await routed.route(service(await routed.backend(count)))
    answer = await routed.raw(data + b"GET /smuggled HTTP/1.1\r\nHost: digits.localhost\r\n\r\n")
    assert answer[9:12] in (b"400", b"431", b"501"), answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert whole == 0


def test_chunks_are_read_the_same_however_they_arrive() -> None:
    text = b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\nnext"
    for size in (1, 2, 3, 7, len(text)):
        body, buffer, found = Chunked(), bytearray(), b""
        for at in range(0, len(text), size):
            buffer += text[at : at + size]
            found += body.take(buffer)
        assert (found, body.done, bytes(buffer)) == (b"hello!", True, b"next")


def test_connection_cannot_take_away_what_frames_the_message() -> None:
    head = read_request(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: content-length, x-own\r\nContent-Length: 0\r\n\r\n")
    assert head.listed == {b"x-own"}


def test_a_head_may_not_grow_for_ever() -> None:
    with pytest.raises(MessageError):
        end_of_head(bytearray(b"x" * (33 << 10)))


async def test_pipelined_requests_are_answered_in_order(routed: Routed) -> None:
    async def path(request: web.Request) -> web.Response:
        return web.Response(text=request.path)

    await routed.route(service(await routed.backend(path)))
    first = b"GET /one HTTP/1.1\r\nHost: digits.localhost\r\n\r\n"
    last = b"GET /two HTTP/1.1\r\nHost: digits.localhost\r\nConnection: close\r\n\r\n"
    answer = await routed.raw(first + last)
    assert answer.index(b"/one") < answer.index(b"/two")


async def test_large_bodies_flow_both_ways(routed: Routed) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        async for piece in request.content.iter_any():
            await answer.write(piece)
        return answer

    await routed.route(service(await routed.backend(echo)))
    sent = bytes(range(256)) * (64 << 10)
    async with routed.session.post(routed.url(), data=io.BytesIO(sent)) as answer:
        assert await answer.read() == sent


async def test_events_arrive_as_they_are_sent(routed: Routed) -> None:
    go_on = asyncio.Event()

    async def events(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: 1\n\n")
        await go_on.wait()
        await answer.write(b"data: 2\n\n")
        return answer

    await routed.route(service(await routed.backend(events)))
    async with routed.session.get(routed.url()) as answer:
        assert await answer.content.readany() == b"data: 1\n\n"
        go_on.set()
        assert await answer.content.read() == b"data: 2\n\n"


async def test_websockets_pass_through(routed: Routed) -> None:
    async def echo(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"echo {message.data}")
        return socket

    await routed.route(service(await routed.backend(echo)))
    async with routed.session.ws_connect(routed.url()) as socket:
        for number in range(3):
            await socket.send_str(str(number))
            assert (await socket.receive()).data == f"echo {number}"
    found = await routed.until("r1", lambda found: found.requests == 1)
    assert (found.answers, found.under_way) == ({"1xx": 1}, 0)
