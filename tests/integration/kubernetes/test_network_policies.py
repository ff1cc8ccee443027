"""Whom the policies of jobs let in, seen by connecting: the cluster's nodes enforce them for the length of a test."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gangline.kube import NAMESPACES, PODS, KubeClient
from gangline.model import Phase
from tests.integration.kubernetes.world import OBEDIENT, World, eventually, shell
from tools.cluster import BUSYBOX
from tools.cluster.pytest_plugin import ClusterUnderTest

LISTEN = f"httpd -p 8080 -h /tmp; echo hello > /tmp/index.html; {OBEDIENT}"

pytestmark = pytest.mark.parametrize("world", ["kubernetes"], indirect=True)


@pytest.fixture
async def stranger(kubernetes_client: KubeClient, world: World) -> AsyncIterator[str]:
    """A pod of another tenant, which bears the labels of a replica; returns its namespace."""
    namespace = f"other-{uuid.uuid4().hex[:8]}"
    await kubernetes_client.create(NAMESPACES, {"metadata": {"name": namespace}})
    container = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", OBEDIENT]}
    node = (await world.engine.nodes())[0].name
    labels = {"gangline.dev/controller": world.namespace, "gangline.dev/job-id": f"{world.namespace}-mnist"}
    body = {"metadata": {"name": "stranger", "labels": labels}, "spec": {"nodeName": node, "containers": [container]}}
    await kubernetes_client.create(PODS, body, namespace=namespace)

    async def runs() -> bool:
        return (await kubernetes_client.get(PODS, "stranger", namespace=namespace)).status.phase == "Running"

    await eventually(runs)
    yield namespace
    await kubernetes_client.delete_all(PODS, labels=None, namespace=namespace, grace_seconds=0)
    await kubernetes_client.delete(NAMESPACES, namespace)


async def test_a_replica_is_reached_from_its_own_gang_and_from_no_other_pod(
    world: World, stranger: str, kubernetes_cluster: ClusterUnderTest
) -> None:
    # Here, for the cluster that is not ours has nothing to enforce policies with, or does so by itself.
    from tools.cluster.policies import enforce, lift

    machines = kubernetes_cluster.require_machines()
    first = await world.submit(shell(LISTEN, replicas=2))
    second = await world.submit(shell(LISTEN), name="alone")
    for job_id in (first, second):
        await world.phase(job_id, Phase.PROCESSING)
    pods = {pod.metadata.name: pod for pod in await world.pods()}
    ours = [pod for name, pod in pods.items() if name.startswith("mnist")]
    (alone,) = (pod for name, pod in pods.items() if name.startswith("alone"))

    async def connects(namespace: str, name: str, to: Any) -> bool:
        script = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {to.status.pod_ip} 8080"
        done = await world.client.execute(name, ["sh", "-c", script], namespace=namespace)
        return done.exit_code == 0 and done.stdout.endswith(b"hello\n")

    async def open_to_all() -> bool:
        places = ((stranger, "stranger", to) for to in (*ours, alone))
        return all([await connects(*place) for place in places])

    await eventually(open_to_all)
    await asyncio.to_thread(enforce, machines, [world.namespace])
    try:
        for source, target in (ours, reversed(ours)):
            assert await connects(world.namespace, source.metadata.name, target)
        for target in (*ours, alone):
            assert not await connects(stranger, "stranger", target)
        assert not await connects(world.namespace, ours[0].metadata.name, alone)
        assert not await connects(world.namespace, alone.metadata.name, ours[0])
    finally:
        await asyncio.to_thread(lift, machines)
    await eventually(open_to_all)
