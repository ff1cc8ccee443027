"""Install, least privilege, leader election and uninstall on a real cluster."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gangline.compose import SystemClock
from gangline.compose.leader_store import LeaderStore
from gangline.engines.kubernetes import Installation, Leadership, install, installation_objects, uninstall
from gangline.engines.kubernetes.foreign.groups import GROUP_RESOURCES, VOLCANO_GROUP, GroupKind
from gangline.engines.kubernetes.installing.objects import CONTROLLER_NAME
from gangline.kube import InvalidError, KubeClient, NotFoundError, load_access
from gangline.model import Phase
from gangline.storage.kubernetes import DEFINITIONS, KubernetesStore
from gangline.storage.kubernetes.definitions.native import JOBS
from gangline.storage.kubernetes.records.custom_resources import FINALIZER
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.foreign import ForeignWorld, define, group_definition
from tests.integration.kubernetes.inventory import everything
from tests.integration.kubernetes.world import SERVE, World, eventually, shell
from tools.cluster.pytest_plugin import ClusterUnderTest

# Nobody else may use the custom resources while they are installed and removed. The name of this file puts it last: the
# API server may serve a watch that begins just after a removal from what it still remembers.
pytestmark = pytest.mark.alone

OBJECTS = installation_objects(Installation(image="gangline.local/python:1", replicas=0, definitions=DEFINITIONS))
ACCOUNT = f"system:serviceaccount:gangline-system:{CONTROLLER_NAME}"


@pytest.fixture
async def installed(kubernetes_client: KubeClient) -> AsyncIterator[None]:
    await install(kubernetes_client, OBJECTS, print)
    yield
    await uninstall(kubernetes_client, OBJECTS, print)


async def test_uninstall_leaves_nothing(kubernetes_client: KubeClient, kubernetes_namespace: str) -> None:
    await uninstall(kubernetes_client, OBJECTS, print)
    before = await everything(kubernetes_client)
    await install(kubernetes_client, OBJECTS, print)
    await install(kubernetes_client, OBJECTS, print)
    world = World(
        kubernetes_client, kubernetes_namespace, KubernetesStore(kubernetes_client, namespace=kubernetes_namespace)
    )
    job_id = await world.submit(shell(SERVE, replicas=2))
    await world.phase(job_id, Phase.PROCESSING)
    await world.kill()
    await world.store.close()
    # What earlier tests left may still be going away, so the sets are compared and not their sizes.
    assert len(await everything(kubernetes_client) - before) > len(OBJECTS)
    await uninstall(kubernetes_client, OBJECTS, print)

    async def all_gone() -> bool:
        return await everything(kubernetes_client) <= before

    await eventually(all_gone)


async def test_what_was_installed_a_moment_ago_can_be_removed(kubernetes_client: KubeClient) -> None:
    for _ in range(4):  # the API server is still preparing the storage of the kinds when they are deleted
        await install(kubernetes_client, OBJECTS, print)
        await uninstall(kubernetes_client, OBJECTS, print)


async def test_uninstall_does_not_wait_for_what_a_controller_on_its_way_out_still_writes(
    kubernetes_client: KubeClient, kubernetes_namespace: str
) -> None:
    await install(kubernetes_client, OBJECTS, print)
    store = KubernetesStore(kubernetes_client, namespace=kubernetes_namespace)
    world = World(kubernetes_client, kubernetes_namespace, store)
    name = (await store.get(await world.submit(shell(SERVE)))).name
    await world.kill()
    await store.close()

    async def hold() -> None:
        patch = {"metadata": {"finalizers": [FINALIZER]}}
        while True:
            try:
                await kubernetes_client.patch(JOBS, name, patch, namespace=kubernetes_namespace)
            except (NotFoundError, InvalidError):
                return

    late = asyncio.create_task(hold())
    await asyncio.sleep(0.1)
    await uninstall(kubernetes_client, OBJECTS, print)
    await late


@pytest.mark.usefixtures("installed")
async def test_the_controllers_own_role_is_enough(
    kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str
) -> None:
    access = replace(load_access(path=kubernetes_cluster.kubeconfig), impersonation=(("Impersonate-User", ACCOUNT),))
    async with KubeClient(access) as client:
        world = World(client, kubernetes_namespace, KubernetesStore(client))
        job_id = await world.submit(shell("echo done", "chief"), shell(SERVE, "ps"))
        await world.phase(job_id, Phase.COMPLETED)
        job = await world.until(job_id, lambda job: not job.holding)
        assert job.exit_code == 0
        await world.delete(job_id)
        await world.kill()
        await world.store.close()


@pytest.mark.usefixtures("installed")
async def test_the_controllers_own_role_is_enough_for_pods_of_others(
    kubernetes_cluster: ClusterUnderTest, kubernetes_client: KubeClient, kubernetes_namespace: str
) -> None:
    resource = GROUP_RESOURCES[GroupKind.VOLCANO]
    await define(kubernetes_client, group_definition(resource.group, resource.version, status=False), resource)
    group = {"metadata": {"name": "team"}, "spec": {"minMember": 2}}
    await kubernetes_client.create(resource, group, namespace=kubernetes_namespace)
    access = replace(load_access(path=kubernetes_cluster.kubeconfig), impersonation=(("Impersonate-User", ACCOUNT),))
    async with KubeClient(access) as client:
        world = ForeignWorld(client, kubernetes_namespace, LeaderStore(client))
        await world.make_pod("one", annotations={VOLCANO_GROUP: "team"})
        await world.until_told("one", "FailedScheduling", "1 of the 2 pods")
        await world.make_pod("two", annotations={VOLCANO_GROUP: "team"})
        await world.make_pod("alone")
        await world.until_bound(3)

        async def running() -> bool:
            found = await kubernetes_client.get(resource, "team", namespace=kubernetes_namespace)
            return found.status.get("phase") == "Running"

        await eventually(running)
        await world.kill()
        await world.store.close()
        await release_jobs(kubernetes_client, kubernetes_namespace)


@pytest.mark.usefixtures("installed")
async def test_one_leads_and_another_takes_over(kubernetes_client: KubeClient, kubernetes_namespace: str) -> None:
    leading: list[str] = []

    def candidate(name: str) -> "asyncio.Task[None]":
        async def work() -> None:
            leading.append(name)
            await asyncio.Event().wait()

        election = Leadership(kubernetes_client, identity=name, clock=SystemClock(), namespace=kubernetes_namespace)
        return asyncio.create_task(election.lead(work))

    async def until_led_by(name: str) -> None:
        async def led() -> bool:
            return leading[-1:] == [name]

        await eventually(led)

    first = candidate("first")
    await until_led_by("first")
    second = candidate("second")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await until_led_by("second")
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert leading == ["first", "second"]
