"""Commands within containers: their streams, their ends."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from gangline.kube import KubeClient, StreamError

from .scripted_server import ScriptedServer

EXEC = "/api/v1/namespaces/default/pods/p/exec"
FORWARD = "/api/v1/namespaces/default/pods/p/portforward"
SUCCESS: dict[str, Any] = {"status": "Success"}


def exited(code: int) -> dict[str, Any]:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "message": "exited", "details": {"causes": causes}}


def command(script: ScriptedServer, *messages: bytes, status: dict[str, Any] | None, protocol: str = "v5") -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=[f"{protocol}.channel.k8s.io"])
        await socket.prepare(request)
        if request.query.get("stdin"):
            given = b""
            while (received := await socket.receive_bytes()) != b"\xff\x00":
                given += received[1:]
            await socket.send_bytes(b"\x01" + given.upper())
        for message in messages:
            await socket.send_bytes(message)
        if status is not None:
            await socket.send_bytes(b"\x03" + json.dumps(status).encode())
        await socket.close()
        return socket

    script.handle("GET", EXEC, handle)


async def test_command_streams_are_told_apart(script: ScriptedServer, client: KubeClient) -> None:
    command(script, b"\x01", b"\x01out", b"\x02err", b"\x01put", status=exited(3))
    result = await client.execute("p", ["sh", "-c", "exit 3"], container="c")
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"output", b"err")
    assert script.requests[0].query.getall("command") == ["sh", "-c", "exit 3"]
    assert script.requests[0].query["container"] == "c"


async def test_command_reads_its_input_to_the_end(script: ScriptedServer, client: KubeClient) -> None:
    command(script, status=SUCCESS)
    given = b"abc" * 50_000
    assert (await client.execute("p", ["cat"], stdin=given)).stdout == given.upper()


async def test_input_needs_a_server_that_can_end_it(script: ScriptedServer, client: KubeClient) -> None:
    command(script, status=SUCCESS, protocol="v4")
    assert (await client.execute("p", ["true"])).exit_code == 0
    with pytest.raises(StreamError, match="older"):
        await client.execute("p", ["cat"], stdin=b"x")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(None, "cut before", id="connection lost"),
        pytest.param({"status": "Failure", "message": "no such file"}, "no such file", id="never ran"),
    ],
)
async def test_command_that_did_not_run_is_an_error(
    script: ScriptedServer, client: KubeClient, status: dict[str, Any] | None, message: str
) -> None:
    command(script, b"\x01partial", status=status)
    with pytest.raises(StreamError, match=message):
        await client.execute("p", ["x"])


class Typist:
    """Somebody who types these words at a terminal of this size."""

    def __init__(self, *typed: bytes) -> None:
        self._typed = [*typed, b""]
        self._sizes = [(80, 24)]
        self.shown: list[tuple[bytes, bool]] = []

    async def read(self) -> bytes:
        return self._typed.pop(0)

    async def write(self, data: bytes, *, error: bool) -> None:
        self.shown.append((data, error))

    async def size(self) -> tuple[int, int]:
        if not self._sizes:
            await asyncio.Event().wait()
        return self._sizes.pop()


async def test_a_person_and_a_command_speak_with_each_other(script: ScriptedServer, client: KubeClient) -> None:
    command(script, b"\x02oops", status=exited(7))
    typist = Typist(b"hel", b"lo")
    assert await client.interact("p", ["cat"], typist, container="c", terminal=False) == 7
    assert typist.shown == [(b"HELLO", False), (b"oops", True)]
    assert "tty" not in script.requests[0].query


async def test_a_terminal_has_a_size_and_one_stream(script: ScriptedServer, client: KubeClient) -> None:
    received = []

    async def handle(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
        await socket.prepare(request)
        while len(received) < 3:
            received.append(await socket.receive_bytes())
        await socket.send_bytes(b"\x03" + json.dumps(SUCCESS).encode())
        await socket.close()
        return socket

    script.handle("GET", EXEC, handle)
    assert await client.interact("p", ["sh"], Typist(b"exit\n"), terminal=True) == 0
    assert sorted(received) == [b"\x00exit\n", b'\x04{"Width":80,"Height":24}', b"\xff\x00"]
    query = script.requests[0].query
    assert (query["tty"], query["stdin"], "stderr" in query) == ("true", "true", False)


async def _echo(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
    await socket.prepare(request)
    for channel in (0, 1):
        await socket.send_bytes(bytes([channel]) + (8080).to_bytes(2, "little"))
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            await socket.send_bytes(b"\x00" + message.data[1:].upper())
    return socket


async def test_forwarded_connections_are_carried_both_ways(script: ScriptedServer, client: KubeClient) -> None:
    script.handle("GET", FORWARD, _echo)
    async with asyncio.timeout(60), client.port_forward("p", 8080) as port:
        for text in (b"hello", b"again"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(text)
            assert await reader.readexactly(5) == text.upper()
            writer.close()
            await writer.wait_closed()
    assert script.requests[0].query["ports"] == "8080"
    assert len(script.requests) == 2


async def test_refused_forwarding_closes_the_connection(
    script: ScriptedServer, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    script.refuse("GET", FORWARD, status=404, reason="NotFound")
    async with asyncio.timeout(60), client.port_forward("p", 8080) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    assert "NotFound: no" in caplog.text


async def test_leaving_the_context_ends_open_connections(script: ScriptedServer, client: KubeClient) -> None:
    script.handle("GET", FORWARD, _echo)
    async with asyncio.timeout(60):
        async with client.port_forward("p", 8080) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x")
            await reader.readexactly(1)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
