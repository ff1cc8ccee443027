"""A cluster that ran upstream's operator moves over without editing a file: objects and pods as it leaves them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gangline.kube import PODS, GenericObject
from tests.integration.kubernetes.kubeflow import RESOURCES, Play, conditions, job_object, replica, state
from tests.integration.kubernetes.world import World, eventually

Plain = dict[str, Any]
BEGAN = "2026-01-01T10:00:00Z"
ENDED = "2026-01-01T11:00:00Z"


@pytest.fixture
async def before(kubeflow: World) -> AsyncIterator[World]:
    """A cluster in which Gangline does not run yet."""
    await kubeflow.kill()
    yield kubeflow
    await kubeflow.restart()


def condition(type_: str, *, status: str = "True", reason: str | None = None) -> Plain:
    return {
        "type": type_,
        "status": status,
        "reason": reason or f"TFJob{type_}",
        "message": f"TFJob mnist is {type_.lower()}.",
        "lastUpdateTime": BEGAN,
        "lastTransitionTime": BEGAN,
    }


async def left_behind(world: World, replicas: Plain, *conditions: Plain, **status: str) -> GenericObject:
    """A TFJob as upstream's operator leaves it."""
    resource = RESOURCES["TFJob"]
    body = job_object("TFJob", "mnist", replicas)
    item = await world.client.create(resource, body, namespace=world.namespace)
    told = {"status": {"conditions": list(conditions), "startTime": BEGAN, **status}}
    await world.client.patch(resource, "mnist", told, namespace=world.namespace, subresource="status")
    return item


async def upstream_pod(world: World, item: GenericObject, role: str, index: int, *, owned: bool = True) -> None:
    """A pod as upstream's operator makes it, scheduled by the cluster's own scheduler."""
    type_ = {"chief": "Chief", "worker": "Worker"}[role]
    template = item.spec["tfReplicaSpecs"][type_]["template"]
    labels = {
        "training.kubeflow.org/job-name": "mnist",
        "training.kubeflow.org/operator-name": "tfjob-controller",
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "name": "mnist",
        "uid": item.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: Plain = {"name": f"mnist-{role}-{index}", "labels": labels}
    if owned:
        metadata["ownerReferences"] = [owner]
    spec = {**template["spec"], "restartPolicy": "Never"}
    await world.client.create(PODS, {"metadata": metadata, "spec": spec}, namespace=world.namespace)


async def running(play: Play, count: int) -> dict[str, str]:
    async def all_running() -> bool:
        pods = await play.pods()
        return len(pods) == count and all(pod.status.phase == "Running" for pod in pods.values())

    await eventually(all_running)
    return {name: pod.metadata.uid for name, pod in (await play.pods()).items()}


@pytest.mark.parametrize("owned", [pytest.param(True, id="owned"), pytest.param(False, id="orphans")])
async def test_running_pods_are_taken_over_and_not_restarted(before: World, owned: bool) -> None:
    world = before
    replicas = {"Chief": replica("TFJob"), "Worker": replica("TFJob", 2)}
    item = await left_behind(world, replicas, condition("Created"), condition("Running"))
    for role, index in (("chief", 0), ("worker", 0), ("worker", 1)):
        await upstream_pod(world, item, role, index, owned=owned)
    play = Play(world, "TFJob", "mnist")
    play.uid = item.metadata.uid
    uids = await running(play, 3)
    await world.restart()
    found = await play.until(lambda found: state(found)["attempt"] == 1)
    assert conditions(found) == {"Created": "True", "Running": "True"}
    assert (await play.job()).started_at is not None

    async def adopted() -> bool:
        return all("gangline.dev/job-id" in pod.metadata.labels for pod in (await play.pods()).values())

    await eventually(adopted)
    pods = await play.pods()
    assert {name: pod.metadata.uid for name, pod in pods.items()} == uids
    assert all(pod.metadata.owner_references[0].uid == item.metadata.uid for pod in pods.values())
    await play.tell_to_exit("chief-0", 0)
    await play.done("Succeeded")
    assert {name: pod.metadata.uid for name, pod in (await play.pods()).items()} == uids


async def test_a_gang_that_is_not_complete_starts_anew_under_the_same_names(before: World) -> None:
    world = before
    replicas = {"Chief": replica("TFJob"), "Worker": replica("TFJob", 2)}
    item = await left_behind(world, replicas, condition("Created"), condition("Restarting"))
    await upstream_pod(world, item, "chief", 0)
    play = Play(world, "TFJob", "mnist")
    await running(play, 1)
    await world.restart()
    await play.condition("Running")
    after = await running(play, 3)
    assert set(after) == {"chief-0", "worker-0", "worker-1"}


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
async def test_what_had_ended_is_not_run_again(before: World, end: str) -> None:
    world = before
    ended = (condition("Created"), condition("Running", status="False"), condition(end))
    await left_behind(world, {"Chief": replica("TFJob")}, *ended, completionTime=ENDED)
    await world.restart()
    fresh = await Play.begin(world, "TFJob", "fresh", {"Worker": replica("TFJob")})
    await fresh.condition("Running")
    old = Play(world, "TFJob", "mnist")
    assert await old.pods() == {}
    found = await old.object()
    assert (conditions(found)[end], found.status["completionTime"]) == ("True", ENDED)
    assert [job.name async for job in world.store.unfinished()] == ["fresh"]
