"""The routers of a cluster as one: told what to do, found again, and added up."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from gangline.compose.cluster_router import ClusterRouter
from gangline.engines.kubernetes.names import ROUTER
from gangline.kube import PODS, KubeClient
from gangline.model.routing import HoldRules, RevisionRoute, RouterStatistics, RoutingTable, ServiceRoute
from gangline.router.server import Router, RouterSettings
from tests.apiserver import ApiServer

HOSTS = ("127.0.0.2", "127.0.0.3")


def table(version: int) -> RoutingTable:
    revision = RevisionRoute(name="1", weight=100)
    return RoutingTable(
        version=version, services=(ServiceRoute(name="digits", revisions=(revision,), hold=HoldRules(seconds=0)),)
    )


class Cluster:
    """A cluster with two routers, which are processes of this loop."""

    def __init__(self, client: KubeClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        with socket.socket() as probe:
            probe.bind((HOSTS[0], 0))
            self.port = int(probe.getsockname()[1])
        self.listening: dict[str, int] = {}

    def controller(self) -> ClusterRouter:
        return ClusterRouter(self.client, namespace="default", control_port=self.port)

    async def add_pods(self) -> None:
        for host in HOSTS:
            name = f"router-{host.rpartition('.')[2]}"
            spec = {"containers": [{"name": "main", "image": "i"}]}
            await self.client.create(PODS, {"metadata": {"name": name, "labels": ROUTER}, "spec": spec})
            status = {"phase": "Running", "podIP": host}
            await self.client.patch(PODS, name, {"status": status}, subresource="status")

    @asynccontextmanager
    async def router(self, host: str, token: str) -> AsyncIterator[int]:
        folder = self.folder / host
        folder.mkdir(exist_ok=True)
        (folder / "token").write_text(token)
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        router = Router(
            RouterSettings(
                table=folder / "table.json",
                control=folder / "c",
                listen=(host, 0),
                metrics=(host, self.port),
                token=folder / "token",
            )
        )
        running = asyncio.create_task(router.run(started.set_result))
        try:
            yield int((await started).rpartition(":")[2])
        finally:
            router.stop()
            await running


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with ApiServer.running() as (_, access), KubeClient(access) as client:
        yield Cluster(client, tmp_path)


async def ask(host: str, port: int) -> int:
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/services/digits/") as answer:
        return answer.status


def requests(found: RouterStatistics | None) -> int:
    assert found is not None
    return sum(each.requests for each in found.revisions)


async def test_every_router_is_told_and_what_they_count_is_added_up(cluster: Cluster) -> None:
    first = cluster.controller()
    await first.prepare()
    await first.prepare()
    assert await first.known() == RoutingTable()
    await cluster.add_pods()
    token = first._token
    async with cluster.router(HOSTS[0], token) as one:
        async with cluster.router(HOSTS[1], token) as two:
            await first.tell(table(1))
            assert [await ask(HOSTS[0], one), await ask(HOSTS[1], two)] == [503, 503]
            found = await first.statistics(0.1)
            assert found is not None
            assert (found.version, requests(found)) == (1, 2)
        # One is gone: sums do not fall, and the other one is not waited for.
        assert requests(await first.statistics(0.1)) == 2
        async with cluster.router(HOSTS[1], token) as two:
            assert await ask(HOSTS[1], two) == 503
            assert requests(await first.statistics(0.1)) == 3
    await first.close()


async def test_next_controller_knows_the_table_and_a_router_that_missed_it_is_told_again(cluster: Cluster) -> None:
    first = cluster.controller()
    await first.prepare()
    await cluster.add_pods()
    await first.tell(table(7))  # nobody listens
    await first.close()
    second = cluster.controller()
    assert await second.known() == table(7)
    await second.tell(await second.known())
    async with cluster.router(HOSTS[0], second._token):
        found = await second.statistics(0.1)
        assert found is not None
        assert found.version == 7
    await second.close()


async def test_without_any_router_nothing_is_known(cluster: Cluster) -> None:
    router = cluster.controller()
    await router.tell(table(1))
    assert await router.statistics(0.01) is None
    await router.close()
