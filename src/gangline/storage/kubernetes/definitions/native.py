"""The custom resources of ``gangline.dev/v1``: where they live, and their schemas.

The one source of both: the installer applies these definitions and the Helm chart is rendered from them. The schema
refuses a wrong job at ``kubectl apply``, naming the field; what a schema cannot say, the controller says in the status.
"""

from typing import Any

from gangline.dialects.native import PRIORITIES
from gangline.dialects.quantities import AMOUNT_PATTERN, DURATION_PATTERN
from gangline.kinds import AnyKind, all_kinds
from gangline.kube import GenericObject, Resource
from gangline.model import DEFAULT_QUEUE, Clean, Framework, Phase, Prefer, Processes, Restart, Retry, Sizing, Success
from gangline.model.jobs.metric_source import MetricFormat
from gangline.model.record import NoStatus
from gangline.storage.kubernetes.definitions.descriptions import JOB, Texts, described

GROUP = "gangline.dev"
VERSION = "v1"
JOBS = Resource(group=GROUP, version=VERSION, plural="jobs", kind="Job", type=GenericObject)

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}
_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXTS: Schema = {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}}
_WORDS: Schema = {"x-kubernetes-preserve-unknown-fields": True}
"""A list of words, or one line that the dialect splits as a shell would."""


def _amount(pattern: str) -> Schema:
    """A number, or a text of this form. It may be a fraction (``gpu: 0.5``), which int-or-string would refuse.

    A pattern speaks of texts alone, and a least of numbers; what is neither is left to the dialect.
    """
    return {"x-kubernetes-preserve-unknown-fields": True, "pattern": pattern, "minimum": 0}


_DURATION = _amount(DURATION_PATTERN)
_RESOURCES: Schema = {"type": "object", "additionalProperties": _amount(AMOUNT_PATTERN)}
KUBERNETES_AMOUNTS: Schema = {
    "type": "object",
    "additionalProperties": _amount(r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"),
}
"""Amounts as Kubernetes itself reads them, which it does only when a pod is made."""


def _number_or(*words: str) -> Schema:
    pattern = f"^({'|'.join(words)}|[0-9]+)$"
    return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": pattern}


def open_object(properties: dict[str, Schema], **rest: Any) -> Schema:
    """An object of Kubernetes of which we know some fields; the others pass through."""
    return {"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": True, **rest}


def container_schema(**known: Schema) -> Schema:
    """A container of a pod template: what it asks for must be amounts, for its pod would be refused much later."""
    asked = open_object({"requests": KUBERNETES_AMOUNTS, "limits": KUBERNETES_AMOUNTS})
    return open_object({**known, "resources": asked})


def _count(least: int) -> Schema:
    return {"type": "integer", "minimum": least}


def _choice(*values: str) -> Schema:
    return {"type": "string", "enum": [str(value) for value in values]}


def _object(properties: dict[str, Schema], **rest: Any) -> Schema:
    return {"type": "object", "properties": properties, **rest}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_NODES: dict[str, Schema] = {
    "gpu_type": _WORDS,
    "node_selector": _TEXTS,
    # A term is a list of requirements, or a single one; the dialect checks either.
    "node_affinity": _list({"x-kubernetes-preserve-unknown-fields": True}),
    "tolerations": _list(
        _object({"key": _TEXT, "operator": _choice("Equal", "Exists"), "value": _TEXT, "effect": _TEXT})
    ),
}
"""What a placement says of nodes: of a job's and of a role's alike."""
# A level is a name; several are a list of names and objects, which the dialect checks.
_WITHIN: dict[str, Schema] = {"within": _WORDS, "within_required": _FLAG}
_PLACEMENT = _object(
    {
        "prefer": _choice(*Prefer),
        **_WITHIN,
        "apart": _TEXT,
        "near": _TEXTS,
        "away": _TEXTS,
        **_NODES,
    }
)
_POD_TEMPLATE = open_object(
    {
        "metadata": _ANYTHING,
        "spec": open_object(
            {
                "containers": {"type": "array", "items": container_schema()},
                "initContainers": {"type": "array", "items": container_schema()},
                "overhead": KUBERNETES_AMOUNTS,
            }
        ),
    }
)
_VOLUMES = _list(_object({"name": _TEXT, "at": _TEXT, "read_only": {"type": "boolean"}}))
_ROLE = _object(
    {
        "replicas": _count(1),
        "min": _count(0),
        "max": _count(1),
        "command": _WORDS,
        "image": _TEXT,
        "env": _TEXTS,
        "resources": _RESOURCES,
        "size": _TEXT,
        "restart": _choice(*Restart),
        "retry": _choice(*Retry),
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "placement": _object({**_WITHIN, **_NODES}),
        "pod_template": _POD_TEMPLATE,
        "volumes": _VOLUMES,
        "groups": _count(1),
        "priority": _number_or(*PRIORITIES),
        "preemptible": _FLAG,
    },
    **{
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.min) || !has(self.replicas) || self.min <= self.replicas",
                "message": "min is more than replicas",
            },
            {
                "rule": "!has(self.max) || !has(self.replicas) || self.max >= self.replicas",
                "message": "max is less than replicas",
            },
        ]
    },
)
_MOVES = _list(
    _object(
        {
            "from": _TEXT,
            "to": _TEXT,
            "store": _TEXT,
            "include": _list(_TEXT),
            "exclude": _list(_TEXT),
            "unpack": _FLAG,
        },
        required=["from", "to"],
    )
)
_POLICY = _object(
    {
        "max_attempts": _count(1),
        "max_replica_restarts": _count(0),
        "restart": _choice(*Restart),
        "retry": _choice(*Retry),
        "success": _choice(*Success),
        "backoff": _DURATION,
        "backoff_factor": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "backoff_limit": _DURATION,
        "retry_for": _DURATION,
        "deadline": _DURATION,
        "ttl": _DURATION,
        "grace": _DURATION,
        "expected": _DURATION,
        "preemptible": _FLAG,
        "clean": _choice(*Clean),
        "replicas": _choice(*Sizing),
        # A short form, or an object with an action; the dialect checks either.
        "stalled": {"x-kubernetes-preserve-unknown-fields": True},
        "nan": {"x-kubernetes-preserve-unknown-fields": True},
    }
)
_JOB_SPEC = _object(
    {
        "queue": {**_NAME, "default": DEFAULT_QUEUE},
        "priority": _number_or(*PRIORITIES),
        "origin": _TEXT,
        "manifest": _ANYTHING,
        "framework": _choice(*Framework),
        "processes": _number_or(*Processes),
        "image": _TEXT,
        "code": _TEXT,
        "env": _TEXTS,
        # The key of a role becomes part of host names; the pattern of a key cannot be said, so its count is limited.
        "roles": {"type": "object", "additionalProperties": _ROLE, "minProperties": 1, "maxProperties": 64},
        "data": _object({"inputs": _MOVES, "outputs": _MOVES}),
        "policy": _POLICY,
        "placement": _PLACEMENT,
        "checkpoints": _object({"to": _TEXT, "store": _TEXT, "keep": _count(1), "every": _DURATION}, required=["to"]),
        "metrics": _list(
            _object(
                {
                    "from": _TEXT,
                    "format": _choice(*MetricFormat),
                    "pattern": _TEXT,
                    "values": _TEXTS,
                    "step": _TEXT,
                    "lines": _count(1),
                },
                required=["from", "format"],
            )
        ),
        "source": _object({"commit": _TEXT, "dirty": _FLAG, "packages": _TEXT, "rerun_of": _TEXT}),
        "command": _WORDS,
        "resources": _RESOURCES,
        "size": _TEXT,
        "volumes": _VOLUMES,
        "replicas": _count(1),
        "min": _count(0),
        "max": _count(1),
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
    },
    anyOf=[{"required": ["roles"]}, {"required": ["command"]}],
)
_CONDITION = _object(
    {"type": _TEXT, "status": _TEXT, "reason": _TEXT, "message": _TEXT, "lastTransitionTime": _TEXT},
    required=["type", "status"],
)
_JOB_STATUS = _object(
    {
        "phase": _choice(*Phase),
        "reason": _TEXT,
        "message": _TEXT,
        "ready": _TEXT,
        "attempt": _count(0),
        "startedAt": _TEXT,
        "finishedAt": _TEXT,
        "explanation": _object({"sentences": _list(_TEXT), "facts": _ANYTHING}),
        "conditions": _list(_CONDITION),
        "history": _list(_object({"phase": _TEXT, "at": _TEXT, "reason": _TEXT, "message": _TEXT})),
        "record": _TEXT,
    }
)
_RECORD_STATUS = described(
    _object({"state": _TEXT, "message": _TEXT, "record": _ANYTHING}),
    {
        "state": "Where it is in its life.",
        "message": "Why it is there, for a person to read.",
        "record": "All that Gangline remembers of it.",
    },
)


def _column(name: str, path: str, kind: str = "string", **rest: Any) -> Schema:
    return {"name": name, "type": kind, "jsonPath": path, **rest}


_AGE = _column("Age", ".metadata.creationTimestamp", "date")


def _definition(
    resource: Resource[GenericObject],
    short_names: list[str],
    schema: Schema,
    columns: list[Schema],
    *,
    texts: Texts,
    **version: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": short_names,
                "categories": ["gangline"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": described(schema, texts)},
                    "additionalPrinterColumns": columns,
                    **version,
                }
            ],
        },
    }


JOB_DEFINITION = _definition(
    JOBS,
    ["gjob", "gjobs"],
    {
        **_object({"spec": _JOB_SPEC, "status": _JOB_STATUS}, required=["spec"]),
        "description": "A training job: roles of replicas that start together, on the nodes Gangline gives them.",
    },
    [
        _column("Phase", ".status.phase"),
        _column("Ready", ".status.ready"),
        _column("Queue", ".spec.queue"),
        _column("Reason", ".status.reason"),
        _column("Attempt", ".status.attempt", "integer", priority=1),
        _column("Message", ".status.message", priority=1),
        _AGE,
    ],
    texts=JOB,
    subresources={"status": {}},
)


def resource_of(kind: AnyKind) -> Resource[GenericObject]:
    """Say where the records of a kind live."""
    group, _, version = kind.api_version.partition("/")
    return Resource(
        group=group,
        version=version,
        plural=kind.plural,
        kind=kind.object_kind,
        type=GenericObject,
        namespaced=kind.namespaced,
    )


def definition_of(kind: AnyKind) -> dict[str, Any]:
    """Define the custom resource of a kind."""
    parts: dict[str, Schema] = {"spec": kind.format.schema}
    columns = [_AGE]
    if kind.status is not NoStatus:
        text = f"How the {kind.name} is doing; written by Gangline."
        parts["status"] = {**_RECORD_STATUS, "description": text}
        columns = [_column("State", ".status.state"), _column("Message", ".status.message", priority=1), _AGE]
    needed = {"required": ["spec"]} if "required" in kind.format.schema else {}
    schema = {**_object(parts, **needed), "description": kind.description}
    return _definition(resource_of(kind), [f"g{kind.name}", f"g{kind.plural}"], schema, columns, texts={})


DEFINITIONS = (JOB_DEFINITION, *(definition_of(kind) for kind in all_kinds() if not kind.foreign))
"""All there is of our own, in the order it is applied."""
