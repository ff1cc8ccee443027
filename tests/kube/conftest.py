from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestServer

from gangline.kube import ClusterAccess, KubeClient, RetryPolicy

from .scripted_server import ScriptedServer

IMPATIENT = RetryPolicy(attempts=4, first_seconds=0.0, longest_seconds=0.0)


@pytest.fixture
async def server() -> AsyncIterator[tuple[ScriptedServer, str]]:
    scripted = ScriptedServer()
    async with TestServer(scripted.application()) as running:
        yield scripted, str(running.make_url("")).rstrip("/")


@pytest.fixture
async def script(server: tuple[ScriptedServer, str]) -> ScriptedServer:
    return server[0]


@pytest.fixture
async def client(server: tuple[ScriptedServer, str]) -> AsyncIterator[KubeClient]:
    async with KubeClient(ClusterAccess(server=server[1]), retries=IMPATIENT) as client:
        yield client
