"""What runs over a web socket to a pod: commands and forwarded ports.

Both use Kubernetes' channel protocol: every message begins with one byte that says which stream it belongs to.
``KubeClient`` opens the sockets; nothing here knows addresses or credentials.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import aiohttp
import msgspec

from gangline.kube.errors import CommandError, KubeError, StreamError
from gangline.model.console import Console

WebSocket = aiohttp.ClientWebSocketResponse[bool]
EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
PORT_FORWARD_PROTOCOLS = ("v4.channel.k8s.io",)

_STDIN, _STDOUT, _STDERR, _RESULT, _RESIZE = range(5)
_CLOSE = 255
_CHUNK = 32 * 1024
_MOST_SAID = 4096
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a command ended and what it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _Outcome(msgspec.Struct):
    status: str = ""
    message: str = ""
    details: _Details = msgspec.field(default_factory=_Details)


async def run_command(socket: WebSocket, *, stdin: bytes | None) -> ExecResult:
    """Feed a command its input, collect what it writes, and wait for its end."""
    if stdin is not None:
        await _feed(socket, stdin)
    written: dict[int, list[bytes]] = {_STDOUT: [], _STDERR: [], _RESULT: []}
    async for message in socket:
        if message.type is aiohttp.WSMsgType.BINARY and message.data and message.data[0] in written:
            written[message.data[0]].append(message.data[1:])
    if not written[_RESULT]:
        raise StreamError("the connection was cut before the command ended")
    return ExecResult(
        exit_code=_exit_code(b"".join(written[_RESULT])),
        stdout=b"".join(written[_STDOUT]),
        stderr=b"".join(written[_STDERR]),
    )


async def stream_command(socket: WebSocket, stdin: AsyncIterator[bytes] | None) -> AsyncGenerator[bytes]:
    """Return what a command writes as it comes; raises CommandError, with its last words, if it fails.

    No more is read than is taken: a command that writes faster than that waits.
    """
    feeding = asyncio.create_task(_pour(socket, stdin)) if stdin is not None else None
    said, result = b"", b""
    try:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == _STDOUT and data:
                yield data
            elif channel == _STDERR:
                said = (said + data)[-_MOST_SAID:]
            elif channel == _RESULT:
                result += data
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
    if not result:
        raise StreamError("the connection was cut before the command ended")
    if code := _exit_code(result):
        raise CommandError(code, said.decode(errors="replace"))


async def converse(socket: WebSocket, console: Console, *, terminal: bool) -> int:
    """Carry what is typed to a command and what it writes back, as it comes; return its exit code."""
    helpers = [asyncio.create_task(_type(socket, console))]
    if terminal:
        helpers.append(asyncio.create_task(_resize(socket, console)))
    result = b""
    try:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel in (_STDOUT, _STDERR) and data:
                await console.write(data, error=channel == _STDERR)
            elif channel == _RESULT:
                result += data
    finally:
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
    if not result:
        raise StreamError("the connection was cut before the command ended")
    return _exit_code(result)


async def _type(socket: WebSocket, console: Console) -> None:
    while typed := await console.read():
        await socket.send_bytes(bytes([_STDIN]) + typed)
    if socket.protocol == EXEC_PROTOCOLS[0]:  # an older server has no word for the end of the input
        await socket.send_bytes(bytes([_CLOSE, _STDIN]))


async def _resize(socket: WebSocket, console: Console) -> None:
    while True:
        width, height = await console.size()
        await socket.send_bytes(bytes([_RESIZE]) + msgspec.json.encode({"Width": width, "Height": height}))


async def _pour(socket: WebSocket, stdin: AsyncIterator[bytes]) -> None:
    if socket.protocol != EXEC_PROTOCOLS[0]:
        raise StreamError("this server cannot end a command's input; it is older than Kubernetes 1.30")
    async for chunk in stdin:
        for start in range(0, len(chunk), _CHUNK):
            await socket.send_bytes(bytes([_STDIN]) + chunk[start : start + _CHUNK])
    await socket.send_bytes(bytes([_CLOSE, _STDIN]))


async def _feed(socket: WebSocket, stdin: bytes) -> None:
    if socket.protocol != EXEC_PROTOCOLS[0]:
        raise StreamError("this server cannot end a command's input; it is older than Kubernetes 1.30")
    for start in range(0, len(stdin), _CHUNK):
        await socket.send_bytes(bytes([_STDIN]) + stdin[start : start + _CHUNK])
    await socket.send_bytes(bytes([_CLOSE, _STDIN]))


def _exit_code(status: bytes) -> int:
    """Read the exit code from the status that ends a command; raises if it never ran."""
    outcome = msgspec.json.decode(status, type=_Outcome)
    if outcome.status == "Success":
        return 0
    for cause in outcome.details.causes:
        if cause.reason == "ExitCode":
            return int(cause.message)
    raise StreamError(outcome.message or "the command could not be run")


OpenSocket = Callable[[], AbstractAsyncContextManager[WebSocket]]


@asynccontextmanager
async def listen(open_socket: OpenSocket, *, host: str, port: int) -> AsyncIterator[int]:
    """Listen on this machine and carry every connection to the pod over a web socket of its own; yields the port."""
    carrying: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        carrying.add(task)
        try:
            async with open_socket() as socket:
                await _carry(socket, reader, writer)
        except (KubeError, OSError) as error:
            _log.warning("forwarded connection ended: %s", error)
        finally:
            carrying.discard(task)
            writer.close()
            with contextlib.suppress(OSError):  # the other side may be gone already; there is nobody left to tell
                await writer.wait_closed()

    server = await asyncio.start_server(accept, host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(carrying):
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)
        await server.wait_closed()


async def _carry(socket: WebSocket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes both ways until the pod's side ends, or ours does and its answer has been read."""
    outward = asyncio.create_task(_outward(socket, reader))
    try:
        await _inward(socket, writer)
    finally:
        outward.cancel()
        await asyncio.gather(outward, return_exceptions=True)


async def _outward(socket: WebSocket, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(_CHUNK):
        await socket.send_bytes(b"\x00" + data)
    # The protocol cannot half-close, so the end of our side ends the connection.
    await socket.close()


async def _inward(socket: WebSocket, writer: asyncio.StreamWriter) -> None:
    greeted = set()
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel not in greeted:
            greeted.add(channel)  # the first message of each channel repeats the port number
            continue
        if channel == 1:
            raise StreamError(data.decode(errors="replace"))
        writer.write(data)
        await writer.drain()
