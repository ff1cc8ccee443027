"""How a replica's pod is tied to its node: bound when it is made, or, if it claims devices, pinned to it. Pure.

Devices of Dynamic Resource Allocation are handed out by kube-scheduler while it binds a pod, and by nobody else. So a
pod with claims is made without a node, may run on the chosen one alone, and is left to kube-scheduler.
"""

from typing import Any

Plain = dict[str, Any]

DEFAULT_SCHEDULER = "default-scheduler"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def tie_to_node(template: Plain, node: str) -> Plain:
    """Return what the spec of a pod needs so that it runs on this node and on no other."""
    if not template.get("resourceClaims"):
        return {"nodeName": node}
    return {"schedulerName": DEFAULT_SCHEDULER, "affinity": _pinned(template.get("affinity") or {}, node)}


def _pinned(affinity: Plain, node: str) -> Plain:
    """Add the node to every term: of several, one is enough, so all must name it."""
    own = affinity.get("nodeAffinity") or {}
    name = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = (own.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": [*(term.get("matchFields") or ()), name]} for term in terms]
    return {**affinity, "nodeAffinity": {**own, _REQUIRED: {"nodeSelectorTerms": pinned}}}
