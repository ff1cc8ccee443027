"""What upstream's webhook refuses is refused at apply, with the field named; the rest is told in the status."""

from typing import Any

import pytest

from gangline.kube import InvalidError
from tests.integration.kubernetes.kubeflow import RESOURCES, Play, conditions, job_object, replica
from tests.integration.kubernetes.world import World, eventually

Plain = dict[str, Any]


def without(kind: str, *path: str) -> Plain:
    """A replica whose first container lacks a field."""
    spec = replica(kind)
    del spec["template"]["spec"]["containers"][0][path[-1]]
    return spec


def named(kind: str, name: str) -> Plain:
    spec = replica(kind)
    spec["template"]["spec"]["containers"][0]["name"] = name
    return spec


def asking(kind: str, **resources: Plain) -> Plain:
    spec = replica(kind)
    spec["template"]["spec"]["containers"][0]["resources"] = resources
    return spec


async def test_amounts_and_gangs_as_upstream_takes_them_are_taken(kubeflow: World) -> None:
    worker = asking("TFJob", requests={"cpu": "0.5", "memory": "1Gi"}, limits={"cpu": 2, "nvidia.com/gpu": "1"})
    policy = {"schedulingPolicy": {"minAvailable": 1, "minResources": {"cpu": 1.5, "memory": "1e3"}}}
    body = job_object("TFJob", "x", {"Worker": worker}, runPolicy=policy)
    await kubeflow.client.create(RESOURCES["TFJob"], body, namespace=kubeflow.namespace, dry_run=True)


@pytest.mark.parametrize(
    ("kind", "name", "replicas", "spec", "want"),
    [
        pytest.param("TFJob", "x", {}, {}, "spec.tfReplicaSpecs", id="no replicas"),
        pytest.param(
            "TFJob", "0digit", {"Worker": replica("TFJob")}, {}, "metadata.name: should match a DNS-1035", id="name"
        ),
        pytest.param(
            "TFJob",
            "x",
            {"Worker": named("TFJob", "main")},
            {},
            "containers: Invalid value: must have at least one container with name tensorflow",
            id="container",
        ),
        pytest.param(
            "TFJob",
            "x",
            {"Worker": without("TFJob", "image")},
            {},
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image: Required value",
            id="image",
        ),
        pytest.param(
            "TFJob",
            "x",
            {"Chief": replica("TFJob"), "Master": replica("TFJob")},
            {},
            "spec.tfReplicaSpecs: Invalid value: must not have more than 1 Chief or Master role",
            id="two leads",
        ),
        pytest.param(
            "PyTorchJob",
            "x",
            {"Master": replica("PyTorchJob", 2)},
            {},
            "spec.pytorchReplicaSpecs: Invalid value: Master.replicas: must be 1",
            id="two masters",
        ),
        pytest.param(
            "PyTorchJob",
            "x",
            {"Master": replica("PyTorchJob"), "Worker": replica("PyTorchJob", 0)},
            {},
            "spec.pytorchReplicaSpecs: Invalid value: Worker.replicas: must be at least 1",
            id="no workers",
        ),
        pytest.param(
            "PyTorchJob",
            "x",
            {"Server": replica("PyTorchJob")},
            {},
            "supported replica types: Master, Worker",
            id="type",
        ),
        pytest.param(
            "PyTorchJob",
            "x",
            {"Worker": replica("PyTorchJob")},
            {"nprocPerNode": "2", "elasticPolicy": {"nProcPerNode": 2}},
            "elasticPolicy.nProcPerNode: must not be used with spec.nprocPerNode",
            id="both processes per node",
        ),
        pytest.param(
            "PyTorchJob",
            "x",
            {"Worker": replica("PyTorchJob")},
            {"elasticPolicy": {"minReplicas": 2}},
            "Worker.replicas: must be at least elasticPolicy.minReplicas",
            id="fewer than the minimum",
        ),
        pytest.param("MPIJob", "x", {"Worker": replica("MPIJob")}, {}, "Launcher must be present", id="no launcher"),
        pytest.param(
            "TFJob",
            "x",
            {"Worker": asking("TFJob", requests={"cpu": "lots"})},
            {},
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].resources.requests.cpu: Invalid value",
            id="amount",
        ),
        pytest.param(
            "TFJob",
            "x",
            {"Chief": replica("TFJob"), "Worker": replica("TFJob", 2)},
            {"runPolicy": {"schedulingPolicy": {"minAvailable": 4}}},
            "minAvailable: must be at most the number of all replicas",
            id="a gang larger than the job",
        ),
        pytest.param(
            "MPIJob",
            "x",
            {"Launcher": replica("MPIJob"), "Worker": {"template": replica("MPIJob")["template"]}},
            {"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}},
            "minAvailable: must be at most the number of all replicas",
            id="a gang with workers that nobody asked for",
        ),
        pytest.param(
            "TFJob",
            "x",
            {"Worker": replica("TFJob", restart="Sometimes")},
            {},
            "spec.tfReplicaSpecs.Worker.restartPolicy: Unsupported value",
            id="restart policy",
        ),
        pytest.param(
            "TFJob",
            "x",
            {"Worker": replica("TFJob")},
            {"runPolicy": {"managedBy": "me"}},
            "spec.runPolicy.managedBy: Unsupported value",
            id="manager",
        ),
    ],
)
async def test_an_invalid_job_is_refused_with_the_field_named(
    kubeflow: World, kind: str, name: str, replicas: Plain, spec: Plain, want: str
) -> None:
    body = job_object(kind, name, replicas, **spec)
    with pytest.raises(InvalidError) as refused:
        await kubeflow.client.create(RESOURCES[kind], body, namespace=kubeflow.namespace, dry_run=True)
    assert want in refused.value.message


async def test_what_only_the_translation_finds_is_told_in_the_status(kubeflow: World) -> None:
    specs = {"Worker": replica("TFJob")}
    play = await Play.begin(kubeflow, "TFJob", "wrong", specs, runPolicy={"schedulingPolicy": {"queue": "No Good"}})
    found = await play.condition("Failed")
    (failed,) = found.status["conditions"]
    assert failed["reason"] == "TFJobInvalidSpec"
    assert "spec.runPolicy.schedulingPolicy.queue" in failed["message"]

    async def announced() -> bool:
        return "TFJobFailedValidation" in await play.reasons()

    await eventually(announced)


async def test_a_spec_that_is_made_unreadable_does_not_harm_the_job_that_runs(kubeflow: World) -> None:
    play = await Play.begin(kubeflow, "TFJob", "spoilt", {"Chief": replica("TFJob"), "Worker": replica("TFJob")})
    other = await Play.begin(kubeflow, "TFJob", "fine", {"Worker": replica("TFJob")})
    await play.condition("Running")
    await play.patch({"spec": {"runPolicy": {"schedulingPolicy": {"queue": "No Good"}}}})
    await other.tell_to_exit("worker-0", 0)
    await other.done("Succeeded")
    await kubeflow.restart()
    await play.tell_to_exit("chief-0", 0)
    ended = await play.done("Succeeded")
    assert list(conditions(ended)) == ["Created", "Running", "Succeeded"]
