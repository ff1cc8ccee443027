"""What the Kubernetes suites share: an engine on the real cluster, in a namespace of its own."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from gangline.engines.kubernetes import install
from gangline.kube import KubeClient, NotFoundError, load_access
from gangline.storage.kubernetes import DEFINITIONS, JOBS, KubernetesStore, kubeflow_definitions
from gangline.storage.memory import MemoryStore
from tests.integration.kubernetes.subject import KubernetesSubject
from tests.integration.kubernetes.world import World
from tools.cluster.pytest_plugin import ClusterUnderTest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "integration/kubernetes" in item.nodeid:
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture
async def subject(kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str) -> AsyncIterator[KubernetesSubject]:
    """An engine that has the namespace to itself."""
    async with KubeClient(load_access(path=kubernetes_cluster.kubeconfig)) as client:
        subject = KubernetesSubject(client, kubernetes_namespace)
        yield subject
        await subject.close()


@pytest.fixture(params=["memory", "kubernetes"])
async def world(
    request: pytest.FixtureRequest, kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str, tmp_path: Path
) -> AsyncIterator[World]:
    """A whole Gangline that has the namespace to itself, on either store."""
    async with KubeClient(load_access(path=kubernetes_cluster.kubeconfig)) as client:
        await install(client, DEFINITIONS, print)
        store = MemoryStore() if request.param == "memory" else KubernetesStore(client, namespace=kubernetes_namespace)
        world = World(client, kubernetes_namespace, store, code_directory=tmp_path)
        yield world
        await world.kill()
        await store.close()
        await release_jobs(client, kubernetes_namespace)


@pytest.fixture
async def kubeflow(kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str) -> AsyncIterator[World]:
    """A whole Gangline that runs the Kubeflow jobs of one namespace."""
    async with KubeClient(load_access(path=kubernetes_cluster.kubeconfig)) as client:
        await install(client, [*DEFINITIONS, *kubeflow_definitions()], print)
        store = KubernetesStore(client, namespace=kubernetes_namespace)
        world = World(client, kubernetes_namespace, store)
        yield world
        await world.kill()
        await store.close()
        await release_jobs(client, kubernetes_namespace)


async def release_jobs(client: KubeClient, namespace: str) -> None:
    """Take the finalizers off a test's jobs: its namespace could not go with them."""
    for item in (await client.list(JOBS, namespace=namespace)).items or ():
        with suppress(NotFoundError):  # its controller was quicker
            await client.patch(JOBS, item.metadata.name, {"metadata": {"finalizers": None}}, namespace=namespace)
