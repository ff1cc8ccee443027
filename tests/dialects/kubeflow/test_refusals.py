"""Invalid Kubeflow jobs: upstream's refusals in spirit, with our field and line."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gangline.dialects import read
from gangline.errors import InvalidInputError

from .conftest import make_job, make_replica

Plain = dict[str, Any]


def without(replica: Plain, *path: str) -> Plain:
    place = replica
    for step in path[:-1]:
        place = place[step] if isinstance(place, dict) else place[int(step)]
    del place[path[-1]]
    return replica


def required(*terms: Plain) -> Plain:
    """An affinity to nodes."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


AFFINITY = (
    "spec.tfReplicaSpecs.Worker.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
)
CONTAINER = ("template", "spec", "containers", "0")
PT = "PyTorchJob"

CASES: dict[str, tuple[Callable[[], Plain], str, str, str | None]] = {
    # id: (job, field, part of the problem, suggestion)
    "no replicas": (lambda: make_job("TFJob", {}), "spec.tfReplicaSpecs", "must be required", None),
    "unknown replica type": (
        lambda: make_job("TFJob", {"Wroker": make_replica()}),
        "spec.tfReplicaSpecs.Wroker",
        "unknown replica type",
        "Worker",
    ),
    "a type given twice": (
        lambda: make_job("TFJob", {"Worker": make_replica(), "worker": make_replica()}),
        "spec.tfReplicaSpecs.worker",
        "Worker is given twice",
        None,
    ),
    "bad namespace": (
        lambda: {**make_job("TFJob", {"Worker": make_replica()}), "metadata": {"name": "a", "namespace": "A"}},
        "metadata.namespace",
        "'A' is not a valid name",
        None,
    ),
    "a nameless variable": (
        lambda: make_job("TFJob", {"Worker": make_replica(env=[{"name": "", "value": "x"}])}),
        "spec.tfReplicaSpecs.Worker.template.spec.containers[0].env[0].name",
        "not a name for a variable",
        None,
    ),
    "an affinity that selects nothing": (
        lambda: make_job("TFJob", {"Worker": make_replica(pod={"affinity": required({})})}),
        f"{AFFINITY}.nodeSelectorTerms",
        "it selects no node",
        None,
    ),
    "a field that nodes do not have": (
        lambda: make_job(
            "TFJob",
            {"Worker": make_replica(pod={"affinity": required({"matchFields": [{"key": "a", "operator": "Exists"}]})})},
        ),
        f"{AFFINITY}.nodeSelectorTerms[0].matchFields[0].key",
        "nodes have no field 'a'",
        None,
    ),
    "no slots": (
        lambda: make_job("MPIJob", {"Launcher": make_replica("MPIJob")}, slotsPerWorker=0),
        "spec.slotsPerWorker",
        "0 is too small",
        None,
    ),
    "a gang larger than the job": (
        lambda: make_job(
            "TFJob", {"Worker": make_replica(count=2)}, runPolicy={"schedulingPolicy": {"minAvailable": 3}}
        ),
        "spec.runPolicy.schedulingPolicy.minAvailable",
        "3 is more than the job has replicas: it would never start",
        None,
    ),
    "text for a switch": (
        lambda: make_job("TFJob", {"Worker": make_replica()}, runPolicy={"suspend": "yes"}),
        "spec.runPolicy.suspend",
        "found the text 'yes'",
        None,
    ),
    "a master too many": (
        lambda: make_job("TFJob", {"Chief": make_replica(), "Master": make_replica()}),
        "spec.tfReplicaSpecs",
        "must not have more than 1 Chief or Master role",
        None,
    ),
    "all counts zero": (
        lambda: make_job("TFJob", {"Worker": make_replica(count=0)}),
        "spec.tfReplicaSpecs",
        "no replicas",
        None,
    ),
    "no template": (
        lambda: make_job("TFJob", {"Worker": {"replicas": 1}}),
        "spec.tfReplicaSpecs.Worker.template.spec.containers",
        "must be specified",
        None,
    ),
    "no containers": (
        lambda: make_job("TFJob", {"Worker": {"template": {"spec": {"containers": []}}}}),
        "spec.tfReplicaSpecs.Worker.template.spec.containers",
        "must be specified",
        None,
    ),
    "no image": (
        lambda: make_job("TFJob", {"Worker": without(make_replica(), *CONTAINER, "image")}),
        "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image",
        "must be required",
        None,
    ),
    "container of another name": (
        lambda: make_job("TFJob", {"Worker": make_replica(name="main")}),
        "spec.tfReplicaSpecs.Worker.template.spec.containers",
        "must have at least one container with name tensorflow",
        None,
    ),
    "generated name": (
        lambda: {**make_job("TFJob", {"Worker": make_replica()}), "metadata": {"generateName": "mnist-"}},
        "metadata.name",
        "the field is missing, and none is made from generateName here",
        None,
    ),
    "bad name": (
        lambda: make_job("TFJob", {"Worker": make_replica()}, name="1st"),
        "metadata.name",
        "'1st' should match a DNS-1035 label",
        None,
    ),
    "bad restart policy": (
        lambda: make_job("TFJob", {"Worker": make_replica(restart="onFailure")}),
        "spec.tfReplicaSpecs.Worker.restartPolicy",
        "'onFailure'",
        "OnFailure",
    ),
    "unknown field": (
        lambda: make_job("TFJob", {"Worker": make_replica()}, runPolcy={}),
        "spec.runPolcy",
        "unknown field",
        "runPolicy",
    ),
    "unknown field in run policy": (
        lambda: make_job("TFJob", {"Worker": make_replica()}, runPolicy={"backoffLimits": 1}),
        "spec.runPolicy.backoffLimits",
        "unknown field",
        "backoffLimit",
    ),
    "negative deadline": (
        lambda: make_job("TFJob", {"Worker": make_replica()}, runPolicy={"activeDeadlineSeconds": -1}),
        "spec.runPolicy.activeDeadlineSeconds",
        "-1 is too small",
        None,
    ),
    "bad clean pod policy": (
        lambda: make_job("TFJob", {"Worker": make_replica()}, runPolicy={"cleanPodPolicy": "Runing"}),
        "spec.runPolicy.cleanPodPolicy",
        "Runing",
        "Running",
    ),
    "somebody else's manager": (
        lambda: make_job("TFJob", {"Worker": make_replica()}, runPolicy={"managedBy": "me"}),
        "spec.runPolicy.managedBy",
        "'me'",
        None,
    ),
    "bad success policy": (
        lambda: make_job("TFJob", {"Worker": make_replica()}, successPolicy="AllWorker"),
        "spec.successPolicy",
        "AllWorker",
        "AllWorkers",
    ),
    "two masters": (
        lambda: make_job(PT, {"Master": make_replica(PT, 2)}),
        "spec.pytorchReplicaSpecs.Master.replicas",
        "must be 1",
        None,
    ),
    "no workers": (
        lambda: make_job(PT, {"Master": make_replica(PT), "Worker": make_replica(PT, 0)}),
        "spec.pytorchReplicaSpecs.Worker.replicas",
        "must be at least 1",
        None,
    ),
    "elastic without workers": (
        lambda: make_job(PT, {"Master": make_replica(PT)}, elasticPolicy={}),
        "spec.pytorchReplicaSpecs.Worker",
        "must be configured if elastic policy is used",
        None,
    ),
    "processes twice": (
        lambda: make_job(PT, {"Worker": make_replica(PT)}, nprocPerNode="2", elasticPolicy={"nProcPerNode": 2}),
        "spec.elasticPolicy.nProcPerNode",
        "must not be used with spec.nprocPerNode",
        None,
    ),
    "no number of processes": (
        lambda: make_job(PT, {"Worker": make_replica(PT)}, nprocPerNode="many"),
        "spec.nprocPerNode",
        "'many'",
        None,
    ),
    "fewer workers than the least": (
        lambda: make_job(PT, {"Worker": make_replica(PT, 2)}, elasticPolicy={"minReplicas": 3}),
        "spec.elasticPolicy.minReplicas",
        "3 is more than the 2 workers",
        None,
    ),
    "more workers than the most": (
        lambda: make_job(PT, {"Worker": make_replica(PT, 2)}, elasticPolicy={"maxReplicas": 1}),
        "spec.elasticPolicy.maxReplicas",
        "1 is less than the 2 workers",
        None,
    ),
    "no launcher": (
        lambda: make_job("MPIJob", {"Worker": make_replica("MPIJob")}),
        "spec.mpiReplicaSpecs.Launcher",
        "must be present",
        None,
    ),
    "no master": (
        lambda: make_job("XGBoostJob", {"Worker": make_replica("XGBoostJob")}),
        "spec.xgbReplicaSpecs.Master",
        "must be present",
        None,
    ),
    "restart policy the second version does not know": (
        lambda: make_job(
            "MPIJob", {"Launcher": make_replica("MPIJob", restart="ExitCode")}, version="kubeflow.org/v2beta1"
        ),
        "spec.mpiReplicaSpecs.Launcher.restartPolicy",
        "ExitCode",
        None,
    ),
    "field of the first version in the second": (
        lambda: make_job(
            "MPIJob", {"Launcher": make_replica("MPIJob")}, version="kubeflow.org/v2beta1", mainContainer="mpi"
        ),
        "spec.mainContainer",
        "unknown field",
        None,
    ),
    "unknown implementation": (
        lambda: make_job(
            "MPIJob", {"Launcher": make_replica("MPIJob")}, version="kubeflow.org/v2beta1", mpiImplementation="OpenMP"
        ),
        "spec.mpiImplementation",
        "OpenMP",
        "OpenMPI",
    ),
    "a version the kind never had": (
        lambda: make_job(PT, {"Worker": make_replica(PT)}, version="kubeflow.org/v1beta1"),
        "apiVersion",
        "v1beta1",
        "kubeflow.org/v1",
    ),
    "a kind with a slip": (
        lambda: {**make_job("TFJob", {"Worker": make_replica()}), "kind": "TfJobs"},
        "kind",
        "unknown kind 'TfJobs'",
        "TFJob",
    ),
    "our kind in their group": (
        lambda: {**make_job("TFJob", {"Worker": make_replica()}), "kind": "Job", "apiVersion": "batch/v1"},
        "apiVersion",
        "batch/v1",
        None,
    ),
    "no old template": (
        lambda: {
            "apiVersion": "kubeflow.org/v1alpha1",
            "kind": "TFJob",
            "metadata": {"name": "old"},
            "spec": {"replicaSpecs": [{"tfReplicaType": "MASTER"}]},
        },
        "spec.replicaSpecs[0].template.spec.containers",
        "must be specified",
        None,
    ),
    "an old type given twice": (
        lambda: {
            "apiVersion": "kubeflow.org/v1alpha1",
            "kind": "TFJob",
            "metadata": {"name": "old"},
            "spec": {"replicaSpecs": [make_replica(), make_replica()]},
        },
        "spec.replicaSpecs",
        "given twice",
        None,
    ),
    "no old chief": (
        lambda: {
            "apiVersion": "kubeflow.org/v1alpha1",
            "kind": "TFJob",
            "metadata": {"name": "old"},
            "spec": {"replicaSpecs": [{"tfReplicaType": "WORKER", **make_replica()}]},
        },
        "spec.replicaSpecs",
        "Missing ReplicaSpec for chief: MASTER",
        None,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_an_invalid_job_is_refused_with_its_place(case: tuple[Callable[[], Plain], str, str, str | None]) -> None:
    make, field, problem, suggestion = case
    text = yaml.safe_dump(make(), sort_keys=False)
    with pytest.raises(InvalidInputError) as refusal:
        read(text, file="job.yaml")
    error = refusal.value
    assert (error.field, error.suggestion, error.file) == (field, suggestion, "job.yaml")
    assert problem in error.problem
    assert error.line is not None
    assert error.expected
