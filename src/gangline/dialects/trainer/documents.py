"""The documents of Kubeflow Trainer as they are kept: what is wrong with their shape is refused here. Pure."""

import json
from typing import Any

from gangline.dialects.document import compact_json
from gangline.dialects.value import Value
from gangline.model import DEFAULT_TENANT, Tenant
from gangline.model.kinds.train_job import ClusterTrainingRuntimeSpec, TrainingRuntimeSpec, TrainJobSpec

GROUP = "trainer.kubeflow.org"
API_VERSION = f"{GROUP}/v1alpha1"
TRAIN_JOB = "TrainJob"
RUNTIME = "TrainingRuntime"
CLUSTER_RUNTIME = "ClusterTrainingRuntime"
FRAMEWORK_LABEL = f"{GROUP}/framework"
STEP_LABEL = f"{GROUP}/trainjob-ancestor-step"
POLICIES = ("torch", "mpi", "jax", "xgboost")
"""What ``mlPolicy`` may choose besides nothing at all."""

_TOP = ("apiVersion", "kind", "metadata", "spec", "status")
_KEPT_METADATA = ("name", "labels", "annotations")
_JOB_FIELDS = (
    "runtimeRef",
    "initializer",
    "trainer",
    "runtimePatches",
    "suspend",
    "activeDeadlineSeconds",
    "managedBy",
)
_TRAINER_FIELDS = ("image", "command", "args", "env", "numNodes", "numProcPerNode", "resourcesPerNode")
_INITIALIZERS = ("dataset", "model")
_INITIALIZER_FIELDS = ("storageUri", "env", "secretRef")
_OURS = ("", f"{GROUP}/trainjob-controller")


def read_train_job(value: Value) -> TrainJobSpec:
    """Read a TrainJob; whether its runtime can run it is known only with that."""
    name, tenant, manifest = _document(value, TRAIN_JOB)
    spec = value.fields()["spec"]
    given = spec.fields(_JOB_FIELDS)
    reference = spec.need("runtimeRef", "the runtime to run it with").fields(("name", "kind", "apiGroup"))
    if "name" not in reference:
        raise given["runtimeRef"].missing("name", "the name of a runtime")
    reference["name"].text()
    if "kind" in reference:
        reference["kind"].one_of((RUNTIME, CLUSTER_RUNTIME))
    if "apiGroup" in reference:
        reference["apiGroup"].one_of((GROUP,))
    if "managedBy" in given and given["managedBy"].text() not in _OURS:
        raise given["managedBy"].wrong("the TrainJob belongs to another controller", expected="a TrainJob without it")
    if "suspend" in given:
        given["suspend"].boolean()
    if "activeDeadlineSeconds" in given:
        given["activeDeadlineSeconds"].integer(1)
    _check_trainer(given)
    with value.located():
        return TrainJobSpec(name=name, tenant=tenant, manifest_json=manifest)


def _check_trainer(given: dict[str, Value]) -> None:
    trainer = given["trainer"].fields(_TRAINER_FIELDS) if "trainer" in given else {}
    for name in ("numNodes", "numProcPerNode"):
        if name in trainer and not (name == "numProcPerNode" and isinstance(trainer[name].data, str)):
            trainer[name].integer(1)
    for name in ("command", "args"):
        if name in trainer:
            trainer[name].words()
    for name, source in (given["initializer"].fields(_INITIALIZERS) if "initializer" in given else {}).items():
        address = source.fields(_INITIALIZER_FIELDS).get("storageUri")
        if address is not None and address.text().startswith("hf://"):
            raise address.wrong(
                "Gangline does not download from Hugging Face",
                expected=f"the {name} in s3://, gs://, https://, pvc:// or file://, or a download in the training code",
            )


def read_runtime(value: Value) -> TrainingRuntimeSpec:
    """Read a runtime of one tenant."""
    name, tenant, manifest = _document(value, RUNTIME)
    _check_runtime(value)
    with value.located():
        return TrainingRuntimeSpec(name=name, tenant=tenant, manifest_json=manifest)


def read_cluster_runtime(value: Value) -> ClusterTrainingRuntimeSpec:
    """Read a runtime of everybody."""
    name, _, manifest = _document(value, CLUSTER_RUNTIME)
    _check_runtime(value)
    with value.located():
        return ClusterTrainingRuntimeSpec(name=name, manifest_json=manifest)


def _check_runtime(value: Value) -> None:
    spec = value.fields()["spec"]
    given = spec.fields(("mlPolicy", "podGroupPolicy", "template"))
    policy = given["mlPolicy"].fields() if "mlPolicy" in given else {}
    for name, each in policy.items():
        if name == "numNodes":
            each.integer(1)
        elif name not in POLICIES:
            raise each.wrong(f"{name} is not supported", expected=f"one of {', '.join(POLICIES)}, or none")
    if len(policy.keys() & set(POLICIES)) > 1:
        raise given["mlPolicy"].wrong("it names two frameworks", expected=f"at most one of {', '.join(POLICIES)}")
    jobs = spec.need("template", "a JobSet").need("spec", "a JobSet").need("replicatedJobs", "at least the job 'node'")
    names = [each.need("name", "the name of the job").text() for each in jobs.items()]
    if "node" not in names:
        raise jobs.wrong("nothing is there that trains", expected="a job named 'node'")


def _document(value: Value, kind: str) -> tuple[str, Tenant, str]:
    """Return the name, whose it is, and all that its user wrote."""
    top = value.fields(_TOP)
    if "spec" not in top:
        raise value.missing("spec", f"a {kind}")
    metadata = value.need("metadata", "a name").fields()
    if "name" not in metadata:
        raise value.wrong("the field is missing", expected="a name", below=".metadata.name")
    place = metadata.get("tenant") or metadata.get("namespace")
    tenant = Tenant(place.text()) if place is not None else DEFAULT_TENANT
    kept = {name: metadata[name].data for name in _KEPT_METADATA if name in metadata and metadata[name].data}
    if kind != CLUSTER_RUNTIME:
        kept["namespace"] = tenant
    body = {"apiVersion": API_VERSION, "kind": kind, "metadata": kept, "spec": top["spec"].data}
    return metadata["name"].text(), tenant, compact_json(body)


def runtime_of(spec: TrainJobSpec) -> tuple[str, str]:
    """Return the kind and name of the runtime that a TrainJob names."""
    reference = _spec(spec)["runtimeRef"]
    return reference.get("kind") or CLUSTER_RUNTIME, reference["name"]


def suspended(spec: TrainJobSpec) -> bool:
    """Whether the TrainJob is to rest."""
    return bool(_spec(spec).get("suspend"))


def _spec(spec: TrainJobSpec) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(spec.manifest_json)["spec"]
    return body
