"""A cluster in memory and an engine on it; modules that need another kind say so themselves."""

from collections.abc import AsyncIterator

import pytest

from gangline.engines.kubernetes import KubernetesEngine
from gangline.testing.builders import FakeClock
from tests.engines.kubernetes.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
async def engine(cluster: FakeCluster) -> AsyncIterator[KubernetesEngine]:
    engine = KubernetesEngine(cluster, clock=FakeClock())  # type: ignore[arg-type]  # the fake
    yield engine
    await engine.close()
