"""gRPC through the router, with gRPC's own clients and servers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gangline.model.routing import (
    Backend,
    BackendState,
    HoldRules,
    RetryRules,
    RevisionRoute,
    ServiceRoute,
    TimeoutRules,
    Token,
)
from tests.router.conftest import Routed

grpc = pytest.importorskip("grpc")

ECHO = "/test.Echo/Once"
STREAM = "/test.Echo/Stream"
Answer = Callable[[bytes, Any], Awaitable[bytes]]


class Server:
    """A backend that answers as its function says, and echoes streams."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        once = grpc.unary_unary_rpc_method_handler(self._once)
        stream = grpc.stream_stream_rpc_method_handler(self._stream)
        handlers = grpc.method_handlers_generic_handler("test.Echo", {"Once": once, "Stream": stream})
        self.server.add_generic_rpc_handlers((handlers,))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"

    async def _once(self, message: bytes, context: Any) -> bytes:
        return await self.answer(message, context)

    async def _stream(self, messages: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
        async for message in messages:
            yield message


@pytest.fixture
async def served() -> AsyncIterator[Callable[[Answer], Awaitable[Server]]]:
    started: list[Server] = []

    async def start(answer: Answer) -> Server:
        started.append(Server(answer))
        await started[-1].server.start()
        return started[-1]

    yield start
    for each in started:
        await each.server.stop(None)


Serve = Callable[[Answer], Awaitable[Server]]


@pytest.fixture
async def channel(routed: Routed) -> AsyncIterator[Any]:
    options = [("grpc.default_authority", "digits.localhost"), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{routed.port}", options=options) as opened:
        yield opened


def service(*addresses: str, **fields: Any) -> ServiceRoute:
    backends = tuple(Backend(address=address) for address in addresses)
    revision = RevisionRoute(name="r1", weight=1, backends=backends)
    return ServiceRoute(name="digits", retries=RetryRules(repeatable=True), **({"revisions": (revision,)} | fields))


async def echo(message: bytes, _: Any) -> bytes:
    return message


def named(name: bytes) -> Answer:
    async def answer(_: bytes, __: Any) -> bytes:
        return name

    return answer


async def test_calls_and_streams_pass_with_their_metadata_and_status(
    routed: Routed, served: Serve, channel: Any
) -> None:
    async def answer(message: bytes, context: Any) -> bytes:
        sent = dict(context.invocation_metadata())
        assert sent["x-forwarded-for"] == "127.0.0.1"
        context.set_trailing_metadata((("seen", sent["who"]),))
        if message == b"bad":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not this: é")
        return message * 2

    backend = await served(answer)
    await routed.route(service(backend.address))
    call = channel.unary_unary(ECHO)(b"x", metadata=(("who", "me"),))
    assert await call == b"xx"
    assert dict(await call.trailing_metadata())["seen"] == "me"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary(ECHO)(b"bad", metadata=(("who", "me"),))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == "not this: é"

    both = channel.stream_stream(STREAM)()
    for message in (b"a", b"b", b"c"):  # each answered before the next is sent
        await both.write(message)
        assert await both.read() == message
    await both.done_writing()
    assert await both.read() is grpc.aio.EOF
    found = await routed.until("r1", lambda each: each.requests == 3)
    assert found.answers == {"2xx": 2, "4xx": 1}
    assert found.under_way == 0


async def test_large_messages_flow_both_ways_beside_small_ones(routed: Routed, served: Serve, channel: Any) -> None:
    backend = await served(echo)
    await routed.route(service(backend.address))
    large = bytes(range(256)) * (1 << 15)
    call = channel.unary_unary(ECHO)
    answers = await asyncio.gather(call(large), *(call(b"%d" % number) for number in range(50)), call(large))
    assert answers[0] == answers[-1] == large
    assert answers[1:-1] == [b"%d" % number for number in range(50)]


async def test_calls_of_one_connection_go_to_the_backend_with_the_fewest(
    routed: Routed, served: Serve, channel: Any
) -> None:
    release = asyncio.Event()

    async def slow(_: bytes, __: Any) -> bytes:
        await release.wait()
        return b"slow"

    one, other = await served(slow), await served(slow)
    await routed.route(service(one.address, other.address))
    calls = [asyncio.ensure_future(channel.unary_unary(ECHO)(b"")) for _ in range(4)]
    found = await routed.until("r1", lambda each: each.under_way == 4)
    assert [each.under_way for each in found.backends] == [2, 2]
    release.set()
    assert await asyncio.gather(*calls) == [b"slow"] * 4


async def test_weights_and_tags_hold_for_calls(routed: Routed, served: Serve, channel: Any) -> None:
    old, new = await served(named(b"old")), await served(named(b"new"))
    revisions = (
        RevisionRoute(name="r1", weight=90, backends=(Backend(address=old.address),)),
        RevisionRoute(name="r2", weight=10, tag="next", backends=(Backend(address=new.address),)),
    )
    await routed.route(service(revisions=revisions))
    call = channel.unary_unary(ECHO)
    assert sorted([await call(b"") for _ in range(20)]) == [b"new"] * 2 + [b"old"] * 18
    assert await call(b"", metadata=(("gangline-tag", "next"),)) == b"new"


async def test_a_call_is_sent_again_when_its_backend_dies(routed: Routed, served: Serve, channel: Any) -> None:
    began = asyncio.Event()

    async def hang(_: bytes, __: Any) -> bytes:
        began.set()
        await asyncio.Event().wait()
        return b""

    dying = await served(hang)
    await routed.route(service(dying.address))
    call = asyncio.ensure_future(channel.unary_unary(ECHO)(b"x"))
    await began.wait()
    other = await served(echo)
    await routed.route(service(dying.address, other.address))
    await dying.server.stop(None)
    assert await call == b"x"


async def test_a_backend_that_says_goodbye_ends_what_it_has_and_gets_nothing_new(
    routed: Routed, served: Serve, channel: Any
) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    async def slow(_: bytes, __: Any) -> bytes:
        began.set()
        await release.wait()
        return b"old"

    leaving, other = await served(slow), await served(named(b"new"))
    await routed.route(service(leaving.address))
    call = asyncio.ensure_future(channel.unary_unary(ECHO)(b""))
    await began.wait()
    stopping = asyncio.ensure_future(leaving.server.stop(60))
    revision = RevisionRoute(
        name="r1",
        weight=1,
        backends=(Backend(address=leaving.address, state=BackendState.DRAINING), Backend(address=other.address)),
    )
    await routed.route(service(revisions=(revision,)))
    assert [await channel.unary_unary(ECHO)(b"") for _ in range(10)] == [b"new"] * 10
    release.set()
    assert await call == b"old"
    await stopping


async def test_a_call_waits_for_a_backend_and_is_given_up_in_time(routed: Routed, served: Serve, channel: Any) -> None:
    await routed.route(service())
    call = asyncio.ensure_future(channel.unary_unary(ECHO)(b"x"))
    await routed.until("r1", lambda each: each.held == 1)
    backend = await served(echo)
    await routed.route(service(backend.address))
    assert await call == b"x"

    await routed.route(service(hold=HoldRules(seconds=0)))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary(ECHO)(b"x")
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert refused.value.details() == "service digits has no replica that could answer"


async def test_a_backend_that_never_answers_a_call_is_given_up(routed: Routed, served: Serve, channel: Any) -> None:
    ended = asyncio.Event()

    async def hang(_: bytes, context: Any) -> bytes:
        context.add_done_callback(lambda _: ended.set())
        await asyncio.Event().wait()
        return b""

    backend = await served(hang)
    rules = RetryRules(attempts=1)
    timeouts = TimeoutRules(request_seconds=0.1)
    revision = RevisionRoute(name="r1", weight=1, backends=(Backend(address=backend.address),))
    await routed.route(ServiceRoute(name="digits", revisions=(revision,), retries=rules, timeouts=timeouts))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary(ECHO)(b"x")
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await ended.wait()


async def test_a_backend_stops_working_when_its_caller_has_left(routed: Routed, served: Serve, channel: Any) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang(_: bytes, context: Any) -> bytes:
        context.add_done_callback(lambda _: ended.set())
        began.set()
        await asyncio.Event().wait()
        return b""

    backend = await served(hang)
    await routed.route(service(backend.address))
    call = channel.unary_unary(ECHO)(b"x")
    await began.wait()
    call.cancel()
    await ended.wait()
    found = await routed.until("r1", lambda each: each.under_way == 0)
    assert found.errors == {"client": 1}


async def test_who_may_not_call_or_names_no_service_is_told(routed: Routed, served: Serve, channel: Any) -> None:
    backend = await served(echo)
    digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"  # of "secret"
    await routed.route(service(backend.address, tokens=(Token(name="me", sha256=digest),)))
    call = channel.unary_unary(ECHO)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(b"x")
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert await call(b"x", metadata=(("authorization", "Bearer secret"),)) == b"x"
    async with grpc.aio.insecure_channel(f"127.0.0.1:{routed.port}") as unnamed:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await unnamed.unary_unary(ECHO)(b"x")
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        named_by = (("gangline-service", "digits"), ("authorization", "Bearer secret"))
        assert await unnamed.unary_unary(ECHO)(b"x", metadata=named_by) == b"x"


@pytest.mark.parametrize(
    "after",
    [b"\x00\x00\x00\x01\x05\x00\x00\x00\x01", b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", b"GET / HTTP/1.1\r\n\r\n"],
    ids=["headers first", "too large a frame", "another protocol"],
)
async def test_what_is_not_http_2_ends_its_connection_alone(
    routed: Routed, served: Serve, channel: Any, after: bytes
) -> None:
    backend = await served(echo)
    await routed.route(service(backend.address))
    assert await channel.unary_unary(ECHO)(b"x") == b"x"
    reader, writer = await asyncio.open_connection("127.0.0.1", routed.port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + after)
    async with asyncio.timeout(30):
        await reader.read()
    writer.close()
    assert await channel.unary_unary(ECHO)(b"x") == b"x"
