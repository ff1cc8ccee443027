"""The pages over a store in memory: a private service's on a real port, and a team's."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gangline.compose.dashboard import PrivateDashboard
from gangline.model import Tenant
from tests.operations.fakes import Office


class Visitor:
    """A browser without a screen."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session, self.base = session, base

    async def get(self, path: str, **options: object) -> tuple[int, str]:
        async with self.session.get(f"{self.base}{path}", **options) as answer:  # type: ignore[arg-type]
            return answer.status, await answer.text()

    async def post(self, path: str, data: dict[str, str], **options: object) -> tuple[int, str]:
        options.setdefault("allow_redirects", False)
        async with self.session.post(f"{self.base}{path}", data=data, **options) as answer:  # type: ignore[arg-type]
            return answer.status, answer.headers.get("Location", "") or await answer.text()

    async def csrf(self, path: str = "/dashboard/tenants/default/jobs") -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', (await self.get(path))[1])
        assert found
        return found[1]


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "code")


@pytest.fixture
async def dashboard(office: Office) -> AsyncIterator[PrivateDashboard]:
    made = PrivateDashboard(
        lambda request: office.context(),
        clock=office.clock,
        owner=lambda: "ada",
        home=Tenant("default"),
        told=(("nodes", "4", "file"), ("database", "<none>", "default")),
    )
    yield made
    await made.close()


@pytest.fixture
async def link(dashboard: PrivateDashboard) -> str:
    return (await dashboard.link(None, 0)).address  # type: ignore[arg-type]  # only a team's service looks at the request


@pytest.fixture
async def outsider(link: str) -> AsyncIterator[Visitor]:
    """Somebody who can reach the port and has not opened the link."""
    jar = aiohttp.CookieJar(unsafe=True)  # it keeps cookies of an address, as browsers do
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        yield Visitor(session, link.partition("/dashboard/")[0])


@pytest.fixture
async def owner(outsider: Visitor, link: str) -> Visitor:
    """The same after opening it."""
    status, _ = await outsider.get(link.removeprefix(outsider.base))
    assert status == 200
    return outsider
