"""The API server in memory does what Gangline counts on; tests/integration/kubernetes asks the same of a real one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gangline.engines.kubernetes import install
from gangline.kube import CONFIG_MAPS, NAMESPACES, PODS, Applied, Deleted, GoneError, KubeClient, Synced
from gangline.storage.kubernetes import DEFINITIONS
from tests.apiserver import ApiServer
from tests.kube.server_suite import ServerSuite, config_map, pod


@pytest.fixture
async def served() -> AsyncIterator[tuple[ApiServer, KubeClient]]:
    async with ApiServer.running() as (server, access), KubeClient(access) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "own"}})
        client.namespace = "own"
        yield server, client


class TestMemoryServer(ServerSuite):
    @pytest.fixture
    async def client(self, served: tuple[ApiServer, KubeClient]) -> KubeClient:
        await install(served[1], DEFINITIONS, print)
        return served[1]


async def test_a_page_of_a_version_that_is_forgotten_is_gone(served: tuple[ApiServer, KubeClient]) -> None:
    server, client = served
    for name in ("a", "b", "c"):
        await client.create(CONFIG_MAPS, config_map(name))
    path = CONFIG_MAPS.path(namespace="own")
    page = CONFIG_MAPS.decode_list(await client.raw(path, query={"limit": "2"}))
    server.compact()
    with pytest.raises(GoneError):
        await client.raw(path, query={"limit": "2", "continue": page.metadata.continue_token})


async def test_a_watch_that_fell_behind_begins_anew_and_nothing_is_lost(
    served: tuple[ApiServer, KubeClient],
) -> None:
    server, client = served
    for name in ("a", "b"):
        await client.create(CONFIG_MAPS, config_map(name))
    async with asyncio.timeout(30), aclosing(client.reflect(CONFIG_MAPS, namespace="own")) as changes:
        assert [type(await anext(changes)) for _ in range(3)] == [Applied, Applied, Synced]
        # The watch begins only with the next step, from the version of the list: by then that is forgotten.
        await client.delete(CONFIG_MAPS, "a")
        await client.create(CONFIG_MAPS, config_map("c"))
        server.compact()
        told = [await anext(changes) for _ in range(3)]
    assert [type(change) for change in told] == [Deleted, Applied, Synced]
    assert [change.object.metadata.name for change in told[:2]] == ["a", "c"]


async def test_what_pods_run_ends_with_the_server() -> None:
    async with ApiServer.running() as (_, access), KubeClient(access) as client:
        await client.create(PODS, pod("a", "echo $$; sleep 1000", nodeName="node-0"))
        async with aclosing(client.reflect(PODS)) as changes:
            async for change in changes:
                if isinstance(change, Applied) and change.object.status.phase == "Running":
                    break
        async with aclosing(client.logs("a", follow=True)) as lines:
            process = (await anext(lines)).decode()
        assert runs(process)
    assert not runs(process)


def runs(process: str) -> bool:
    return Path("/proc", process).exists()
