"""Clients that mean harm or are broken, against a whole service on its port: they are refused, others are served.

The service runs in this process, so that what is minutes long in life can be shortened.
"""

import asyncio
import io
import json
import logging
import os
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from gangline.api import bodies
from gangline.compose import local
from gangline.compose.local import Service
from gangline.compose.team import connections
from gangline.compose.team.listening import Listening
from gangline.settings import Settings

JOBS = "/api/v1/tenants/default/jobs"
LONG_SECONDS = 60.0
SHORT = 1.0
MIB = 1 << 20


class Served:
    """A service on a port, and somebody who may use it."""

    def __init__(self, port: int, token: str, home: Path, *, tls: bool) -> None:
        self.port, self.token, self.home, self.tls = port, token, home, tls

    @property
    def address(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def session(self) -> aiohttp.ClientSession:
        """Somebody else's client."""
        connector = aiohttp.TCPConnector(ssl=False)  # the certificate is its own
        return aiohttp.ClientSession(self.address, headers=self.headers, connector=connector)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def head(self, method: str, path: str, *more: str) -> bytes:
        lines = (f"{method} {path} HTTP/1.1", "Host: team", f"Authorization: Bearer {self.token}", *more)
        return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"

    async def connect(self, *, small: bool = False) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect; one that takes little at a time has nearly no buffer."""
        plain = socket.socket()
        plain.setblocking(False)
        if small:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self.port))
        context = None
        if self.tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return await asyncio.open_connection(
            sock=plain, limit=4096, ssl=context, server_hostname="team" if self.tls else None
        )

    async def is_well(self) -> None:
        """Somebody else is served, at once."""
        async with (
            self.session() as session,
            session.get("/api/v1/myself", timeout=aiohttp.ClientTimeout(total=20)) as answer,
        ):
            assert answer.status == 200


@asynccontextmanager
async def serving(*, tls: bool = False, **settings: str) -> AsyncIterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="tb") as folder:
        home = Path(folder)
        environment = {
            "HOME": folder,
            "PATH": os.environ["PATH"],
            "GANGLINE_HOME": str(home / "d"),
            "GANGLINE_RUNTIME_DIRECTORY": str(home / "r"),
            "GANGLINE_SYSTEM_USERS": "none",
            **settings,
        }
        service = Service(Settings.load(environment), Listening(host="127.0.0.1", port=port, plain=not tls))
        ready, stop = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(service.run(ready=ready.set, stop=stop))
        try:
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait({running, waiting}, timeout=LONG_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            assert ready.is_set(), running
            connector = aiohttp.UnixConnector(str(home / "r" / "service.sock"))
            async with aiohttp.ClientSession("http://own", connector=connector) as owner:
                body = {"name": "a", "role": "member", "seconds": 3600.0}
                async with owner.post("/api/v1/tenants/default/tokens", json=body) as answer:
                    assert answer.status == 201, await answer.text()
                    token = (await answer.json())["text"]
            yield Served(port, token, home, tls=tls)
        finally:
            stop.set()
            await asyncio.wait_for(running, LONG_SECONDS)


async def _ended(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the service hangs up."""
    got = b""
    async with asyncio.timeout(LONG_SECONDS):
        try:
            while chunk := await reader.read(4096):
                got += chunk
        except ConnectionError:
            pass
    return got


async def test_bodies_that_break_off_or_are_no_document_or_too_large_are_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(GANGLINE_UPLOAD_LIMIT_MIB="2") as served:
        whole = json.dumps({"metadata": {"name": "tour"}, "spec": {"command": ["true"]}}).encode()
        for body in (
            b"Content-Length: %d\r\n\r\n" % len(whole) + whole[:-5],
            b"Transfer-Encoding: chunked\r\n\r\n40\r\n{",
            b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{",
        ):
            reader, writer = await served.connect()
            writer.write(served.head("POST", f"{JOBS}?id=j1")[:-2] + body)
            writer.write_eof()
            assert b" 201 " not in await _ended(reader)
            writer.close()
        async with served.session() as session:
            for wrong in (
                b"",
                b"{",
                b"[]",
                b"null",
                b"\xff\xfe",
                b'{"metadata": 5}',
                b"[" * 100_000,
                b'{"spec": {"a": 1}}',
            ):
                async with session.post(f"{JOBS}?id=j1", data=wrong) as answer:
                    assert 400 <= answer.status < 500, (wrong[:20], answer.status)
                    assert answer.content_type == "application/problem+json"
            async with session.post(f"{JOBS}?id=j1", data=io.BytesIO(b" " * (9 * MIB))) as answer:
                assert answer.status == 413
            async with session.get(JOBS) as answer:
                assert (await answer.json())["jobs"] == []  # none of it was taken for a job
        await served.is_well()
    assert not _faults(caplog)


@pytest.mark.parametrize("chunked", [False, True], ids=["as it says itself", "as it turns out"])
async def test_a_gigabyte_is_not_taken_in(chunked: bool) -> None:
    async with serving(GANGLINE_UPLOAD_LIMIT_MIB="4") as served:
        for method, path in (("PUT", "/api/v1/tenants/default/models/digits/files"), ("POST", f"{JOBS}?id=j1")):
            reader, writer = await served.connect()
            how = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {1 << 30}"
            writer.write(served.head(method, path, how))
            sent, chunk = 0, (b"100000\r\n" if chunked else b"") + bytes(MIB) + (b"\r\n" if chunked else b"")
            answer = asyncio.create_task(reader.readline())
            async with asyncio.timeout(LONG_SECONDS):
                try:
                    while sent < 1 << 30 and not answer.done():
                        writer.write(chunk)
                        await writer.drain()
                        sent += MIB
                except ConnectionError:
                    pass
                with_status = await asyncio.gather(answer, return_exceptions=True)
            assert sent < 64 * MIB
            assert b" 2" not in (with_status[0] if isinstance(with_status[0], bytes) else b"")
            writer.close()
        kept = sum(file.stat().st_size for file in (served.home / "d").rglob("*") if file.is_file())
        assert kept < 32 * MIB
        await served.is_well()


async def test_heads_that_come_slowly_or_never_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SILENT_SECONDS", SHORT)
    monkeypatch.setattr(connections, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(local, "KEEP_ALIVE_SECONDS", 2 * SHORT)
    async with serving() as served:
        silent, dripping, second = [await served.connect() for _ in range(3)]
        second[1].write(served.head("GET", "/api/v1/myself"))
        async with asyncio.timeout(LONG_SECONDS):
            assert b" 200 " in await second[0].readline()

        async def drip(writer: asyncio.StreamWriter) -> None:
            """Send a head byte by byte, as slowly as never ends."""
            try:
                for byte in b"GET / HTTP/1.1\r\nHost: team\r\n" + b"X: y\r\n" * 10_000:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0.05)
            except ConnectionError:
                pass

        drips = [asyncio.create_task(drip(each[1])) for each in (dripping, second)]
        began = time.monotonic()
        await asyncio.gather(*(_ended(each[0]) for each in (silent, dripping, second)))
        assert time.monotonic() - began < LONG_SECONDS / 2
        for task in drips:
            task.cancel()
        await asyncio.gather(*drips, return_exceptions=True)
        for _, writer in (silent, dripping, second):
            writer.close()
        await served.is_well()


async def test_a_body_that_comes_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "STALL_SECONDS", SHORT)
    async with serving() as served:
        reader, writer = await served.connect()
        writer.write(served.head("POST", f"{JOBS}?id=j1", "Content-Length: 100000"))
        answer = asyncio.create_task(reader.readline())
        async with asyncio.timeout(LONG_SECONDS):
            while not answer.done():
                writer.write(b" ")
                await asyncio.sleep(0.05)
        assert b" 408 " in await answer
        writer.close()
        await served.is_well()


async def test_bombs_of_headers_are_refused() -> None:
    async with serving() as served:
        for head in (
            b"X: y\r\n" * 100_000,
            b"X: " + b"y" * 8 * MIB,
            b"".join(b"X%d: y\r\n" % n for n in range(50_000)),
        ):
            reader, writer = await served.connect()
            writer.write(b"GET / HTTP/1.1\r\n" + head + b"\r\n\r\n")
            answer = await _ended(reader)
            assert not answer or b" 400 " in answer.partition(b"\r\n")[0]
            writer.close()
        await served.is_well()


UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {'a' * 22}==")
STREAMS = {
    "log of the REST interface": (f"{JOBS}/talker/logs?follow=true", ()),
    "log of FfDL as text": ("/v1/models/talker/logs?version=2017-02-13&follow=true", ()),
    "log of FfDL over a WebSocket": ("/v1/models/talker/logs?version=2017-02-13&follow=true", UPGRADE),
    "files": (f"{JOBS}/talker/content?path=results", ()),
}
TALKER = """
import os, time
with open(os.path.join(os.environ["RESULT_DIR"], "big"), "wb") as file:
    file.truncate(30 << 20)
for _ in range(200):
    print(("x" * 999 + chr(10)) * 100, flush=True)
print("done", flush=True)
time.sleep(600)
"""
"""Leaves more than the buffers of the kernel hold, as a file and as output, and goes on."""


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "encrypted"])
async def test_clients_that_never_read_are_ended_and_hold_up_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tls: bool
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", SHORT)
    monkeypatch.setattr(connections, "_LOOK_SECONDS", 0.1)
    async with (
        serving(tls=tls) as served,
        served.session() as session,
        _talking(session),
    ):
        streams = {name: await _stream(served, *where) for name, where in STREAMS.items()}
        await served.is_well()
        await _hung_up(streams.values())
        await served.is_well()
        for name, (reader, writer) in streams.items():
            assert len(await _ended(reader)) < 19 * MIB, name  # it was cut, not read to its end
            writer.close()
    assert not _faults(caplog)


@asynccontextmanager
async def _talking(session: aiohttp.ClientSession) -> AsyncIterator[None]:
    """A job that has written all it has to say, and goes with the test."""
    job = {
        "metadata": {"name": "talker", "labels": {"ffdl": "talker"}},
        "spec": {"command": [sys.executable, "-c", TALKER], "resources": {"cpu": "100m", "memory": "64Mi"}},
    }
    async with session.post(f"{JOBS}?id=talker", json=job) as answer:
        assert answer.status == 201, await answer.text()
    try:
        await _said(session, "done")
        yield
    finally:
        async with session.delete(f"{JOBS}/talker") as answer:
            assert answer.status == 200
        async with asyncio.timeout(LONG_SECONDS):
            while answer.status != 404:
                async with session.get(f"{JOBS}/talker") as answer:
                    await asyncio.sleep(0.1)


def _faults(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the service has put into its log as a fault of its own."""
    return [each for each in caplog.records if each.levelno >= logging.ERROR and each.name.startswith("gangline")]


async def _said(session: aiohttp.ClientSession, word: str) -> None:
    """Wait until a job has written a line."""
    async with asyncio.timeout(LONG_SECONDS):
        while True:
            async with session.get(f"{JOBS}/talker/logs?tail=1") as answer:
                if word in await answer.text():
                    return
            await asyncio.sleep(0.2)


async def _stream(
    served: Served, path: str, more: tuple[str, ...]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask for a stream, and read no more than its first line."""
    reader, writer = await served.connect(small=True)
    writer.write(served.head("GET", path, *more))
    async with asyncio.timeout(LONG_SECONDS):
        line = await reader.readline()
    assert b" 200 " in line or b" 101 " in line, (path, line, await reader.read(1000))
    return reader, writer


async def _hung_up(streams: Iterable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    """Wait until the service has ended every stream, while none of it is read."""
    ports = {writer.get_extra_info("sockname")[1] for _, writer in streams}
    async with asyncio.timeout(LONG_SECONDS):
        while True:
            if not ports & set(_established()):
                return
            await asyncio.sleep(0.1)


def _established() -> Iterator[int]:
    """The ports of the other ends of connections that this process has accepted."""
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        _, _, remote_end, state, *_ = line.split()
        if state == "01":
            yield int(remote_end.rpartition(":")[2], 16)
