"""The engine on a cluster in memory: what only a scripted one can be made to do."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gangline.engines.kubernetes import KubernetesEngine
from gangline.engines.kubernetes.orders.pod_retry import pause_before
from gangline.kube import NODES, PODS, PRIORITY_CLASSES, ForbiddenError, Resource
from gangline.lifecycle.events import GangStopped, ReplicaDelayed, ReplicaLost, ReplicaStarted
from gangline.model import Gang, GangId, GangReplica, JobId, NodeName, ReplicaId, Resources
from gangline.testing.builders import FakeClock, make_role, make_spec
from gangline.testing.engine_suite import NewsReader
from tests.engines.kubernetes.fake_cluster import FakeCluster

ROLE = make_role(image="busybox", replicas=2, resources=Resources(cpu_millis=3000, memory_mib=1024))


def make_gang(attempt: int = 1) -> Gang:
    spec = make_spec(roles=(ROLE,))
    replicas = tuple(GangReplica(id=ReplicaId(ROLE.name, index), node=NodeName("node-0")) for index in range(2))
    return Gang(id=GangId(JobId("job-1"), attempt), spec=spec, replicas=replicas)


def foreign_pod(name: str, node: str, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}


async def settled() -> None:
    """Let everything that is ready run."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_pods_of_others_count_as_used(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    await cluster.create(PODS, foreign_pod("theirs", "node-1", "1500m"))
    first, second = await engine.nodes()
    assert (first.foreign.cpu_millis, first.foreign_pods) == (0, 0)
    assert (second.foreign.cpu_millis, second.foreign_pods) == (1500, 1)
    await cluster.delete(PODS, "theirs")
    await settled()
    assert (await engine.nodes())[1].foreign_pods == 0


async def test_own_pods_are_not_foreign_but_those_of_a_gang_nobody_ordered_are(cluster: FakeCluster) -> None:
    first = KubernetesEngine(cluster, clock=FakeClock())
    await first.run(make_gang())
    await settled()
    assert (await first.nodes())[0].foreign.cpu_millis == 0
    await first.close()
    second = KubernetesEngine(cluster, clock=FakeClock())
    assert (await second.nodes())[0].foreign.cpu_millis == 6000
    await second.run(make_gang())
    assert (await second.nodes())[0].foreign.cpu_millis == 0
    await second.close()


async def test_a_refused_place_counts_as_taken_for_a_while(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    news = NewsReader(engine)
    await engine.run(make_gang())
    await settled()
    name, body = next(iter(cluster.pods().items()))
    cluster.change(PODS, name, {**body, "status": {"phase": "Failed", "reason": "OutOfcpu", "message": "full"}})
    (lost,) = await news.wait_for(ReplicaLost)
    assert lost.message == "node-0 refused it: full"
    assert (await engine.nodes())[0].foreign.cpu_millis == 3000
    await news.close()


async def test_a_pod_that_its_node_has_no_room_for_yet_is_created_again_in_its_place(
    cluster: FakeCluster, engine: KubernetesEngine
) -> None:
    news = NewsReader(engine)
    cluster.refuses = ["OutOfcpu"]
    await engine.run(make_gang())
    started = await news.wait_for(ReplicaStarted, count=2)
    assert {event.replica.index for event in started} == {0, 1}
    assert [name for plural, name in cluster.created if plural == "pods"].count(min(cluster.pods())) == 2
    assert {pod["spec"]["nodeName"] for pod in cluster.pods().values()} == {"node-0"}
    assert (await engine.nodes())[0].foreign.cpu_millis == 0
    assert not news.of(ReplicaLost)
    (delayed,) = news.of(ReplicaDelayed)
    assert delayed.message == "node-0 still has to release what another pod held there: full"
    await news.close()


async def test_a_refusal_that_is_heard_before_the_answer_to_the_creation_is_tried_again_too(
    cluster: FakeCluster, engine: KubernetesEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, answers = cluster.create_unread, asyncio.Event()

    async def create_and_dawdle(resource: Resource[Any], body: Mapping[str, Any], **fields: object) -> None:
        await create(resource, body, **fields)
        if resource is PODS:
            await answers.wait()

    monkeypatch.setattr(cluster, "create_unread", create_and_dawdle)
    news = NewsReader(engine)
    await engine.nodes()
    cluster.refuses = ["OutOfcpu"]
    launch = asyncio.create_task(engine.run(make_gang()))
    await news.wait_for(ReplicaDelayed)
    answers.set()
    await launch
    await news.wait_for(ReplicaStarted, count=2)
    await news.close()


async def test_a_pod_that_is_first_seen_after_its_gang_has_shrunk_goes_too(
    cluster: FakeCluster, engine: KubernetesEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = NewsReader(engine)
    whole = make_gang()
    smaller = replace(whole, replicas=whole.replicas[:1])
    await engine.run(smaller)
    await news.wait_for(ReplicaStarted)
    (kept,) = cluster.pods()
    tell, held_back = cluster._tell, []
    monkeypatch.setattr(cluster, "_tell", lambda *change: held_back.append(change))
    await engine.run(whole)
    assert len(cluster.pods()) == 2
    await engine.run(smaller)
    monkeypatch.setattr(cluster, "_tell", tell)
    for change in held_back:
        tell(*change)
    await settled()
    assert list(cluster.pods()) == [kept]
    await news.close()


async def test_a_pod_whose_labels_no_longer_suit_its_node_is_lost_at_once(
    cluster: FakeCluster, engine: KubernetesEngine
) -> None:
    news = NewsReader(engine)
    cluster.refuses = ["NodeAffinity"]
    await engine.run(make_gang())
    await news.wait_for(ReplicaLost)
    await news.close()


async def test_a_new_controller_tries_a_refused_pod_again_and_reports_no_loss(cluster: FakeCluster) -> None:
    first = KubernetesEngine(cluster, clock=FakeClock())
    cluster.refuses = ["OutOfcpu"]
    await first.run(make_gang())
    await settled()
    await first.close()
    second = KubernetesEngine(cluster, clock=FakeClock())
    news = NewsReader(second)
    await second.nodes()
    await settled()
    await second.run(make_gang())
    await news.wait_for(ReplicaStarted, count=2)
    assert not news.of(ReplicaLost)
    await news.close()
    await second.close()


@pytest.mark.parametrize(("tries", "want"), [(0, True), (1, True), (6, True), (7, False), (100, False)], ids=str)
def test_a_refused_pod_is_tried_again_for_a_while(tries: int, want: bool) -> None:
    assert (pause_before(tries) is not None) == want
    assert sum(pause for each in range(8) if (pause := pause_before(each)) is not None) < 20


async def test_a_removed_node_loses_its_replicas(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    news = NewsReader(engine)
    await engine.run(make_gang())
    await settled()
    await cluster.delete(NODES, "node-0")
    lost = await news.wait_for(ReplicaLost, count=2)
    assert {event.message for event in lost} == {"node node-0 does not answer"}
    await news.close()


async def test_a_pod_of_an_earlier_attempt_does_not_live_on(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    await engine.run(make_gang(attempt=1))
    await settled()
    await engine.run(make_gang(attempt=2))
    await settled()
    assert {body["metadata"]["labels"]["gangline.dev/attempt"] for body in cluster.pods().values()} == {"2"}


async def test_nodes_that_did_not_change_are_the_same_objects(engine: KubernetesEngine) -> None:
    before = await engine.nodes()
    assert all(one is other for one, other in zip(before, await engine.nodes(), strict=True))


async def test_a_job_that_is_applied_again_with_its_old_id_runs_again(
    cluster: FakeCluster, engine: KubernetesEngine
) -> None:
    news = NewsReader(engine)
    await engine.run(make_gang())
    await engine.stop(make_gang().id, 0)
    await news.wait_for(GangStopped)
    await engine.run(make_gang())
    assert not cluster.pods(), "an attempt that ended stays ended"
    await engine.forget(make_gang().id.job_id)
    await engine.run(make_gang())
    assert len(cluster.pods()) == 2
    await news.close()


class ClasslessCluster(FakeCluster):
    """Refuses pods of a priority class that it does not have, as a real server does."""

    async def create_unread(self, resource: Resource[Any], body: Mapping[str, Any], **_: object) -> None:
        name = body.get("spec", {}).get("priorityClassName")
        if name is not None and ("priorityclasses", name) not in self.objects:
            message = f'pods "x" is forbidden: no PriorityClass with name {name} was found'
            raise ForbiddenError(message, status=403)
        await super().create_unread(resource, body)


async def test_a_priority_class_deleted_by_hand_fails_no_job() -> None:
    cluster = ClasslessCluster()
    for name, priority in (("low", "0"), ("normal", "50"), ("odd", "many")):
        labels = {"gangline.dev/priority": priority}
        await cluster.create(PRIORITY_CLASSES, {"metadata": {"name": name, "labels": labels}, "value": 1})
    engine = KubernetesEngine(cluster, clock=FakeClock())  # type: ignore[arg-type]  # the fake
    await engine.run(make_gang(attempt=1))
    await cluster.delete(PRIORITY_CLASSES, "normal")
    await engine.run(make_gang(attempt=2))
    await settled()
    classes = {body["spec"]["priorityClassName"] for body in cluster.pods().values()}
    await engine.close()
    assert classes == {"low"}
