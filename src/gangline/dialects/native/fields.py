"""Every field name of the job file, by the place it may stand in. The readers and docs/job-file.md both follow it."""

from collections.abc import Mapping

API_VERSION = "gangline.dev/v1"
KIND = "Job"

DOCUMENT = ("apiVersion", "kind", "metadata", "spec", "status")
METADATA = ("name", "tenant", "namespace", "queue", "priority", "labels", "origin", "manifest")
INHERITED = ("command", "resources", "size")
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
)
RESOURCES = ("cpu", "memory", "gpu")
DATA = ("inputs", "outputs")
DATA_MOVE = ("from", "to")
POLICY = (
    "max_attempts",
    "max_replica_restarts",
    "restart",
    "retry",
    "success",
    "backoff",
    "backoff_limit",
    "deadline",
    "ttl",
    "grace",
    "expected",
    "preemptible",
    "clean",
)
NODES = ("gpu_type", "node_selector", "node_affinity", "tolerations")
"""What a placement says of nodes: of a job's and of a role's alike."""
PLACEMENT = ("prefer", "within", "within_required", "apart", "near", "away", *NODES)
REQUIREMENT = ("key", "operator", "values")
TOLERATION = ("key", "operator", "value", "effect")

PRIORITIES: Mapping[str, int] = {"low": 25, "normal": 50, "high": 75, "critical": 100}
MOST_PRIORITY = 1000

ALL: Mapping[str, tuple[str, ...]] = {
    "document": DOCUMENT,
    "metadata": METADATA,
    "spec": SPEC,
    "role": ROLE,
    "resources": RESOURCES,
    "data": DATA,
    "data move": DATA_MOVE,
    "policy": POLICY,
    "placement": PLACEMENT,
    "requirement": REQUIREMENT,
    "toleration": TOLERATION,
}
"""What the manual must mention, place by place."""
