"""Two tenants: what a writes into its own namespace, or under b's names, is never a part of b's job."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gangline.engines.interface import LogQuery
from gangline.engines.kubernetes import KubernetesEngine
from gangline.engines.kubernetes.launching import job_files as sending_module
from gangline.engines.kubernetes.logs.saved_logs import SavedLog, pack
from gangline.engines.kubernetes.names import ReplicaKey, gang_labels, job_labels, job_name, replica_labels
from gangline.kube import CONFIG_MAPS, PODS, SERVICES, Owner, OwnerReference
from gangline.lifecycle.events import GangFailed, GangStopped, ReplicaExited, ReplicaStarted
from gangline.model import Gang, GangId, GangReplica, JobId, NodeName, ReplicaId, Resources, Tenant
from gangline.testing.builders import FakeClock, make_role, make_spec
from gangline.testing.engine_suite import NewsReader
from tests.engines.kubernetes.fake_cluster import FakeCluster

JOB = JobId("job-of-b")
ROLE = make_role(image="busybox", replicas=2, resources=Resources(cpu_millis=1000, memory_mib=1024))
FIRST = GangReplica(id=ReplicaId(ROLE.name, 0), node=NodeName("node-0"))
GANG = Gang(
    id=GangId(JOB, 1),
    spec=make_spec(roles=(ROLE,), tenant=Tenant("b")),
    replicas=(FIRST, replace(FIRST, id=ReplicaId(ROLE.name, 1))),
)
REFERENCE = OwnerReference(api_version="gangline.dev/v1", kind="Job", name="mnist", uid="uid-of-the-job")


class Owners:
    """Knows the object of b's job."""

    async def owner_of(self, job_id: JobId) -> Owner | None:
        return Owner("b", REFERENCE) if job_id == JOB else None


@pytest.fixture
async def engine(cluster: FakeCluster) -> AsyncIterator[KubernetesEngine]:
    engine = KubernetesEngine(cluster, clock=FakeClock(), owners=Owners())  # type: ignore[arg-type]  # the fake
    yield engine
    await engine.close()


@pytest.fixture
async def news(engine: KubernetesEngine) -> AsyncIterator[NewsReader]:
    reader = NewsReader(engine)
    yield reader
    await reader.close()


async def settled() -> None:
    """Let everything that is ready run."""
    for _ in range(50):
        await asyncio.sleep(0)


def owned_by(uid: str) -> list[dict[str, str]]:
    return [{"apiVersion": "gangline.dev/v1", "kind": "Job", "name": "mnist", "uid": uid}]


FORGED = {
    "in another namespace": {"namespace": "a"},
    "in another namespace, with the owner's uid": {"namespace": "a", "ownerReferences": owned_by("uid-of-the-job")},
    "in the job's namespace, without an owner": {"namespace": "b"},
    "in the job's namespace, with another owner": {"namespace": "b", "ownerReferences": owned_by("uid-of-another")},
}


@pytest.fixture(params=FORGED.values(), ids=FORGED)
def forged(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The metadata of something that says it is part of b's job, and is not."""
    return {"name": "forged", "uid": "uid-forged", **request.param}


def forged_pod(metadata: dict[str, Any], replica: GangReplica = FIRST) -> dict[str, Any]:
    """A pod with all labels of a replica of b's."""
    labels = {"gangline.dev/controller": "gangline", **replica_labels(GANG.id, replica)}
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {**metadata, "labels": labels},
        "spec": {"nodeName": "node-1", "containers": [container]},
    }


async def end(cluster: FakeCluster, name: str, code: int) -> None:
    ended = {"exitCode": code, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}
    cluster.change(PODS, name, {**cluster.objects["pods", name], "status": status})


async def test_a_pod_that_only_looks_like_a_replica_ends_nobodys_job(
    cluster: FakeCluster, engine: KubernetesEngine, news: NewsReader, forged: dict[str, Any]
) -> None:
    await engine.run(GANG)
    await news.wait_for(ReplicaStarted, count=2)
    await cluster.create(PODS, forged_pod(forged))
    await end(cluster, "forged", 3)
    await settled()
    assert not news.of(ReplicaExited)
    own = job_name("mnist", JOB)
    await end(cluster, f"{own}-1-worker-0", 4)
    (exited,) = await news.wait_for(ReplicaExited)
    assert exited.exit_code == 4, "the real replica is still heard"


async def test_such_a_pod_is_neither_taken_for_one_that_is_missing_nor_taken_down(
    cluster: FakeCluster, engine: KubernetesEngine, news: NewsReader, forged: dict[str, Any]
) -> None:
    await cluster.create(PODS, forged_pod(forged))
    await engine.run(GANG)
    await settled()
    assert len(cluster.pods()) == 3, "both replicas were started beside it"
    assert (await engine.nodes())[1].foreign.cpu_millis == 1000, "it counts as somebody else's"
    await engine.stop(GANG.id, 0)
    await news.wait_for(GangStopped)
    await engine.forget(JOB)
    assert list(cluster.pods()) == ["forged"]


async def test_a_new_life_knows_its_own_replicas_from_such_a_pod(
    cluster: FakeCluster, engine: KubernetesEngine, forged: dict[str, Any]
) -> None:
    await engine.run(GANG)
    await cluster.create(PODS, forged_pod(forged))
    await engine.close()
    second = KubernetesEngine(cluster, clock=FakeClock(), owners=Owners())  # type: ignore[arg-type]  # the fake
    news = NewsReader(second)
    await second.run(replace(GANG, replicas=tuple(replace(each, started=True) for each in GANG.replicas)))
    await news.wait_for(ReplicaStarted, count=2)
    assert len(cluster.pods()) == 3
    assert [node.foreign_pods for node in await second.nodes()] == [0, 1]
    await end(cluster, "forged", 3)
    await settled()
    assert not news.of(ReplicaExited)
    await news.close()
    await second.close()


async def test_a_new_life_finds_a_gang_that_nobody_recorded_by_its_own_pod_alone(
    cluster: FakeCluster, engine: KubernetesEngine, forged: dict[str, Any]
) -> None:
    await engine.run(replace(GANG, replicas=(FIRST,)))
    await cluster.create(PODS, forged_pod(forged))
    await engine.close()
    second = KubernetesEngine(cluster, clock=FakeClock(), owners=Owners())  # type: ignore[arg-type]  # the fake
    news = NewsReader(second)
    (found,) = await second.gangs_found({JOB: 0})
    assert (found.job_id, found.attempt, found.placement) == (JOB, 1, {FIRST.id: FIRST.node})
    assert await second.gangs_found({JOB: 1}) == []
    await news.close()
    await second.close()


async def test_a_replica_stays_one_whatever_is_made_of_its_labels(
    cluster: FakeCluster, engine: KubernetesEngine, news: NewsReader
) -> None:
    await engine.run(GANG)
    await news.wait_for(ReplicaStarted, count=2)
    name, body = next(iter(cluster.pods().items()))
    cluster.change(PODS, name, {**body, "metadata": {**body["metadata"], "labels": {}, "ownerReferences": []}})
    await settled()
    await engine.stop(GANG.id, 0)
    await news.wait_for(GangStopped)
    assert not cluster.pods(), "or its gang would never be gone"


@pytest.mark.parametrize("resource", [PODS, SERVICES], ids=["pod", "service"])
async def test_a_name_that_somebody_took_refuses_the_gang(
    cluster: FakeCluster, engine: KubernetesEngine, news: NewsReader, resource: Any
) -> None:
    own = job_name("mnist", JOB)
    name = own if resource is SERVICES else f"{own}-1-worker-0"
    await cluster.create(resource, {"metadata": {"name": name, "namespace": "b", "uid": "uid-taken"}})
    await engine.run(GANG)
    (failed,) = await news.wait_for(GangFailed)
    assert failed.reason == f"{resource.kind}NameTaken"
    assert failed.message == f"the name {name} of a {resource.kind} belongs to somebody else"


async def test_what_looks_like_a_jobs_files_is_not_deleted_with_it(
    cluster: FakeCluster, engine: KubernetesEngine, news: NewsReader, forged: dict[str, Any]
) -> None:
    for part in ("logs", "hosts"):
        labels = {**job_labels("gangline", JOB), "gangline.dev/part": part}
        await cluster.create(CONFIG_MAPS, {"metadata": {**forged, "name": part, "labels": labels}})
    await engine.stop(GANG.id, 0)
    await news.wait_for(GangStopped)
    await engine.forget(JOB)
    assert cluster.names("configmaps") == ["hosts", "logs"]


async def test_output_is_read_from_the_jobs_own_pods_and_files_alone(
    cluster: FakeCluster, engine: KubernetesEngine, forged: dict[str, Any]
) -> None:
    await engine.run(GANG)
    await cluster.create(PODS, forged_pod(forged, GangReplica(id=ReplicaId(ROLE.name, 7), node=NodeName("node-1"))))
    kept = SavedLog(key=ReplicaKey(GANG.id, ReplicaId(ROLE.name, 8), 0), text=b"2026-01-01T00:00:00.000000000Z forged")
    (body,) = pack(GANG.id, [kept], name="forged", namespace="b", controller="gangline", owner=None)
    await cluster.create(CONFIG_MAPS, {**body, "metadata": {**forged, "labels": body["metadata"]["labels"]}})
    assert gang_labels("gangline", GANG.id).items() <= body["metadata"]["labels"].items()
    lines = [line.text async for line in engine.logs(LogQuery(job_id=JOB))]
    own = job_name("mnist", JOB)
    assert sorted(lines) == [f"{own}-1-worker-0", f"{own}-1-worker-1"]


async def test_code_that_somebody_put_under_the_jobs_name_is_not_run(
    cluster: FakeCluster,
    engine: KubernetesEngine,
    news: NewsReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending_module, "_LOOK_SECONDS", 0.0)
    name = f"{job_name('mnist', JOB)}-code"
    labels = {**job_labels("gangline", JOB), "gangline.dev/part": "code"}
    body = {"metadata": {"name": name, "namespace": "b", "uid": "uid-forged", "labels": labels}, "binaryData": {}}
    await cluster.create(CONFIG_MAPS, body)
    await engine.run(replace(GANG, spec=replace(GANG.spec, code="sha256:1234")))
    (failed,) = await news.wait_for(GangFailed)
    assert failed.reason == "CodeMissing"
    assert not cluster.pods()


async def test_a_template_says_nothing_of_whose_a_pod_is_nor_of_when_it_may_go(
    cluster: FakeCluster, engine: KubernetesEngine
) -> None:
    given = {
        "name": "theirs",
        "generateName": "theirs-",
        "namespace": "a",
        "labels": {"gangline.dev/job-id": "job-of-a", "team": "vision"},
        "annotations": {"note": "kept"},
        "ownerReferences": owned_by("uid-of-another"),
        "finalizers": ["example.com/held"],
    }
    role = replace(ROLE, pod_template_json=json.dumps({"metadata": given, "spec": {"nodeName": "node-9"}}))
    await engine.run(replace(GANG, spec=replace(GANG.spec, roles=(role,))))
    for body in cluster.pods().values():
        metadata = body["metadata"]
        assert {"finalizers", "generateName"}.isdisjoint(metadata)
        assert (metadata["namespace"], body["spec"]["nodeName"]) == ("b", "node-0")
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["uid-of-the-job"]
        assert (metadata["labels"]["gangline.dev/job-id"], metadata["labels"]["team"]) == (JOB, "vision")
        assert metadata["annotations"]["note"] == "kept"
