"""Every field name of the job file, by the place it may stand in. The readers and docs/job-file.md both follow it."""

from collections.abc import Mapping

API_VERSION = "gangline.dev/v1"
KIND = "Job"

DOCUMENT = ("apiVersion", "kind", "metadata", "spec", "status")
METADATA = ("name", "tenant", "namespace", "queue", "priority", "labels", "origin", "manifest")
INHERITED = ("command", "resources", "size", "volumes")
"""Fields that ``spec`` hands down to roles that have none of their own."""
SINGLE_ROLE = ("replicas", "min", "max", "port")
"""Fields that ``spec`` takes only when it names no roles."""
EITHER = ("queue", "priority")
"""Fields that ``metadata`` and ``spec`` take alike: Kubernetes allows them in ``spec`` alone."""
SPEC = (
    "framework",
    "processes",
    "image",
    "code",
    "env",
    "roles",
    "data",
    "policy",
    "placement",
    "source",
    "metrics",
    "checkpoints",
    *INHERITED,
    *SINGLE_ROLE,
    *EITHER,
)
ROLE = (
    "replicas",
    "min",
    "max",
    "command",
    "image",
    "env",
    "resources",
    "size",
    "restart",
    "retry",
    "port",
    "placement",
    "pod_template",
    "volumes",
    "groups",
    "priority",
    "preemptible",
)
RESOURCES = ("cpu", "memory", "gpu", "gpu_memory")
VARIABLE = ("secret",)
VOLUME = ("name", "at", "read_only")
DATA = ("inputs", "outputs")
CHECKPOINTS = ("to", "store", "keep", "every")
METRICS = ("from", "format", "pattern", "values", "step", "lines")
SOURCE = ("commit", "dirty", "packages", "rerun_of")
DATA_MOVE = ("from", "to", "store", "include", "exclude", "unpack")
POLICY = (
    "max_attempts",
    "max_replica_restarts",
    "restart",
    "retry",
    "success",
    "backoff",
    "backoff_factor",
    "backoff_limit",
    "retry_for",
    "deadline",
    "ttl",
    "grace",
    "expected",
    "preemptible",
    "clean",
    "replicas",
    "stalled",
    "nan",
)
STALLED = ("after", "action")
NAN = ("action", "metric")
NODES = ("gpu_type", "node_selector", "node_affinity", "tolerations")
"""What a placement says of nodes: of a job's and of a role's alike."""
WITHIN = ("within", "within_required")
"""What a placement says of domains: of a job's and of a role's alike."""
LEVEL = ("level", "required")
PLACEMENT = ("prefer", *WITHIN, "apart", "near", "away", *NODES)
REQUIREMENT = ("key", "operator", "values")
TOLERATION = ("key", "operator", "value", "effect")

PRIORITIES: Mapping[str, int] = {"low": 25, "normal": 50, "high": 75, "critical": 100}
MOST_PRIORITY = 1000

ALL: Mapping[str, tuple[str, ...]] = {
    "document": DOCUMENT,
    "metadata": METADATA,
    "spec": SPEC,
    "role": ROLE,
    "variable": VARIABLE,
    "resources": RESOURCES,
    "data": DATA,
    "data move": DATA_MOVE,
    "source": SOURCE,
    "metrics": METRICS,
    "checkpoints": CHECKPOINTS,
    "policy": POLICY,
    "placement": PLACEMENT,
    "level": LEVEL,
    "requirement": REQUIREMENT,
    "toleration": TOLERATION,
}
"""What the manual must mention, place by place."""
