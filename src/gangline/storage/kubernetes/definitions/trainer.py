"""The custom resources of Kubeflow Trainer, ``trainer.kubeflow.org/v1alpha1``, as Gangline defines them. Pure.

Runtimes are as open as the JobSets in them; what of a TrainJob cannot be run is said in its conditions.
"""

from typing import Any

from gangline.dialects.trainer import API_VERSION, CLUSTER_RUNTIME, RUNTIME, TRAIN_JOB

Schema = dict[str, Any]

_GROUP, _, _VERSION = API_VERSION.partition("/")
_TEXT: Schema = {"type": "string"}
_WORDS: Schema = {"type": "array", "items": _TEXT}
_COUNT: Schema = {"type": "integer", "format": "int32", "minimum": 1}
_OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_OPEN_LIST: Schema = {"type": "array", "items": _OPEN}
_NAMED = {
    "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",
    "message": "metadata.name: lower-case letters, digits and '-', beginning with a letter, at most 63 of them",
}
_SAME_RUNTIME = {"rule": "self == oldSelf", "message": "spec.runtimeRef cannot be changed"}
_TEXTS = {
    TRAIN_JOB: "TrainJob: a training of Kubeflow Trainer's, run by Gangline as one job of the same name.",
    RUNTIME: "TrainingRuntime: how TrainJobs of one namespace are run.",
    CLUSTER_RUNTIME: "ClusterTrainingRuntime: how TrainJobs of every namespace are run.",
}
_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_JOB_COLUMNS = [
    {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
    {"name": "Runtime", "type": "string", "jsonPath": ".spec.runtimeRef.name"},
    _AGE,
]


def trainer_definitions(categories: list[str]) -> tuple[Schema, ...]:
    """Return the three definitions; ``categories`` mark them as ours to serve."""
    job = {"x-kubernetes-validations": [_NAMED]}
    return (
        _definition(TRAIN_JOB, categories, _TRAIN_JOB_SPEC, job, _JOB_COLUMNS),
        _definition(RUNTIME, categories, _RUNTIME_SPEC, {}, [_AGE]),
        _definition(CLUSTER_RUNTIME, categories, _RUNTIME_SPEC, {}, [_AGE]),
    )


def _definition(kind: str, categories: list[str], spec: Schema, rest: Schema, columns: list[Schema]) -> Schema:
    root = {
        "type": "object",
        "description": _TEXTS[kind],
        "required": ["spec"],
        "properties": {"spec": spec, "status": _STATUS},
        **rest,
    }
    version = {
        "name": _VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": root},
    }
    names = {"kind": kind, "listKind": f"{kind}List", "plural": f"{kind.lower()}s", "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "scope": "Cluster" if kind == CLUSTER_RUNTIME else "Namespaced",
            "names": {**names, "categories": categories},
            "conversion": {"strategy": "None"},
            "versions": [version],
        },
    }


def _described(schema: Schema, text: str) -> Schema:
    return {**schema, "description": text}


_TRAIN_JOB_SPEC: Schema = {
    "type": "object",
    "description": "What is trained, and with which runtime.",
    "required": ["runtimeRef"],
    "properties": {
        "runtimeRef": {
            "type": "object",
            "description": "The runtime that it is run with.",
            "required": ["name"],
            "properties": {
                "name": _described({**_TEXT, "minLength": 1}, "The runtime's name."),
                "kind": {
                    "type": "string",
                    "enum": [CLUSTER_RUNTIME, RUNTIME],
                    "default": CLUSTER_RUNTIME,
                    "description": "Whether it is a runtime of everybody or of this namespace.",
                },
                "apiGroup": {"type": "string", "default": _GROUP, "description": "The group of the runtime."},
            },
            "x-kubernetes-validations": [_SAME_RUNTIME],
        },
        "initializer": _described(_OPEN, "The dataset and the model that are fetched before the start."),
        "trainer": {
            "type": "object",
            "description": "What the container that trains runs.",
            "properties": {
                "image": _described(_TEXT, "Its image, in place of the runtime's."),
                "command": _described(_WORDS, "Its command; it leaves out the runtime's arguments."),
                "args": _described(_WORDS, "Its arguments."),
                "env": _described(_OPEN_LIST, "Its variables, joined with the runtime's by name."),
                "numNodes": _described(_COUNT, "How many nodes train together."),
                "numProcPerNode": {
                    "x-kubernetes-int-or-string": True,
                    "description": "How many processes each node has: a number, auto, cpu or gpu.",
                },
                "resourcesPerNode": _described(_OPEN, "What each node needs."),
            },
        },
        "runtimePatches": _described(_OPEN_LIST, "Changes of the runtime, merged into it."),
        "suspend": {"type": "boolean", "description": "Whether it holds nothing and waits to be resumed."},
        "activeDeadlineSeconds": _described(
            {"type": "integer", "format": "int64", "minimum": 1}, "The longest time it may run."
        ),
        "managedBy": _described(_TEXT, "Whose it is to run; another controller's is refused."),
    },
}
_RUNTIME_SPEC: Schema = {
    "type": "object",
    "description": "How TrainJobs that name this runtime are run.",
    "required": ["template"],
    "properties": {
        "mlPolicy": _described(_OPEN, "The framework (torch, mpi, jax, xgboost) and the number of nodes."),
        "podGroupPolicy": _described(_OPEN, "Has no effect: every job is a gang."),
        "template": _described(_OPEN, "A JobSet; its job 'node' trains."),
    },
}
_STATUS: Schema = {**_OPEN, "description": "How it is doing; written by Gangline."}
