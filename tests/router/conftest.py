"""A router in the test's own loop, and backends that do as they are told."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from gangline.model.routing import (
    Backend,
    RevisionRoute,
    RevisionStatistics,
    RouterStatistics,
    RoutingTable,
    ServiceRoute,
    decode_statistics,
    encode_table,
)
from gangline.router.server import Router, RouterSettings

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Raw = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Routed:
    """A router under test."""

    def __init__(self, folder: Path) -> None:
        self.table = folder / "table.json"
        self.control = folder / "c"
        self.port = 0
        self.tls_port = 0
        self.version = 0
        self.session = aiohttp.ClientSession()
        self._control = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(self.control)))
        self._closing: list[Callable[[], Awaitable[None]]] = [self.session.close, self._control.close]

    async def start(self, listen_tls: tuple[str, int] | None = None) -> None:
        """Start it."""
        started = asyncio.get_running_loop().create_future()
        self.router = Router(
            RouterSettings(
                table=self.table,
                control=self.control,
                listen=("127.0.0.1", 0),
                listen_tls=listen_tls,
                drain_seconds=5,
            )
        )
        self._running = asyncio.create_task(self.router.run(started.set_result))
        self.port = int((await started).rpartition(":")[2])

    async def stop(self) -> None:
        """End everything."""
        self.router.stop()
        await self._running
        for close in self._closing:
            await close()

    async def route(self, *services: ServiceRoute, table: RoutingTable | None = None) -> RouterStatistics:
        """Put a table in force."""
        self.version += 1
        table = replace(table or RoutingTable(), version=self.version, services=services)
        self.table.write_bytes(encode_table(table))
        return await self._ask("POST", "/reload")

    async def statistics(self, wait: float = 0) -> RouterStatistics:
        """Ask what it does."""
        return await self._ask("GET", f"/statistics?wait={wait}")

    async def revision(self, name: str) -> RevisionStatistics:
        """Ask what one revision does."""
        return next(each for each in (await self.statistics()).revisions if each.revision == name)

    async def until(self, name: str, reached: Callable[[RevisionStatistics], bool]) -> RevisionStatistics:
        """Wait until a revision's statistics say so."""
        async with asyncio.timeout(30):
            while not reached(found := await self.revision(name)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return found

    async def _ask(self, method: str, path: str) -> RouterStatistics:
        async with self._control.request(method, f"http://router{path}") as answer:
            text = await answer.read()
            assert answer.status == 200, text
            return decode_statistics(text)

    async def metrics(self) -> str:
        """Read what Prometheus would."""
        async with self._control.get("http://router/metrics") as answer:
            return await answer.text()

    def url(self, path: str = "/", service: str = "digits") -> str:
        """Name a service by its path."""
        return f"http://127.0.0.1:{self.port}/services/{service}{path}"

    async def get(self, path: str = "/", **headers: str) -> tuple[int, str]:
        """Ask the service."""
        async with self.session.get(self.url(path), headers=headers) as answer:
            return answer.status, await answer.text()

    async def post(self, data: object = b"x") -> tuple[int, str]:
        """Send something to the service."""
        async with self.session.post(self.url(), data=data) as answer:
            return answer.status, await answer.text()

    async def raw(self, data: bytes) -> bytes:
        """Send bytes as they are, and read until the router closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        try:
            async with asyncio.timeout(30):
                return await reader.read()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def backend(self, handler: Handler | str = "one") -> Backend:
        """Start a backend of aiohttp; a text is what it always answers."""
        text = handler if isinstance(handler, str) else ""

        async def constant(_: web.Request) -> web.Response:
            return web.Response(text=text)

        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{path:.*}", constant if isinstance(handler, str) else handler)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._closing.append(runner.cleanup)
        return Backend(address=f"127.0.0.1:{runner.addresses[0][1]}")

    async def raw_backend(self, handler: Raw) -> Backend:
        """Start a backend that says what it likes."""

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await handler(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)

        async def close() -> None:
            server.close()

        self._closing.append(close)
        return Backend(address=f"127.0.0.1:{server.sockets[0].getsockname()[1]}")


def service(*backends: Backend, name: str = "digits", **more: object) -> ServiceRoute:
    """A service of one revision."""
    return ServiceRoute(name=name, revisions=(revision("r1", *backends),), **more)  # type: ignore[arg-type]


def revision(name: str, *backends: Backend, weight: float = 1.0, **more: object) -> RevisionRoute:
    """A revision."""
    return RevisionRoute(name=name, weight=weight, backends=tuple(backends), **more)  # type: ignore[arg-type]


def split(*revisions: RevisionRoute, **more: object) -> ServiceRoute:
    """A service of several revisions."""
    return ServiceRoute(name="digits", revisions=tuple(revisions), **more)  # type: ignore[arg-type]


def gone() -> Backend:
    """An address where nobody listens."""
    return Backend(address="127.0.0.1:1")


async def answers(routed: Routed, count: int, **headers: str) -> Sequence[str]:
    """Ask several times, one after the other."""
    return [(await routed.get(**headers))[1] for _ in range(count)]


@pytest.fixture
async def routed(tmp_path: Path) -> AsyncIterator[Routed]:
    """A router without any service."""
    found = Routed(tmp_path)
    await found.start()
    try:
        yield found
    finally:
        await found.stop()


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
