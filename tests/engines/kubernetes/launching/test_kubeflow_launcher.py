"""The names of Kubeflow's services and ConfigMaps repeat from job to job: those of others are not taken or removed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gangline.dialects import read_plain
from gangline.engines.kubernetes import KubernetesEngine, names
from gangline.kube import CONFIG_MAPS, PODS, SERVICES, Owner, OwnerReference, Resource
from gangline.lifecycle.events import GangFailed, GangStopped, ReplicaExited, ReplicaStarted
from gangline.model import Clean, Gang, GangId, GangReplica, JobId, NodeName, ReplicaId, RoleName
from gangline.testing.builders import FakeClock
from gangline.testing.engine_suite import NewsReader, eventually
from tests.engines.kubernetes.fake_cluster import FakeCluster

Plain = dict[str, Any]
OURS = {"gangline.dev/controller": "gangline", "gangline.dev/job-id": "job-1"}
ANOTHER_JOBS = {"gangline.dev/controller": "gangline", "gangline.dev/job-id": "job-2", "gangline.dev/part": "network"}
OTHER = GangId(JobId("job-2"), 1)
LEFT = GangReplica(id=ReplicaId(RoleName("worker"), 0), node=NodeName("node-0"))


def gang(kind: str, field: str, replicas: Plain) -> Gang:
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "mnist", "namespace": "default"},
        "spec": {field: replicas},
    }
    (translation,) = read_plain(manifest)
    placed = tuple(
        GangReplica(id=ReplicaId(role.name, index), node=NodeName("node-0"))
        for role in translation.spec.roles
        for index in range(role.replicas)
    )
    return Gang(id=GangId(JobId("job-1"), 1), spec=translation.spec, replicas=placed)


def template(container: str) -> Plain:
    return {"template": {"spec": {"containers": [{"name": container, "image": "x", "command": ["x"]}]}}}


def tfjob() -> Gang:
    return gang("TFJob", "tfReplicaSpecs", {"Worker": template("tensorflow")})


def mpijob() -> Gang:
    return gang(
        "MPIJob", "mpiReplicaSpecs", {"Launcher": template("mpi"), "Worker": {"replicas": 1, **template("mpi")}}
    )


async def test_the_secret_of_a_job_with_parameter_servers_is_there_before_its_pods(
    cluster: FakeCluster, engine: KubernetesEngine
) -> None:
    roles = {"PS": template("tensorflow"), "Worker": template("tensorflow")}
    await engine.run(gang("TFJob", "tfReplicaSpecs", roles))
    created = [plural for plural, _ in cluster.objects]
    assert created.index("secrets") < created.index("pods")


@pytest.fixture
async def news(engine: KubernetesEngine) -> AsyncIterator[NewsReader]:
    news = NewsReader(engine)
    yield news
    await news.close()


def labels(cluster: FakeCluster, resource: Resource[Any], name: str) -> Plain:
    found = cluster.objects.get((resource.plural, name), {"metadata": {}})
    given: Plain = found["metadata"].get("labels", {})
    return given


@pytest.mark.parametrize(
    ("resource", "other", "label"),
    [
        pytest.param(SERVICES, PODS, ANOTHER_JOBS, id="service"),
        pytest.param(PODS, SERVICES, {**ANOTHER_JOBS, **names.replica_labels(OTHER, LEFT)}, id="pod"),
    ],
)
async def test_a_job_waits_for_what_a_deleted_job_of_its_name_left(
    cluster: FakeCluster, engine: KubernetesEngine, resource: Resource[Any], other: Resource[Any], label: Plain
) -> None:
    await cluster.create(resource, {"metadata": {"name": "mnist-worker-0", "labels": label}})
    launch = asyncio.create_task(engine.run(tfjob()))

    async def begun() -> bool:
        return labels(cluster, other, "mnist-worker-0").items() >= OURS.items()

    await eventually(begun)
    assert labels(cluster, resource, "mnist-worker-0") == label
    await cluster.delete(resource, "mnist-worker-0")
    await launch
    assert labels(cluster, resource, "mnist-worker-0").items() >= OURS.items()


async def test_a_job_that_ends_leaves_the_service_of_the_next_one_of_its_name(
    cluster: FakeCluster, engine: KubernetesEngine, news: NewsReader
) -> None:
    order = tfjob()
    await engine.run(order)
    cluster.change(SERVICES, "mnist-worker-0", {"metadata": {"name": "mnist-worker-0", "labels": ANOTHER_JOBS}})
    await engine.stop(order.id, 1.0)
    await news.wait_for(GangStopped)
    assert labels(cluster, SERVICES, "mnist-worker-0") == ANOTHER_JOBS


@pytest.mark.parametrize(
    ("order", "resource", "name", "want_reason"),
    [
        pytest.param(tfjob(), SERVICES, "mnist-worker-0", "ServiceNameTaken", id="service of a replica"),
        pytest.param(mpijob(), SERVICES, "mnist", "ServiceNameTaken", id="service of an MPIJob"),
        pytest.param(mpijob(), CONFIG_MAPS, "mnist-config", "ConfigMapNameTaken", id="hostfile of an MPIJob"),
    ],
)
async def test_what_somebody_else_made_is_neither_used_nor_changed_nor_removed(
    cluster: FakeCluster,
    engine: KubernetesEngine,
    news: NewsReader,
    order: Gang,
    resource: Resource[Any],
    name: str,
    want_reason: str,
) -> None:
    await cluster.create(resource, {"metadata": {"name": name, "labels": {"mine": "yes"}}, "data": {"key": "value"}})
    before = dict(cluster.objects[resource.plural, name])
    await engine.run(order)
    (failed,) = await news.wait_for(GangFailed)
    assert (failed.reason, failed.permanent) == (want_reason, False)
    await engine.stop(order.id, 1.0)
    await news.wait_for(GangStopped)
    assert cluster.objects[resource.plural, name] == before


class JobObject:
    """The job object that owns all of the job."""

    async def owner_of(self, job_id: JobId) -> Owner:
        reference = OwnerReference(api_version="kubeflow.org/v1", kind="TFJob", name="mnist", uid="uid-1")
        return Owner(workers(1).spec.tenant, reference)


@pytest.fixture
async def owning_engine(cluster: FakeCluster) -> AsyncIterator[KubernetesEngine]:
    engine = KubernetesEngine(cluster, clock=FakeClock(), owners=JobObject())  # type: ignore[arg-type]  # the fake
    yield engine
    await engine.close()


def workers(count: int) -> Gang:
    whole = gang("TFJob", "tfReplicaSpecs", {"Worker": {"replicas": 3, **template("tensorflow")}})
    return replace(whole, replicas=whole.replicas[:count])


@pytest.mark.parametrize(
    ("clean", "want"),
    [
        pytest.param(Clean.ALL, [], id="All"),
        pytest.param(Clean.RUNNING, ["mnist-worker-0"], id="Running: that of the pod which has ended"),
        pytest.param(Clean.NONE, ["mnist-worker-0", "mnist-worker-1"], id="None"),
    ],
)
async def test_services_are_left_with_the_pods_that_the_clean_up_policy_leaves(
    cluster: FakeCluster, owning_engine: KubernetesEngine, clean: Clean, want: list[str]
) -> None:
    order = workers(2)
    news = NewsReader(owning_engine)
    await owning_engine.run(order)
    await news.wait_for(ReplicaStarted, count=2)
    cluster.finish("mnist-worker-0")
    await news.wait_for(ReplicaExited)
    if clean is Clean.NONE:
        cluster.finish("mnist-worker-1")
        await news.wait_for(ReplicaExited, count=2)
    await owning_engine.stop(order.id, 1.0, clean=clean)
    await news.wait_for(GangStopped)
    assert sorted(cluster.names("services")) == want
    await news.close()


async def test_the_services_of_replicas_that_are_scaled_away_go(
    cluster: FakeCluster, owning_engine: KubernetesEngine
) -> None:
    news = NewsReader(owning_engine)
    await owning_engine.run(workers(3))
    await owning_engine.run(workers(1))

    async def gone() -> bool:
        return cluster.names("services") == ["mnist-worker-0"]

    await eventually(gone)
    await news.close()
