"""What a person's own machine sees of a cluster."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gangline.engines.kubernetes.names import FOREIGN
from gangline.engines.kubernetes.observer import KubernetesObserver
from gangline.errors import PermissionDeniedError
from gangline.kube import ForbiddenError, Owner, OwnerReference
from gangline.model import GangId, Job, JobId, ReplicaId, Tenant
from gangline.operations.cluster_data import ClusterRecords
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import FakeClock, make_role, make_running_job, make_spec
from tests.engines.kubernetes.fake_cluster import FakeCluster

TENANT = "team-a"


def pod(name: str, *, namespace: str = TENANT) -> dict[str, Any]:
    container = {"name": "app", "resources": {"requests": {"cpu": "500m"}}}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"nodeName": "node-0", "schedulerName": "gangline", "containers": [container]},
        "status": {"phase": "Running"},
    }


def record_of(*pods: str) -> Job:
    """A job that stands for these pods and holds what they use."""
    manifest = {"pods": {f"pods-{index}": {"name": name, "uid": f"uid-{name}"} for index, name in enumerate(pods)}}
    spec = make_spec(
        roles=(make_role("pods", replicas=len(pods), pod_template_json="{}", command=()),),
        tenant=Tenant(TENANT),
        labels={FOREIGN: "true"},
        manifest_json=msgspec.json.encode(manifest).decode(),
    )
    return make_running_job(spec)


def observer(cluster: FakeCluster, *jobs: Job) -> KubernetesObserver:
    async def holding() -> list[Job]:
        return list(jobs)

    return KubernetesObserver(
        cluster,
        clock=FakeClock(),
        namespace=TENANT,
        owners=Owners(),
        code_directory=Path(),
        holding=holding,
        records=ClusterRecords(MemoryStore(), FakeClock()),
        refusal=lambda error: error,
    )


class Owners:
    """Every job has an object in the tenant's namespace, whose uid follows from its id."""

    async def owner_of(self, job_id: JobId) -> Owner:
        reference = OwnerReference(api_version="gangline.dev/v1", kind="Job", name="mnist", uid=f"uid-{job_id}")
        return Owner(TENANT, reference)


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    for body in (pod("one"), pod("two"), pod("theirs", namespace="team-b")):
        cluster.objects["pods", body["metadata"]["name"]] = body
    return cluster


async def foreign_cpu(seen: KubernetesObserver) -> tuple[int, int]:
    first, _ = await seen.nodes()
    return first.foreign.cpu_millis, first.foreign_pods


async def test_pods_that_nobody_recorded_count_as_somebody_elses(cluster: FakeCluster) -> None:
    assert await foreign_cpu(observer(cluster)) == (1500, 3)


async def test_pods_of_a_recorded_gang_count_once_with_the_job_that_holds_them(cluster: FakeCluster) -> None:
    assert await foreign_cpu(observer(cluster, record_of("one", "two"))) == (500, 1)


async def test_a_record_cannot_hide_pods_of_another_tenant(cluster: FakeCluster) -> None:
    assert await foreign_cpu(observer(cluster, record_of("one", "theirs"))) == (1000, 2)


async def test_a_job_that_only_looks_like_a_record_is_passed_over(cluster: FakeCluster) -> None:
    bad = record_of("one")
    bad = replace(bad, spec=replace(bad.spec, manifest_json='{"pods": 3}'))
    assert await foreign_cpu(observer(cluster, bad)) == (1500, 3)


async def test_who_may_not_read_the_cluster_is_told_so(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise ForbiddenError("you may not", status=403)

    monkeypatch.setattr(cluster, "list", refuse)
    with pytest.raises(PermissionDeniedError, match="nodes and pods of the whole cluster"):
        await observer(cluster).nodes()


def replica_pod(
    name: str, role: str = "worker", *, attempt: int = 1, phase: str = "Running", owner: str = "uid-job-1"
) -> dict[str, Any]:
    labels = {
        "gangline.dev/controller": "gangline",
        "gangline.dev/part": "replica",
        "gangline.dev/job-id": "job-1",
        "gangline.dev/attempt": str(attempt),
        "gangline.dev/role": role,
        "gangline.dev/index": "0",
        "gangline.dev/incarnation": "0",
    }
    body = pod(name)
    owners = [{"apiVersion": "gangline.dev/v1", "kind": "Job", "name": "mnist", "uid": owner}]
    metadata = {**body["metadata"], "labels": labels, "ownerReferences": owners}
    return {**body, "metadata": metadata, "status": {"phase": phase}}


async def test_a_drill_takes_away_the_pod_in_which_the_replica_runs_now(cluster: FakeCluster) -> None:
    pods = [
        replica_pod("earlier", attempt=1),
        replica_pod("ended", attempt=2, phase="Failed"),
        replica_pod("other", "ps", attempt=2),
        replica_pod("forged", attempt=2, owner="uid-of-somebody-else"),
        replica_pod("meant", attempt=2),
    ]
    for body in pods:
        cluster.objects["pods", body["metadata"]["name"]] = body
    worker = ReplicaId.parse("worker-0")
    assert await observer(cluster).kill(GangId(JobId("job-1"), 2), worker)
    assert set(cluster.names("pods")) == {"one", "two", "theirs", "earlier", "ended", "other", "forged"}
    assert not await observer(cluster).kill(GangId(JobId("job-1"), 2), worker), "nothing of it runs any more"
