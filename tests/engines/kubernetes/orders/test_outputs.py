"""Results are stored by the lead's mover when the engine gives its word, and what comes of it is told."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from gangline.engines.kubernetes import KubernetesEngine
from gangline.engines.kubernetes.manifests.collector import COLLECTOR_CONTAINER
from gangline.kube import PODS
from gangline.lifecycle.events import GangFailed, OutputsStored, ReplicaExited
from gangline.model import DataMove, Gang, GangId, GangReplica, JobId, Metric, NodeName, ReplicaId
from gangline.testing.builders import FakeClock, make_role, make_spec
from gangline.testing.engine_suite import NewsReader
from tests.engines.kubernetes.fake_cluster import NOW, FakeCluster
from tests.engines.kubernetes.test_engine import settled

ROLE = make_role(image="python", replicas=2)
SPEC = make_spec(roles=(ROLE,), outputs=(DataMove("$RESULT_DIR", "s3://bucket/results"),))
GANG = Gang(
    id=GangId(JobId("job-1"), 1),
    spec=SPEC,
    replicas=tuple(GangReplica(id=ReplicaId(ROLE.name, index), node=NodeName("node-0")) for index in range(2)),
)


def ended(code: int, message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": message, "startedAt": NOW, "finishedAt": NOW}}


def report(cluster: FakeCluster, name: str, **states: dict[str, Any]) -> None:
    """Say, as a kubelet would, how the containers of a pod are; the others are as they were."""
    body = cluster.pods()[name]
    statuses = [{"name": container.replace("_", "-"), "state": state} for container, state in states.items()]
    status = {**body.get("status", {}), "phase": "Running", "containerStatuses": statuses}
    cluster.change(PODS, name, {**body, "status": status})


async def finished(cluster: FakeCluster, engine: KubernetesEngine, *, collected: bool = False) -> str:
    """Run the gang to its success and order the end; return the name of the lead's pod, once it has the word."""
    await engine.run(GANG)
    lead, other = sorted(cluster.pods())
    running = {"running": {"startedAt": NOW}}
    if collected:
        body = cluster.pods()[lead]
        beside = [{"name": COLLECTOR_CONTAINER, "state": running}]
        cluster.change(PODS, lead, {**body, "status": {**body["status"], "initContainerStatuses": beside}})
    report(cluster, lead, main=ended(0), gangline_outputs=running)
    report(cluster, other, main=ended(0))
    await settled()
    await engine.finish(replace(GANG, replicas=tuple(replace(replica, started=True) for replica in GANG.replicas)))
    async with asyncio.timeout(60):
        while "gangline.dev/outputs" not in cluster.pods()[lead]["metadata"].get("annotations", {}):  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert "gangline.dev/outputs" not in cluster.pods()[other]["metadata"].get("annotations", {})
    return lead


async def test_results_are_told_stored_when_the_mover_says_so(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    news = NewsReader(engine)
    lead = await finished(cluster, engine)
    report(cluster, lead, main=ended(0), gangline_outputs=ended(0, "not copied: pipe (a pipe)"))
    (stored,) = await news.wait_for(OutputsStored)
    assert stored.note == "not copied: pipe (a pipe)"
    await news.close()


async def test_results_are_told_stored_after_the_last_numbers_of_a_collector(
    cluster: FakeCluster, engine: KubernetesEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_look = asyncio.Event()

    async def logs(_: str, **__: object) -> AsyncGenerator[bytes, None]:
        await last_look.wait()
        yield b'2026-01-01T00:00:00.000000000Z {"at":1.0,"name":"loss","value":0.5,"step":7}'

    monkeypatch.setattr(cluster, "logs", logs)
    news = NewsReader(engine)
    lead = await finished(cluster, engine, collected=True)
    await news.wait_for(ReplicaExited, count=2)
    report(cluster, lead, main=ended(0), gangline_outputs=ended(0))
    await settled()
    last_look.set()  # the kubelet stops a collector after the mover
    await news.wait_for(OutputsStored)
    told = [type(each) for each in news.seen if isinstance(each, Metric | OutputsStored)]
    assert told == [Metric, OutputsStored]
    await news.close()


async def test_what_the_mover_says_of_a_failure_is_told(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    news = NewsReader(engine)
    lead = await finished(cluster, engine)
    report(cluster, lead, main=ended(0), gangline_outputs=ended(3, "no such bucket\n"))
    (failed,) = await news.wait_for(GangFailed)
    assert (failed.reason, failed.message, failed.permanent) == ("OutputsFailed", "no such bucket", True)
    await news.close()


async def test_results_that_vanish_with_their_pod_are_missed(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    news = NewsReader(engine)
    await cluster.delete(PODS, await finished(cluster, engine))
    (failed,) = await news.wait_for(GangFailed)
    assert failed.reason == "OutputsFailed"
    await news.close()


async def test_a_controller_that_begins_anew_finds_the_results_stored(cluster: FakeCluster) -> None:
    first = KubernetesEngine(cluster, clock=FakeClock())
    lead = await finished(cluster, first)
    await first.close()
    report(cluster, lead, main=ended(0), gangline_outputs=ended(0))
    second = KubernetesEngine(cluster, clock=FakeClock())
    news = NewsReader(second)
    await second.finish(GANG)
    await news.wait_for(OutputsStored)
    await news.close()
    await second.close()
