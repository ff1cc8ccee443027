"""The names of Kubeflow's services and ConfigMaps repeat from job to job: those of others are not taken or removed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gangline.dialects import read_plain
from gangline.engines.kubernetes import KubernetesEngine, names
from gangline.kube import CONFIG_MAPS, PODS, SERVICES, Resource
from gangline.lifecycle.events import GangFailed, GangStopped
from gangline.model import Gang, GangId, GangReplica, JobId, NodeName, ReplicaId, RoleName
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
