"""The Kubernetes store and engine keep their contracts on an API server in memory; on a real one: tests/integration."""

from collections.abc import AsyncIterator

import pytest

from gangline.kube import KubeClient
from gangline.storage.interface import Store
from gangline.testing.engine_suite import EngineSubject
from gangline.testing.record_store_suite import RecordStoreSuite
from tests.apiserver import ApiServer
from tests.contract.kubernetes import KubernetesEngineSuite, KubernetesStoreSuite, store_over
from tests.integration.kubernetes.subject import KubernetesSubject


@pytest.fixture
async def client() -> AsyncIterator[KubeClient]:
    async with ApiServer.running() as (_, access), KubeClient(access) as client:
        yield client


class TestKubernetesStore(KubernetesStoreSuite, RecordStoreSuite):
    @pytest.fixture
    async def store(self, client: KubeClient) -> AsyncIterator[Store]:
        async with store_over(client) as store:
            yield store


class TestKubernetesEngine(KubernetesEngineSuite):
    @pytest.fixture
    async def subject(self, client: KubeClient) -> AsyncIterator[EngineSubject]:
        subject = KubernetesSubject(client, "default")
        yield subject
        await subject.close()
