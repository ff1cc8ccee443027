"""The gRPC server: each call is asked of the REST application, over a socket that only this service knows.

So a call meets the same table of rights, the same limits and the same audit as a request, and there is no second way
in. A method whose row is missing keeps the server from starting.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import msgspec
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from yarl import URL

from gangline import __version__
from gangline.api.errors import status_of
from gangline.api.grpc.definition import bare_path
from gangline.api.operation import Operation
from gangline.api.origins import ORIGIN_HEADER
from gangline.api.rest.answers import STALL_SECONDS
from gangline.wire import error_from_body
from gangline.wire.rpc.messages import message_from, pb
from gangline.wire.rpc.methods import METHODS, SERVED, SERVICE, Method, RestRequest, rest_request
from gangline.wire.rpc.refusals import DETAILS, code_of, details_of

_MOST_MESSAGE_BYTES = 9 * 2**20
_MOST_CALLS = 4096
_FORWARDED = ("authorization", "idempotency-key", "if-match")
"""What a client may say in the metadata of a call, as in the headers of a request."""
_OPTIONS = (
    ("grpc.max_receive_message_length", _MOST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 32 * 1024),
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),
)
_ERROR_LINE = b'{"error":'
_CHUNK_BYTES = 64 * 1024
_MOST_LINE_BYTES = 64 * 2**20
_STOP_SECONDS = 1.0

Context = Any
Body = AsyncIterator[bytes] | aiohttp.FormData | bytes | None
Refusal = Callable[[Any, int, bytes], Awaitable[None]]
"""Ends a call with the status and the body of a refusal."""
_log = logging.getLogger(__name__)


class RestLink:
    """Asks the REST application, on behalf of whoever called."""

    def __init__(self, socket: Path) -> None:
        self._session = aiohttp.ClientSession(
            "http://service",
            connector=aiohttp.UnixConnector(str(socket), limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=_CHUNK_BYTES,
            headers={"Accept-Encoding": "identity"},
        )

    @asynccontextmanager
    async def ask(
        self, request: RestRequest, context: Context, body: Body = None, *, refusal: Refusal | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Return the answer to a request; a refusal ends the call with its status."""
        given = {name: value for name, value in context.invocation_metadata() if name in _FORWARDED}
        headers = {**given, ORIGIN_HEADER: _address_of(context.peer())}
        # Encoded already: names such as '..' must arrive as they are.
        url = URL(request.path, encoded=True).with_query(request.query or None)
        data = request.body if body is None else body
        try:
            async with self._session.request(request.verb, url, data=data, headers=headers) as answer:
                if answer.status >= HTTPStatus.BAD_REQUEST:
                    await (refusal or refuse)(context, answer.status, await answer.read())
                yield answer
        except aiohttp.ClientError as error:
            # The application ended the connection: the token was revoked, a file broke, or the service stops.
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the connection broke: {error}")

    async def close(self) -> None:
        """Let go of the connections."""
        await self._session.close()


class RpcServer:
    """Serves the methods on a port."""

    def __init__(self, link: RestLink, operations: Sequence[Operation], **more: grpc.GenericRpcHandler) -> None:
        """``more`` are services besides our own, by name."""
        check_rows(operations)
        self._link = link
        self._server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_MOST_CALLS)
        handlers = {method.name: _handler(method, link) for method in METHODS.values()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers), *more.values()))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names = (SERVICE, *more)
        names = (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)

    async def start(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Listen, and return the port; raises RuntimeError where that is not possible."""
        if credentials is None:
            port = self._server.add_insecure_port(address)
        else:
            port = self._server.add_secure_port(address, credentials)
        await self._server.start()
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return int(port)

    async def stop(self) -> None:
        """End all calls, after a moment for those that are nearly done."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(_STOP_SECONDS)
        await self._link.close()


def check_rows(operations: Sequence[Operation]) -> None:
    """Refuse to serve a method that has no row in the table of operations, which says who may call it."""
    rows = {(operation.method, bare_path(operation.path)) for operation in operations}
    for method in METHODS.values():
        if (method.verb, method.path) not in rows:
            raise RuntimeError(f"the method {method.name} has no row in the table of operations")


async def refuse(context: Context, status: int, body: bytes) -> None:
    """End a call with the status and the error of a refusal by REST."""
    message, details = details_of(status, body)
    await context.abort(code_of(status), message, ((DETAILS, details),))


def _handler(method: Method, link: RestLink) -> Any:
    kinds = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
    }
    call: Callable[..., Any] = _uploading if method.uploads else _streaming if method.streams else _answering
    return kinds[method.uploads, method.streams](
        partial(call, method, link),
        request_deserializer=method.request.FromString,
        response_serializer=method.answer.SerializeToString,
    )


async def asked(method: Method, message: Any, context: Context) -> RestRequest:
    """Return what a message asks; one that cannot be said in JSON is refused."""
    try:
        return rest_request(method, message)
    except (ValueError, OverflowError, RecursionError) as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the message is not understood: {error}")
        raise  # abort has raised already


async def _answering(method: Method, link: RestLink, message: Any, context: Context) -> Any:
    request = await asked(method, message, context)
    async with link.ask(request, context) as answer:
        return _message(method, await answer.read())


async def _uploading(method: Method, link: RestLink, messages: AsyncIterator[Any], context: Context) -> Any:
    # An upload without any message is one of nothing to nowhere, which REST refuses by name.
    first: Any = await anext(messages, method.request())
    request = await asked(method, first, context)

    async def body() -> AsyncIterator[bytes]:
        if first.chunk:
            yield first.chunk
        async for message in messages:
            yield message.chunk

    async with link.ask(request, context, body()) as answer:
        return _message(method, await answer.read())


async def _streaming(method: Method, link: RestLink, message: Any, context: Context) -> None:
    request = await asked(method, message, context)
    async with link.ask(request, context) as answer:
        # The client is told at once that it is being served, however long nothing happens.
        await context.send_initial_metadata(((SERVED, __version__),))
        if method.downloads:
            async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                await write(context, pb.Chunk(data=chunk))
            return
        async for line in lines_of(answer):
            if line.startswith(_ERROR_LINE):
                await refuse(context, status_of(error_from_body(line, HTTPStatus.OK)), line)
            await write(context, _message(method, line))


async def lines_of(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Return the lines of a stream as they come, but for the empty ones that keep it alive."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line
        if len(rest) > _MOST_LINE_BYTES:
            raise ValueError("a line of a stream has no end")


async def write(context: Context, message: Any) -> None:
    """Send a message of a stream; a client that does not read is not waited for."""
    try:
        async with asyncio.timeout(STALL_SECONDS):
            await context.write(message)
    except TimeoutError:
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "nothing was read for too long")


def _message(method: Method, body: bytes) -> Any:
    return message_from(method.answer, msgspec.json.decode(body)) if body else method.answer()


def _address_of(peer: str) -> str:
    """Return the address of a peer as gRPC names it: ipv4:192.0.2.1:4711, ipv6:%5B::1%5D:4711."""
    kind, _, rest = peer.partition(":")
    return rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "") if kind in ("ipv4", "ipv6") else ""
