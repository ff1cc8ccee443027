"""Jobs as custom resources: applied, changed and refused by hand, as anybody with kubectl would."""

import pytest

from gangline.kube import InvalidError
from gangline.model import JobId, Phase
from gangline.storage.kubernetes import JOBS
from tests.integration.kubernetes.world import World, eventually


@pytest.mark.parametrize("world", ["kubernetes"], indirect=True)
async def test_a_job_applied_and_deleted_by_hand_lives_a_whole_life(world: World) -> None:
    body = {
        "metadata": {"name": "by-hand", "labels": {"team": "vision"}},
        "spec": {
            "image": "gangline.local/busybox:1",
            "command": "sh -c 'echo hello; exec sleep 1000'",
            "resources": {"cpu": "50m", "memory": "32Mi"},
            "policy": {"grace": "1s"},
        },
    }
    applied = await world.client.apply(JOBS, body, namespace=world.namespace)
    job = await world.phase(JobId(applied.metadata.uid), Phase.PROCESSING)
    assert (job.name, dict(job.spec.labels), job.spec.tenant) == ("by-hand", {"team": "vision"}, world.namespace)
    (pod,) = await world.pods()
    assert pod.metadata.owner_references[0].uid == applied.metadata.uid
    status = (await world.client.get(JOBS, "by-hand", namespace=world.namespace)).status
    assert (status["phase"], status["ready"]) == ("PROCESSING", "1/1")
    await world.client.delete(JOBS, "by-hand", namespace=world.namespace)
    await world.gone(job.id)
    assert await world.pods() == []


@pytest.mark.parametrize("world", ["kubernetes"], indirect=True)
async def test_what_a_schema_cannot_refuse_is_told_in_the_status(world: World) -> None:
    body = {"metadata": {"name": "wrong"}, "spec": {"command": "true", "env": {"FLAG": True}}}
    await world.client.apply(JOBS, body, namespace=world.namespace)

    async def told() -> bool:
        status = (await world.client.get(JOBS, "wrong", namespace=world.namespace)).status
        return status.get("reason") == "InvalidJob" and "env.FLAG" in status.get("message", "")

    await eventually(told)


@pytest.mark.parametrize("world", ["kubernetes"], indirect=True)
@pytest.mark.parametrize(
    ("spec", "want_field"),
    [
        pytest.param(
            {"roles": {"worker": {"replicas": 0, "command": ["x"]}}}, "spec.roles.worker.replicas", id="count"
        ),
        pytest.param({"command": "x", "placement": {"prefer": "tight"}}, "spec.placement.prefer", id="choice"),
        pytest.param({"image": "x"}, "spec.roles", id="neither roles nor command"),
        pytest.param({"command": "x", "queue": "No Good"}, "spec.queue", id="name"),
        pytest.param({"command": "x", "resources": {"cpu": "lots"}}, "spec.resources.cpu", id="amount"),
        pytest.param({"command": "x", "resources": {"gpu": -1}}, "spec.resources.gpu", id="amount below zero"),
        pytest.param({"command": "x", "policy": {"deadline": "soon"}}, "spec.policy.deadline", id="time"),
        pytest.param({"command": "x", "priority": "urgent"}, "spec.priority", id="priority"),
        pytest.param(
            {
                "roles": {
                    "worker": {"pod_template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}}
                }
            },
            "spec.roles.worker.pod_template.spec.containers[0].resources.limits.cpu",
            id="amount in a template",
        ),
    ],
)
async def test_a_wrong_job_is_refused_with_the_field_named(
    world: World, spec: dict[str, object], want_field: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        await world.client.apply(JOBS, {"metadata": {"name": "wrong"}, "spec": spec}, namespace=world.namespace)
    assert want_field in caught.value.fields
