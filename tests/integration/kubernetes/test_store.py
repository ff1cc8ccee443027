"""The store contract, kept by custom resources of a real cluster."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gangline.engines.kubernetes import install
from gangline.kube import NAMESPACES, KubeClient
from gangline.storage.interface import JobQuery, Store
from gangline.storage.kubernetes import DEFINITIONS, QUEUES, KubernetesStore
from gangline.testing import store_suite, sweep_store_suite

TENANTS = ("default", "red", "blue", "other")


@pytest.fixture
async def store(kubernetes_client: KubeClient) -> AsyncIterator[KubernetesStore]:
    """A store whose tenants are namespaces of this test alone."""
    await install(kubernetes_client, DEFINITIONS, print)
    prefix = f"t{uuid.uuid4().hex[:8]}-"
    for tenant in TENANTS:
        await kubernetes_client.create(NAMESPACES, {"metadata": {"name": prefix + tenant}})
    store = KubernetesStore(kubernetes_client, prefix=prefix, believes_dates=True)
    yield store
    for queue in await store.queues():
        if queue.name != "default":
            await kubernetes_client.delete(QUEUES, prefix + queue.name)
    await store.close()
    await asyncio.gather(*(store.remove(job.id) for job in (await store.list(JobQuery(limit=10_000))).jobs))
    for tenant in TENANTS:
        await kubernetes_client.delete(NAMESPACES, prefix + tenant)


class TestKubernetesStore(store_suite.StoreSuite):
    many = 503  # the client reads pages of 500, and every job is an object to make and to delete

    @pytest.fixture
    async def store(self, store: KubernetesStore) -> Store:
        return store

    async def test_created_job_is_returned_as_it_was(self, store: Store) -> None:
        """All but text that no job file can hold: the spec is kept as one, so that people can read and write it."""
        rich = store_suite.make_rich_job()
        chief, worker = rich.spec.roles
        roles = (replace(chief, env={"GREETING": "h\u00e9llo \N{DOG}"}), replace(worker, pod_template_json='{"a":1}'))
        job = replace(rich, spec=replace(rich.spec, roles=roles))
        created = await store.create(job)
        kept = await store.get(job.id)
        assert kept == created == job
        assert kept.version == created.version > 0


class TestKubernetesSweeps(sweep_store_suite.SweepStoreSuite):
    @pytest.fixture
    async def store(self, store: KubernetesStore) -> Store:
        return store
