"""An MPI launcher comes after its workers and knows where they are, whatever happens in between."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gangline.dialects import read_plain
from gangline.engines.kubernetes import KubernetesEngine
from gangline.engines.kubernetes.launching.launch_order import startable
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.kube import PODS, Metadata, Pod
from gangline.kube.objects import PodSpec, PodStatus
from gangline.lifecycle.events import GangFailed, GangStopped
from gangline.model import (
    Framework,
    Gang,
    GangId,
    GangReplica,
    JobId,
    JobSpec,
    NodeName,
    Policy,
    ReplicaId,
    Restart,
    Retry,
    RoleSpec,
)
from gangline.testing.builders import FakeClock, make_role, make_spec
from gangline.testing.engine_suite import NewsReader
from tests.engines.kubernetes.fake_cluster import FakeCluster

Plain = dict[str, Any]
ID = GangId(JobId("job-1"), 1)
WORKER = make_role("worker", image="mpi", replicas=2)


def native(worker: RoleSpec = WORKER, **fields: Any) -> JobSpec:
    return make_spec(roles=(make_role("launcher", image="mpi"), worker), framework=Framework.MPI, **fields)


def mpijob(version: str, **fields: Any) -> JobSpec:
    def template(**pod: Any) -> Plain:
        return {"template": {"spec": {"containers": [{"name": "mpi", "image": "mpi", "command": ["x"]}], **pod}}}

    given = {"hostAliases": [{"ip": "192.0.2.1", "hostnames": ["license"]}]}
    replicas = {"Launcher": template(**given), "Worker": {"replicas": 2, **template()}}
    manifest = {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "mnist", "namespace": "default"},
        "spec": {"mpiReplicaSpecs": replicas, **fields},
    }
    (translation,) = read_plain(manifest)
    return translation.spec


def gang_of(spec: JobSpec) -> Gang:
    replicas = tuple(
        GangReplica(id=ReplicaId(role.name, index), node=NodeName("node-0"))
        for role in spec.roles
        for index in range(role.replicas)
    )
    return Gang(id=ID, spec=spec, replicas=replicas)


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.withholds_addresses = True
    return cluster


@pytest.fixture
async def engine(cluster: FakeCluster) -> AsyncIterator[KubernetesEngine]:
    engine = new_engine(cluster)
    yield engine
    await engine.close()


def new_engine(cluster: FakeCluster) -> KubernetesEngine:
    return KubernetesEngine(cluster, clock=FakeClock())


async def settled() -> None:
    """Let everything that is ready run."""
    for _ in range(100):
        await asyncio.sleep(0)


def of_role(cluster: FakeCluster, role: str) -> list[str]:
    pods = cluster.pods().items()
    return sorted(name for name, body in pods if body["metadata"]["labels"]["gangline.dev/role"] == role)


def aliases(cluster: FakeCluster) -> dict[str, list[str]]:
    (launcher,) = of_role(cluster, "launcher")
    entries = cluster.pods()[launcher]["spec"].get("hostAliases", [])
    return {entry["ip"]: entry["hostnames"] for entry in entries}


def hostfile(cluster: FakeCluster) -> list[str]:
    (found,) = [body["data"]["hostfile"] for (kind, _), body in cluster.objects.items() if kind == "configmaps"]
    return [line.split()[0].partition(":")[0] for line in found.splitlines()]


def waits() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("rest of")]


@pytest.mark.parametrize(
    ("spec", "want_given"),
    [
        pytest.param(native(), {}, id="native"),
        pytest.param(mpijob("v1"), {"192.0.2.1": ["license"]}, id="v1"),
        pytest.param(mpijob("v2beta1"), {"192.0.2.1": ["license"]}, id="v2beta1"),
    ],
)
async def test_a_launcher_is_created_when_every_worker_runs_and_knows_where_all_are(
    cluster: FakeCluster, engine: KubernetesEngine, spec: JobSpec, want_given: dict[str, list[str]]
) -> None:
    await engine.run(gang_of(spec))
    await settled()
    first, second = of_role(cluster, "worker")
    one = cluster.give_address(first)
    await settled()
    assert of_role(cluster, "launcher") == []
    other = cluster.give_address(second)
    await settled()
    names = hostfile(cluster)
    short = [name.partition(".")[0] for name in names]
    assert names[0].endswith(".svc")
    assert aliases(cluster) == {**want_given, one: [names[0], short[0]], other: [names[1], short[1]]}
    assert waits() == []


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(native(make_role("worker", image="mpi", replicas=2, minimum=1)), id="elastic"),
        pytest.param(native(policy=Policy(restart=Restart.REPLICA)), id="restarted one by one"),
        pytest.param(native(policy=Policy(retry=Retry.ALWAYS)), id="restarted whenever it ends"),
    ],
)
async def test_a_worker_that_may_come_back_elsewhere_is_left_to_dns(
    cluster: FakeCluster, engine: KubernetesEngine, spec: JobSpec
) -> None:
    await engine.run(gang_of(spec))
    await settled()
    for name in of_role(cluster, "worker"):
        cluster.give_address(name)
    await settled()
    assert aliases(cluster) == {}


async def test_a_launcher_that_takes_ranks_knows_where_it_is_itself(
    cluster: FakeCluster, engine: KubernetesEngine
) -> None:
    await engine.run(gang_of(mpijob("v2beta1", runLauncherAsWorker=True)))
    await settled()
    for name in of_role(cluster, "worker"):
        cluster.give_address(name)
    await settled()
    assert hostfile(cluster)[0] == "mnist-launcher.mnist.default.svc"
    assert aliases(cluster)["127.0.0.1"] == ["mnist-launcher.mnist.default.svc"]


async def test_an_order_that_is_repeated_meanwhile_does_no_harm(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    for _ in range(3):
        await engine.run(gang_of(native()))
        await settled()
    assert len(waits()) == 1
    for name in of_role(cluster, "worker"):
        cluster.give_address(name)
    await engine.run(gang_of(native()))
    await settled()
    assert len(of_role(cluster, "launcher")) == 1
    assert waits() == []


@pytest.mark.parametrize("addressed_first", [True, False], ids=["addresses came while it was away", "and came later"])
async def test_the_next_life_creates_the_launcher_that_the_last_one_did_not(
    cluster: FakeCluster, addressed_first: bool
) -> None:
    first = new_engine(cluster)
    await first.run(gang_of(native()))
    await settled()
    await first.close()
    assert waits() == []
    workers = of_role(cluster, "worker")
    for name in workers if addressed_first else []:
        cluster.give_address(name)
    second = new_engine(cluster)
    await second.run(gang_of(native()))
    await settled()
    for name in [] if addressed_first else workers:
        cluster.give_address(name)
    await settled()
    assert len(of_role(cluster, "launcher")) == 1
    assert len(cluster.created) == len(set(cluster.created)), "nothing was made twice"
    await second.close()


async def test_a_gang_that_is_stopped_gets_no_launcher(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    news = NewsReader(engine)
    await engine.run(gang_of(native()))
    await settled()
    workers = of_role(cluster, "worker")
    await engine.stop(ID, 1.0)
    for name in workers:
        cluster.give_address(name)
    await news.wait_for(GangStopped)
    await settled()
    assert waits() == []
    assert cluster.pods() == {}
    assert not any("launcher" in name for _, name in cluster.created)
    await news.close()


async def test_a_gang_that_fails_waits_no_more(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    news = NewsReader(engine)
    await engine.run(gang_of(native()))
    await settled()
    first, second = of_role(cluster, "worker")
    waiting = {"name": "main", "state": {"waiting": {"reason": "InvalidImageName", "message": "no such name"}}}
    status = {"phase": "Pending", "containerStatuses": [waiting]}
    cluster.change(PODS, first, {**cluster.pods()[first], "status": status})
    await news.wait_for(GangFailed)
    await settled()
    assert waits() == []
    cluster.give_address(first)
    cluster.give_address(second)
    await settled()
    assert of_role(cluster, "launcher") == []
    await news.close()


async def test_an_address_is_not_enough_while_a_worker_pulls_its_image(
    cluster: FakeCluster, engine: KubernetesEngine
) -> None:
    await engine.run(gang_of(native()))
    await settled()
    first, second = of_role(cluster, "worker")
    started = cluster.pods()[first]["status"]["containerStatuses"]
    pulling = [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    status = {"phase": "Pending", "podIP": "10.0.1.1", "containerStatuses": pulling}
    cluster.change(PODS, first, {**cluster.pods()[first], "status": status})
    cluster.give_address(second)
    await settled()
    assert of_role(cluster, "launcher") == []
    cluster.change(PODS, first, {**cluster.pods()[first], "status": {**status, "containerStatuses": started}})
    await settled()
    assert len(of_role(cluster, "launcher")) == 1


async def test_a_launcher_may_ask_for_workers_that_are_ready(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    spec = mpijob("v2beta1", launcherCreationPolicy="WaitForWorkersReady")
    assert json.loads(spec.manifest_json or "{}")["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"
    await engine.run(gang_of(spec))
    await settled()
    workers = of_role(cluster, "worker")
    for name in workers:
        cluster.give_address(name)
    await settled()
    assert of_role(cluster, "launcher") == []
    for name in workers:
        body = cluster.pods()[name]
        ready = [{"type": "Ready", "status": "True"}]
        cluster.change(PODS, name, {**body, "status": {**body["status"], "conditions": ready}})
    await settled()
    assert len(of_role(cluster, "launcher")) == 1


@pytest.mark.parametrize(
    ("node", "phase", "want"),
    [
        pytest.param("node-0", "Running", 0, id="its last pod still has the place"),
        pytest.param("node-0", "Failed", 1, id="its last pod is done"),
        pytest.param("node-1", "Running", 1, id="its last pod was elsewhere"),
    ],
)
def test_a_replica_that_starts_again_in_place_waits_for_the_end_of_its_last_pod(
    node: str, phase: str, want: int
) -> None:
    gang = gang_of(make_spec(roles=(make_role(replicas=1),)))
    (first,) = gang.replicas
    last = Pod(metadata=Metadata(name="last"), spec=PodSpec(node_name=node), status=PodStatus(phase=phase))
    found = startable(gang, [replace(first, incarnation=1)], {ReplicaKey(ID, first.id, 0): last})
    assert len(found) == want
