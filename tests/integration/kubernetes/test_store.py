"""The store contract, kept by custom resources of a real cluster."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from gangline.engines.kubernetes import install
from gangline.kube import NAMESPACES, KubeClient
from gangline.storage.interface import JobQuery, Store
from gangline.storage.kubernetes import DEFINITIONS, QUEUES, KubernetesStore
from gangline.testing import store_suite

TENANTS = ("default", "red", "blue", "other")


@pytest.fixture
async def store(kubernetes_client: KubeClient) -> AsyncIterator[KubernetesStore]:
    """A store whose tenants are namespaces of this test alone."""
    await install(kubernetes_client, DEFINITIONS, print)
    prefix = f"t{uuid.uuid4().hex[:8]}-"
    for tenant in TENANTS:
        await kubernetes_client.create(NAMESPACES, {"metadata": {"name": prefix + tenant}})
    store = KubernetesStore(kubernetes_client, prefix=prefix)
    yield store
    for queue in await store.queues():
        if queue.name != "default":
            await kubernetes_client.delete(QUEUES, prefix + queue.name)
    await store.close()
    await asyncio.gather(*(store.remove(job.id) for job in (await store.list(JobQuery(limit=10_000))).jobs))
    for tenant in TENANTS:
        await kubernetes_client.delete(NAMESPACES, prefix + tenant)


class TestKubernetesStore(store_suite.StoreSuite):
    @pytest.fixture
    async def store(self, store: KubernetesStore) -> Store:
        return store
