"""Install, least privilege, leader election and uninstall on a real cluster."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest

from gangline.compose import SystemClock
from gangline.engines.kubernetes import Installation, Leadership, install, installation_objects, uninstall
from gangline.engines.kubernetes.installation import CONTROLLER_NAME
from gangline.kube import InvalidError, KubeClient, load_access
from gangline.model import JobId, Phase
from gangline.storage.kubernetes import DEFINITIONS, JOBS, KubernetesStore
from gangline.testing.cluster.pytest_plugin import ClusterUnderTest
from tests.integration.kubernetes.world import SERVE, World, eventually, shell

# Nobody else may use the custom resources while they are installed and removed.
pytestmark = pytest.mark.xdist_group("kubernetes-installation")

OBJECTS = installation_objects(Installation(image="gangline.local/python:1", replicas=0, definitions=DEFINITIONS))
ACCOUNT = f"system:serviceaccount:gangline-system:{CONTROLLER_NAME}"


async def everything(client: KubeClient) -> set[str]:
    """The paths of all objects that last, of every kind the server knows."""
    found = set()
    for path in await _collections(client):
        answer = msgspec.json.decode(await client.raw(path))
        for item in answer.get("items") or ():
            metadata = item["metadata"]
            found.add(f"{path}/{metadata.get('namespace', '')}/{metadata['name']}")
    return found


async def _collections(client: KubeClient) -> list[str]:
    groups = msgspec.json.decode(await client.raw("/apis"))["groups"]
    roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    paths = []
    for root in roots:
        for kind in msgspec.json.decode(await client.raw(root))["resources"]:
            passing = kind["name"] in ("events", "leases", "endpointslices", "endpoints", "componentstatuses")
            if "/" not in kind["name"] and "list" in kind["verbs"] and not passing:
                paths.append(f"{root}/{kind['name']}")
    return paths


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
    assert len(await everything(kubernetes_client)) > len(before) + len(OBJECTS)
    await uninstall(kubernetes_client, OBJECTS, print)

    async def all_gone() -> bool:
        return await everything(kubernetes_client) <= before

    await eventually(all_gone)


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


@pytest.mark.parametrize("world", ["kubernetes"], indirect=True)
async def test_a_job_applied_and_deleted_by_hand_lives_a_whole_life(world: World) -> None:
    body = {
        "metadata": {"name": "by-hand", "labels": {"team": "vision"}},
        "spec": {
            "image": "gangline.local/busybox:1",
            "command": "sh -c 'echo hello; exec sleep 1000'",
            "resources": {"cpu": "50m", "memory": "32Mi"},
            "policy": {"grace": "1s"},
        },
    }
    applied = await world.client.apply(JOBS, body, namespace=world.namespace)
    job = await world.phase(JobId(applied.metadata.uid), Phase.PROCESSING)
    assert (job.name, dict(job.spec.labels), job.spec.tenant) == ("by-hand", {"team": "vision"}, world.namespace)
    (pod,) = await world.pods()
    assert pod.metadata.owner_references[0].uid == applied.metadata.uid
    status = (await world.client.get(JOBS, "by-hand", namespace=world.namespace)).status
    assert (status["phase"], status["ready"]) == ("PROCESSING", "1/1")
    await world.client.delete(JOBS, "by-hand", namespace=world.namespace)
    await world.gone(job.id)
    assert await world.pods() == []


@pytest.mark.parametrize("world", ["kubernetes"], indirect=True)
async def test_what_a_schema_cannot_refuse_is_told_in_the_status(world: World) -> None:
    body = {"metadata": {"name": "wrong"}, "spec": {"command": "true", "policy": {"deadline": "soon"}}}
    await world.client.apply(JOBS, body, namespace=world.namespace)

    async def told() -> bool:
        status = (await world.client.get(JOBS, "wrong", namespace=world.namespace)).status
        return status.get("reason") == "InvalidJob" and "policy.deadline" in status.get("message", "")

    await eventually(told)


@pytest.mark.parametrize("world", ["kubernetes"], indirect=True)
@pytest.mark.parametrize(
    ("spec", "want_field"),
    [
        pytest.param(
            {"roles": {"worker": {"replicas": 0, "command": ["x"]}}}, "spec.roles.worker.replicas", id="count"
        ),
        pytest.param({"command": "x", "placement": {"prefer": "tight"}}, "spec.placement.prefer", id="choice"),
        pytest.param({"image": "x"}, "spec.roles", id="neither roles nor command"),
        pytest.param({"command": "x", "queue": "No Good"}, "spec.queue", id="name"),
    ],
)
async def test_a_wrong_job_is_refused_with_the_field_named(
    world: World, spec: dict[str, object], want_field: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        await world.client.apply(JOBS, {"metadata": {"name": "wrong"}, "spec": spec}, namespace=world.namespace)
    assert want_field in caught.value.fields
