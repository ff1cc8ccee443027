"""Following the output of gangs on a cluster in memory."""

import asyncio

import pytest

from gangline.engines.interface import LogQuery
from gangline.engines.kubernetes import KubernetesEngine
from gangline.engines.kubernetes.logs import reader
from gangline.kube import PODS
from gangline.lifecycle.events import GangStopped
from gangline.model import Clean
from gangline.testing.builders import FakeClock
from gangline.testing.engine_suite import NewsReader
from tests.engines.kubernetes.fake_cluster import NOW, FakeCluster
from tests.engines.kubernetes.test_engine import make_gang, settled


async def test_following_ends_when_the_pods_that_are_left_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_REST_SECONDS", 0.01)
    cluster = FakeCluster()
    engine = KubernetesEngine(cluster, clock=FakeClock())  # type: ignore[arg-type]  # the fake
    news, gang = NewsReader(engine), make_gang()
    await engine.run(gang)
    await settled()
    for name, body in list(cluster.pods().items()):
        ended = {"terminated": {"exitCode": 0, "startedAt": NOW, "finishedAt": NOW}}
        status = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": ended}]}
        cluster.change(PODS, name, {**body, "status": status})
    await settled()
    await engine.stop(gang.id, 0, clean=Clean.NONE)
    await news.wait_for(GangStopped)
    assert len(cluster.pods()) == 2
    async with asyncio.timeout(60):
        lines = [line.text async for line in engine.logs(LogQuery(job_id=gang.id.job_id, follow=True))]
    await news.close()
    await engine.close()
    assert sorted(lines) == sorted(cluster.pods())
