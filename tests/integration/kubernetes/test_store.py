"""The store contract, kept by custom resources of a real cluster."""

from collections.abc import AsyncIterator

import pytest

from gangline.kube import KubeClient
from gangline.storage.interface import Store
from gangline.testing.record_store_suite import RecordStoreSuite
from tests.contract.kubernetes import KubernetesStoreSuite, store_over


class TestKubernetesStore(KubernetesStoreSuite, RecordStoreSuite):
    @pytest.fixture
    async def store(self, kubernetes_client: KubeClient) -> AsyncIterator[Store]:
        async with store_over(kubernetes_client) as store:
            yield store
