"""The REST application on a socket of its own, with a context that a test can look into."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from gangline.api.rest import make_app
from gangline.model import CodeLimits
from tests.operations.fakes import Office


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "code")


@pytest.fixture
async def session(office: Office, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    runner = web.AppRunner(
        make_app(lambda request: office.context(), code_limits=CodeLimits(packed_bytes=1000)), shutdown_timeout=1.0
    )
    await runner.setup()
    path = str(tmp_path / "service.sock")
    await web.UnixSite(runner, path).start()
    async with aiohttp.ClientSession("http://service", connector=aiohttp.UnixConnector(path)) as client:
        yield client
    await runner.cleanup()
