"""Gangs of others' pods on a cluster in memory: killed at any write, refused, evicted."""

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from gangline.engines.kubernetes import KubernetesEngine
from gangline.engines.kubernetes.names import FOREIGN
from gangline.engines.kubernetes.watch.watched_pods import WATCHED_PODS
from gangline.kube import PODS, ConflictError
from gangline.lifecycle.events import GangFailed, GangStopped, ReplicaExited, ReplicaStarted
from gangline.model import Gang, GangId, GangReplica, JobId, NodeName, ReplicaId, RoleName, Tenant
from gangline.testing.builders import FakeClock, make_role, make_spec
from gangline.testing.engine_suite import NewsReader
from tests.engines.kubernetes.fake_cluster import FakeCluster, KilledError
from tests.engines.kubernetes.foreign.builders import NAMESPACE

GANG = GangId(JobId("job-1"), 1)
COUNT = 3


class BindingCluster(FakeCluster):
    """One that takes bindings, and refuses the second for a pod, as the real one does."""

    def __init__(self) -> None:
        super().__init__()
        self.bindings: list[str] = []

    async def bind(self, pod: str, node: str, **_: object) -> None:
        """Give a pod its node, once."""

        def act() -> None:
            body = self.objects["pods", pod]
            if body["spec"].get("nodeName"):
                raise ConflictError(f"pod {pod} is already assigned", status=409)
            self.bindings.append(pod)
            self.show(pod, node=node, phase="Running")

        await self._write(act)

    def show(self, name: str, *, node: str, phase: str, namespace: str = NAMESPACE) -> None:
        """Make a pod of others look like this."""
        body: dict[str, Any] = {
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
            "spec": {"schedulerName": "gangline", "nodeName": node, "containers": [{"name": "app"}]},
            "status": {"phase": phase},
        }
        self.change(WATCHED_PODS, name, body)


def make_gang(*, namespace: str = NAMESPACE) -> Gang:
    role = make_role("pods", replicas=COUNT, pod_template_json='{"spec": {}}', command=())
    pods = {f"pods-{index}": {"name": f"pod-{index}", "uid": f"uid-pod-{index}"} for index in range(COUNT)}
    spec = make_spec(
        roles=(role,),
        tenant=Tenant(namespace),
        labels={FOREIGN: "true"},
        manifest_json=msgspec.json.encode({"pods": pods}).decode(),
    )
    replicas = tuple(
        GangReplica(id=ReplicaId(RoleName("pods"), index), node=NodeName(f"node-{index % 2}")) for index in range(COUNT)
    )
    return Gang(id=GANG, spec=spec, replicas=replicas)


@pytest.fixture
def cluster() -> BindingCluster:
    cluster = BindingCluster()
    for index in range(COUNT):
        cluster.show(f"pod-{index}", node="", phase="Pending")
    return cluster


def open_engine(cluster: FakeCluster) -> KubernetesEngine:
    return KubernetesEngine(cluster, clock=FakeClock())


def nodes_of(cluster: FakeCluster) -> dict[str, str]:
    return {name: body["spec"]["nodeName"] for name, body in cluster.pods().items()}


@pytest.mark.parametrize("after_effect", [False, True], ids=["before its effect", "after its effect"])
async def test_killed_during_any_binding_every_pod_is_bound_once(after_effect: bool) -> None:
    for write in itertools.count(1):
        cluster = BindingCluster()
        for index in range(COUNT):
            cluster.show(f"pod-{index}", node="", phase="Pending")
        cluster.die_at, cluster.die_after_effect = write, after_effect
        first = open_engine(cluster)
        killed = False
        try:
            await first.run(make_gang())
        except KilledError:
            killed = True
        await first.close()
        cluster.revive()
        second = open_engine(cluster)
        await second.run(make_gang())
        await second.close()
        assert nodes_of(cluster) == {"pod-0": "node-0", "pod-1": "node-1", "pod-2": "node-0"}
        assert sorted(cluster.bindings) == ["pod-0", "pod-1", "pod-2"]
        if not killed:
            assert write > COUNT
            return


async def test_one_pod_that_fails_leaves_the_others_alone_and_the_last_tells(cluster: BindingCluster) -> None:
    engine = open_engine(cluster)
    news = NewsReader(engine)
    await engine.run(make_gang())
    await news.wait_for(ReplicaStarted, count=COUNT)
    cluster.show("pod-1", node="node-1", phase="Failed")
    (first,) = await news.wait_for(ReplicaExited)
    assert (first.replica.index, first.exit_code) == (1, 0)
    cluster.show("pod-0", node="node-0", phase="Succeeded")
    cluster.show("pod-2", node="node-0", phase="Succeeded")
    last = (await news.wait_for(ReplicaExited, count=COUNT))[-1]
    assert (last.exit_code, last.message) == (1, "pod pod-1 failed with 1")
    await engine.stop(GANG, 1.0)
    await news.wait_for(GangStopped)
    assert len(cluster.pods()) == COUNT, "what has ended is its owner's"
    await news.close()
    await engine.close()


async def test_making_room_removes_what_runs_and_nothing_else(cluster: BindingCluster) -> None:
    engine = open_engine(cluster)
    news = NewsReader(engine)
    await engine.run(make_gang())
    cluster.show("pod-1", node="node-1", phase="Succeeded")
    await news.wait_for(ReplicaExited)
    await engine.stop(GANG, 1.0)
    await news.wait_for(GangStopped)
    assert list(cluster.pods()) == ["pod-1"]
    await news.close()
    await engine.close()


async def test_a_bound_pod_is_counted_once(cluster: BindingCluster) -> None:
    engine = open_engine(cluster)
    news = NewsReader(engine)
    await engine.run(make_gang())
    await news.wait_for(ReplicaStarted)
    assert [node.foreign_pods for node in await engine.nodes()] == [0, 0]
    await engine.stop(GANG, 1.0)
    await news.wait_for(GangStopped)
    await news.close()
    await engine.close()


async def test_a_record_never_touches_pods_of_another_namespace(cluster: BindingCluster) -> None:
    engine = open_engine(cluster)
    news = NewsReader(engine)
    await engine.run(make_gang(namespace="intruder"))
    event = (await news.wait_for(ReplicaExited))[0]
    assert event.message == "its pod is gone"
    await engine.stop(GANG, 1.0)
    await news.wait_for(GangStopped)
    assert nodes_of(cluster) == dict.fromkeys(cluster.pods(), "")
    await news.close()
    await engine.close()


async def test_a_damaged_record_fails_in_words(cluster: BindingCluster) -> None:
    engine = open_engine(cluster)
    news = NewsReader(engine)
    gang = make_gang()
    damaged = make_spec(roles=gang.spec.roles, labels={FOREIGN: "true"}, manifest_json='{"pods": 1}')
    await engine.run(Gang(id=GANG, spec=damaged, replicas=gang.replicas))
    (event,) = await news.wait_for(GangFailed)
    assert (event.reason, event.permanent) == ("InvalidObject", True)
    await news.close()
    await engine.close()


async def test_pods_that_name_us_are_seen_and_ours_are_not_taken_for_theirs(cluster: BindingCluster) -> None:
    engine = open_engine(cluster)
    await engine.nodes()
    assert sorted(pod.metadata.name for pod in engine.view.named.values()) == ["pod-0", "pod-1", "pod-2"]
    await cluster.delete(PODS, "pod-0")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sorted(pod.metadata.name for pod in engine.view.named.values()) == ["pod-1", "pod-2"]
    await engine.close()
