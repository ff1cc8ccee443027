"""What the suites count on from the API server in memory is what a real one does."""

import pytest

from gangline.engines.kubernetes import install
from gangline.kube import KubeClient
from gangline.storage.kubernetes import DEFINITIONS
from tests.kube.server_suite import ServerSuite


class TestRealServer(ServerSuite):
    @pytest.fixture
    async def client(self, kubernetes_client: KubeClient, kubernetes_namespace: str) -> KubeClient:
        await install(kubernetes_client, DEFINITIONS, print)
        return kubernetes_client
