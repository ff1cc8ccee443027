"""The Kubernetes application on a loopback port of its own, with a context that a test can look into."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from gangline.api.kubernetes import make_kubernetes_app
from gangline.api.kubernetes.endpoint import Endpoint, open_endpoint
from tests.operations.fakes import Office

TOKEN = "open-sesame"


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "code")


@pytest.fixture
async def address(office: Office, tmp_path: Path) -> AsyncIterator[str]:
    context = replace(office.context(), object_directory=tmp_path / "objects")
    runner = web.AppRunner(make_kubernetes_app(lambda request: context, token=TOKEN), shutdown_timeout=1.0)
    await runner.setup()
    endpoint = await open_endpoint(runner, Endpoint(token=TOKEN, port=None), tmp_path / "door.json", wanted_port=None)
    yield f"http://127.0.0.1:{endpoint.port}"
    await runner.cleanup()


@pytest.fixture
async def session(address: str) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(address, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        yield client
