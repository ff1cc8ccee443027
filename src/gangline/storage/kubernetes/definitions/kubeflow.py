"""The custom resources of ``kubeflow.org`` as Gangline defines them, in place of the training operator's.

Files, clients and stored objects of upstream stay valid. What upstream's admission webhook refuses is refused here by
the schema and its rules, which need no server of ours to be reachable; what only the translation can find is told in
the status. Pod templates pass through untouched.

The category ``gangline`` is how every client recognises in the server's own discovery that these jobs are ours to run;
upstream's definitions do not have it. ``gangline-strict`` says the same of the installation's choice of behaviour.
"""

from typing import Any

from gangline.dialects.kubeflow import GROUP, KINDS, Kind, RestartPolicy
from gangline.dialects.kubeflow.elastic import PADDLE_FIELDS, PYTORCH_FIELDS
from gangline.dialects.kubeflow.run_policy import MULTIKUEUE, OURS
from gangline.dialects.translation import CleanPods
from gangline.model import Framework
from gangline.storage.kubernetes.definitions.descriptions import KUBEFLOW, described
from gangline.storage.kubernetes.definitions.katib import katib_definitions
from gangline.storage.kubernetes.definitions.native import KUBERNETES_AMOUNTS, container_schema, open_object
from gangline.storage.kubernetes.definitions.trainer import trainer_definitions

CATEGORY = "gangline"
STRICT_CATEGORY = "gangline-strict"

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "integer", "format": "int32"}
_COUNT: Schema = {**_NUMBER, "minimum": 0}
_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_MOST_TYPES = 5
_MOST_CONTAINERS = 32
_NAME_RULE = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
_SSH_FOLDER = "/root/.ssh"


def kubeflow_definitions(*, strict: bool = False) -> tuple[Schema, ...]:
    """Return the definitions of every kind; ``strict`` keeps upstream's behaviour for jobs that do not say."""
    categories = _categories(strict)
    own = (_definition(kind, strict=strict) for kind in KINDS.values())
    return (*own, *katib_definitions(categories), *trainer_definitions(categories))


def _categories(strict: bool) -> list[str]:  # noqa: FBT001  # the one thing it says
    return [CATEGORY, *([STRICT_CATEGORY] if strict else [])]


def _definition(kind: Kind, *, strict: bool) -> Schema:
    versions = [_version(kind, "v1", storage=True)]
    if kind.framework is Framework.MPI:
        versions.append(_version(kind, "v2beta1", storage=False))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "categories": _categories(strict),
            },
            # Both versions of an MPIJob have one shape, so that no server has to convert between them.
            "conversion": {"strategy": "None"},
            "versions": versions,
        },
    }


def _version(kind: Kind, name: str, *, storage: bool) -> Schema:
    subresources: Schema = {"status": {}}
    if kind.framework in (Framework.PYTORCH, Framework.PADDLE):
        subresources["scale"] = {
            "specReplicasPath": f".spec.{kind.replicas_field}.Worker.replicas",
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
        }
    columns = [
        {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "subresources": subresources,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": described(_root(kind, second=name == "v2beta1"), KUBEFLOW)},
    }


def _root(kind: Kind, *, second: bool) -> Schema:
    return {
        "type": "object",
        "description": f"{kind.name}: a Kubeflow training job, run by Gangline.",
        "required": ["spec"],
        "properties": {"spec": _spec(kind, second=second), "status": _STATUS},
        "x-kubernetes-validations": [
            {
                "rule": f"self.metadata.name.matches('{_NAME_RULE}') && size(self.metadata.name) <= 63",
                "message": "metadata.name: should match a DNS-1035 label: lower-case letters, digits and '-', "
                "beginning with a letter, at most 63 of them",
            }
        ],
    }


def _spec(kind: Kind, *, second: bool) -> Schema:
    properties = {"runPolicy": _RUN_POLICY, **_own_fields(kind), kind.replicas_field: _replicas(kind)}
    if second:
        # Says forever after which version the object was written in; see KubeflowRecords.
        properties["sshAuthMountPath"] = {**_TEXT, "default": _SSH_FOLDER}
    return {
        "type": "object",
        "required": [kind.replicas_field],
        "properties": properties,
        "x-kubernetes-validations": _spec_rules(kind),
    }


def _own_fields(kind: Kind) -> dict[str, Schema]:
    match kind.framework:
        case Framework.TENSORFLOW:
            return {"successPolicy": {"type": "string", "enum": ["", "AllWorkers"]}, "enableDynamicWorker": _FLAG}
        case Framework.PYTORCH:
            return {"elasticPolicy": _elastic(PYTORCH_FIELDS), "nprocPerNode": _TEXT}
        case Framework.PADDLE:
            return {"elasticPolicy": _elastic(PADDLE_FIELDS)}
        case Framework.MPI:
            return {
                "slotsPerWorker": {**_NUMBER, "minimum": 1},
                "cleanPodPolicy": _choice(*CleanPods),
                "mainContainer": _TEXT,
                "runLauncherAsWorker": _FLAG,
                "sshAuthMountPath": _TEXT,
                "launcherCreationPolicy": _choice("AtStartup", "WaitForWorkersReady"),
                "mpiImplementation": _choice("OpenMPI", "Intel", "MPICH"),
            }
        case _:
            return {}


def _elastic(fields: tuple[str, ...]) -> Schema:
    numbers = {"minReplicas", "maxReplicas", "maxRestarts", "nProcPerNode", "rdzvPort"}
    special: dict[str, Schema] = {
        "standalone": _FLAG,
        "rdzvConf": {"type": "array", "items": {"type": "object", "properties": {"key": _TEXT, "value": _TEXT}}},
        "metrics": {"type": "array", "items": _ANYTHING},
        "rdzvBackend": _choice("c10d", "etcd", "etcd-v2"),
    }
    return {
        "type": "object",
        "properties": {name: _NUMBER if name in numbers else special.get(name, _TEXT) for name in fields},
    }


def _choice(*values: str) -> Schema:
    return {"type": "string", "enum": [str(value) for value in values]}


_RUN_POLICY: Schema = {
    "type": "object",
    "properties": {
        "activeDeadlineSeconds": {"type": "integer", "format": "int64", "minimum": 0},
        "backoffLimit": _COUNT,
        "cleanPodPolicy": _choice(*CleanPods, ""),
        "managedBy": {
            **_choice(*OURS, MULTIKUEUE),
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "the field is immutable"}],
        },
        "schedulingPolicy": {
            "type": "object",
            "properties": {
                "minAvailable": _COUNT,
                "minResources": KUBERNETES_AMOUNTS,
                "priorityClass": _TEXT,
                "queue": _TEXT,
                "scheduleTimeoutSeconds": _COUNT,
            },
        },
        "suspend": _FLAG,
        "ttlSecondsAfterFinished": _COUNT,
    },
}


def _replicas(kind: Kind) -> Schema:
    known = ", ".join(kind.roles)
    words = ", ".join(f"'{name.lower()}'" for name in kind.roles)
    rules = [
        {
            "rule": f"self.all(name, name.lowerAscii() in [{words}])",
            "message": f"supported replica types: {known}",
        },
        *(
            {"rule": f"self.exists(name, name.lowerAscii() == '{name.lower()}')", "message": f"{name} must be present"}
            for name in kind.required
        ),
        *(
            {
                "rule": f"self.all(name, name.lowerAscii() != '{name.lower()}' || !has(self[name].replicas) || "
                "self[name].replicas == 1)",
                "message": f"{name}.replicas: must be 1",
            }
            for name in kind.single
        ),
        *(
            {
                "rule": f"self.all(name, name.lowerAscii() != '{name.lower()}' || !has(self[name].replicas) || "
                "self[name].replicas >= 1)",
                "message": f"{name}.replicas: must be at least 1",
            }
            for name in kind.at_least_one
        ),
    ]
    if kind.framework is Framework.TENSORFLOW:
        leads = "self.filter(name, name.lowerAscii() in ['chief', 'master'])"
        rules.append(
            {"rule": f"size({leads}) <= 1", "message": "must not have more than 1 Chief or Master role"},
        )
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": _MOST_TYPES,
        "additionalProperties": _replica(kind),
        "x-kubernetes-validations": rules,
    }


def _replica(kind: Kind) -> Schema:
    container = container_schema(name={**_TEXT, "maxLength": 63}, image={**_TEXT, "minLength": 1})
    container["required"] = ["name", "image"]
    containers: Schema = {"type": "array", "minItems": 1, "maxItems": _MOST_CONTAINERS, "items": container}
    if kind.container is not None:
        containers["x-kubernetes-validations"] = [
            {
                "rule": f"self.exists(container, container.name == '{kind.container}')",
                "message": f"must have at least one container with name {kind.container}",
            }
        ]
    inits: Schema = {"type": "array", "items": container_schema()}
    pod = open_object(
        {"containers": containers, "initContainers": inits, "overhead": KUBERNETES_AMOUNTS}, required=["containers"]
    )
    template = open_object({"metadata": _ANYTHING, "spec": pod}, required=["spec"])
    return {
        "type": "object",
        "required": ["template"],
        "properties": {"replicas": _COUNT, "restartPolicy": _choice(*RestartPolicy, ""), "template": template},
    }


def _spec_rules(kind: Kind) -> list[Schema]:
    field = f"self.{kind.replicas_field}"
    rules = [_gang_rule(kind)]
    if kind.framework is Framework.PYTORCH:
        rules.append(
            {
                "rule": "!has(self.elasticPolicy) || !has(self.elasticPolicy.nProcPerNode) || !has(self.nprocPerNode)",
                "message": "elasticPolicy.nProcPerNode: must not be used with spec.nprocPerNode",
            }
        )
    if kind.framework not in (Framework.PYTORCH, Framework.PADDLE):
        return rules
    rules.append(
        {
            "rule": f"!has(self.elasticPolicy) || {field}.exists(name, name.lowerAscii() == 'worker')",
            "message": f"{kind.replicas_field}.Worker: must be configured if elastic policy is used",
        }
    )
    for bound, relation, words in (("minReplicas", ">=", "at least"), ("maxReplicas", "<=", "at most")):
        rules.append(
            {
                "rule": f"!has(self.elasticPolicy) || !has(self.elasticPolicy.{bound}) || "
                f"{field}.all(name, name.lowerAscii() != 'worker' || !has({field}[name].replicas) || "
                f"{field}[name].replicas {relation} self.elasticPolicy.{bound})",
                "message": f"{kind.replicas_field}.Worker.replicas: must be {words} elasticPolicy.{bound}",
            }
        )
    return rules


def _gang_rule(kind: Kind) -> Schema:
    """A gang that must have more replicas than there are would wait forever."""
    field, policy = f"self.{kind.replicas_field}", "self.runPolicy.schedulingPolicy"
    none = ", ".join(f"'{name.lower()}'" for name, count in kind.default_replicas.items() if not count)
    default = f"(name.lowerAscii() in [{none}] ? 0 : 1)" if none else "1"
    total = f"{field}.map(name, has({field}[name].replicas) ? {field}[name].replicas : {default}).sum()"
    given = f"has(self.runPolicy) && has(self.runPolicy.schedulingPolicy) && has({policy}.minAvailable)"
    return {
        "rule": f"!({given}) || {policy}.minAvailable <= {total}",
        "message": "runPolicy.schedulingPolicy.minAvailable: must be at most the number of all replicas",
    }


_CONDITION: Schema = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": _TEXT,
        "status": _TEXT,
        "reason": _TEXT,
        "message": _TEXT,
        "lastUpdateTime": {"type": "string", "format": "date-time"},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    },
}
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_STATUS: Schema = {
    "type": "object",
    "properties": {
        "conditions": {"type": "array", "items": _CONDITION},
        "replicaStatuses": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "active": _NUMBER,
                    "succeeded": _NUMBER,
                    "failed": _NUMBER,
                    "selector": _TEXT,
                    "labelSelector": _ANYTHING,
                },
            },
        },
        "startTime": _MOMENT,
        "completionTime": _MOMENT,
        "lastReconcileTime": _MOMENT,
        "gangline": {"type": "object", "properties": {"record": _TEXT, "explanation": _ANYTHING}},
    },
}
