"""Pods and nodes of others, as short as a test needs them."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from gangline.engines.kubernetes.watch.watched_pods import WatchedPod
from gangline.kube import Node

NAMESPACE = "team-a"


def make_pod(name: str = "pod-0", *, age: int = 0, node: str = "", phase: str = "Pending", **fields: Any) -> WatchedPod:
    """A pod that names our scheduler; higher ``age`` is younger. ``fields`` are of its spec, or its metadata's."""
    metadata = {key: fields.pop(key) for key in ("labels", "annotations", "deletionTimestamp") if key in fields}
    container = {"name": "app", "resources": {"requests": fields.pop("requests", {"cpu": "100m"})}}
    container |= {"ports": fields.pop("ports", [])}
    created = datetime.fromtimestamp(1_000_000 + age, UTC)
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-{name}",
                "creationTimestamp": created,
                **metadata,
            },
            "spec": {"schedulerName": "gangline", "nodeName": node, "containers": [container], **fields},
            "status": {"phase": phase},
        },
        WatchedPod,
    )


def make_kube_node(name: str = "node-0", *, labels: dict[str, str] | None = None, **spec: Any) -> Node:
    """A node of a cluster."""
    return msgspec.convert({"metadata": {"name": name, "labels": labels or {}}, "spec": spec}, Node)


def node_choice(*terms: dict[str, Any]) -> dict[str, Any]:
    """A required node affinity, as a pod spells it."""
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def pod_terms(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    """A required affinity to pods, or against them."""
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}
