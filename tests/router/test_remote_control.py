"""A router whose control plane is on another machine: it is sent tables by whoever knows the token."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from gangline.model.routing import RoutingTable, ServiceRoute, decode_statistics, encode_table
from gangline.router.server import Router, RouterSettings

TOKEN = "word of honour"


class Remote:
    """A router and somebody who asks it from elsewhere."""

    def __init__(self, folder: Path, port: int) -> None:
        (folder / "token").write_text(f"{TOKEN}\n")
        self.settings = RouterSettings(
            table=folder / "table.json",
            control=folder / "c",
            listen=("127.0.0.1", 0),
            metrics=("127.0.0.1", port),
            token=folder / "token",
            first_table=folder / "first.json",
        )
        self.base = f"http://127.0.0.1:{port}"

    async def __aenter__(self) -> "Remote":
        started = asyncio.get_running_loop().create_future()
        self.router = Router(self.settings)
        self._running = asyncio.create_task(self.router.run(started.set_result))
        await started
        return self

    async def __aexit__(self, *_: object) -> None:
        self.router.stop()
        await self._running

    async def ask(self, method: str, path: str, body: bytes = b"", token: str = TOKEN) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.base + path, data=body, headers=headers) as answer,
        ):
            return answer.status, await answer.read()


@pytest.fixture
def remote(tmp_path: Path, unused_tcp_port: int) -> Remote:
    return Remote(tmp_path, unused_tcp_port)


def table(version: int) -> bytes:
    return encode_table(RoutingTable(version=version, services=(ServiceRoute(name="digits"),)))


async def test_table_that_was_sent_is_in_force_and_kept(remote: Remote) -> None:
    async with remote:
        status, answer = await remote.ask("PUT", "/table", table(3))
        assert (status, decode_statistics(answer).version) == (200, 3)
        first_life = decode_statistics(answer).life
    async with remote:
        found = decode_statistics((await remote.ask("GET", "/statistics"))[1])
    assert found.version == 3
    assert found.life != first_life


async def test_nobody_without_the_token_is_told_or_believed(remote: Remote) -> None:
    async with remote:
        assert (await remote.ask("PUT", "/table", table(3), token="guess"))[0] == 401
        assert (await remote.ask("GET", "/statistics", token=""))[0] == 401
        assert (await remote.ask("POST", "/reload", token=""))[0] == 401
        assert (await remote.ask("GET", "/healthz", token=""))[0] == 200
        assert b"table_version 0" in (await remote.ask("GET", "/metrics", token=""))[1]


async def test_table_that_cannot_be_read_changes_nothing(remote: Remote) -> None:
    async with remote:
        await remote.ask("PUT", "/table", table(3))
        assert (await remote.ask("PUT", "/table", b"{"))[0] == 409
        assert decode_statistics((await remote.ask("GET", "/statistics"))[1]).version == 3
    assert remote.settings.table.read_bytes() == table(3)


@pytest.mark.parametrize(
    ("own", "first", "want_version"),
    [
        pytest.param(None, 4, 4, id="a new router begins with the first table"),
        pytest.param(5, 4, 5, id="its own is newer"),
        pytest.param(3, 4, 4, id="its own is older"),
        pytest.param(None, None, 0, id="neither"),
    ],
)
async def test_router_begins_with_the_newest_table(
    remote: Remote, own: int | None, first: int | None, want_version: int
) -> None:
    if own is not None:
        remote.settings.table.write_bytes(table(own))
    if first is not None:
        assert remote.settings.first_table is not None
        remote.settings.first_table.write_bytes(table(first))
    async with remote:
        assert decode_statistics((await remote.ask("GET", "/statistics"))[1]).version == want_version
