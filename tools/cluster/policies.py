"""Enforces NetworkPolicies on the test cluster's nodes, as they are at one moment: tests can see packets dropped.

The cluster's network routes and enforces nothing, and the usual engines ask the kernel for queues or sets that not
every machine has. What policies for ingress mean fits into a few rules of the packet filter. Of the rest nothing is
pretended: what is not understood is refused.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tools.cluster.cluster import Cluster
from tools.cluster.errors import ClusterError
from tools.cluster.host import program

_TABLE = "inet gangline_policies"
_ANYBODY = "0.0.0.0/0"

Plain = Mapping[str, Any]


def enforce(cluster: Cluster, namespaces: Collection[str]) -> None:
    """Enforce the policies of some namespaces for the pods that there are now, in place of those enforced before."""
    policies = _items(cluster, "/apis/networking.k8s.io/v1/networkpolicies")
    chosen = [policy for policy in policies if policy["metadata"]["namespace"] in namespaces]
    pods, places = _items(cluster, "/api/v1/pods"), _items(cluster, "/api/v1/namespaces")
    labels = {place["metadata"]["name"]: place["metadata"].get("labels") or {} for place in places}
    lines = "\n".join(rules(chosen, [pod for pod in pods if _has_address(pod)], labels))
    chain = f"chain forward {{\ntype filter hook forward priority 0; policy accept;\n{lines}\n}}"
    _load(cluster, f"table {_TABLE} {{}}\ndelete table {_TABLE}\ntable {_TABLE} {{\n{chain}\n}}")


def lift(cluster: Cluster) -> None:
    """Enforce nothing any more."""
    _load(cluster, f"table {_TABLE} {{}}\ndelete table {_TABLE}")


def rules(policies: Sequence[Plain], pods: Sequence[Plain], namespaces: Mapping[str, Plain]) -> Iterator[str]:
    """Write what policies say as rules, in order: answers pass, then whom they let in, then nobody. Pure."""
    yield "ct state established,related accept"
    for pod in pods:
        own = [each for each in policies if _selects(each, pod)]
        address = pod["status"]["podIP"]
        for policy in own:
            for entry in policy["spec"].get("ingress") or ():
                sources = _sources(entry, policy["metadata"]["namespace"], pods, namespaces)
                if sources:
                    yield f"ip daddr {address} ip saddr {{ {', '.join(sources)} }}{_ports(entry)} accept"
        if own:
            yield f"ip daddr {address} drop"


def _selects(policy: Plain, pod: Plain) -> bool:
    if "Ingress" not in policy["spec"].get("policyTypes", ["Ingress"]):
        return False
    same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and _matches(policy["spec"].get("podSelector") or {}, pod["metadata"].get("labels") or {})


def _sources(entry: Plain, own: str, pods: Sequence[Plain], namespaces: Mapping[str, Plain]) -> list[str]:
    if not entry.get("from"):
        return [_ANYBODY]
    return sorted({pod["status"]["podIP"] for peer in entry["from"] for pod in pods if _is(peer, pod, own, namespaces)})


def _is(peer: Plain, pod: Plain, own: str, namespaces: Mapping[str, Plain]) -> bool:
    if "ipBlock" in peer:
        raise ClusterError("network policies with an ipBlock are not enforced here")
    place, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    selector = peer.get("namespaceSelector")
    inside = place == own if selector is None else _matches(selector, namespaces[place])
    return inside and _matches(peer.get("podSelector") or {}, labels)


def _matches(selector: Plain, labels: Plain) -> bool:
    if selector.get("matchExpressions"):
        raise ClusterError("network policies with matchExpressions are not enforced here")
    return all(labels.get(name) == value for name, value in (selector.get("matchLabels") or {}).items())


def _ports(entry: Plain) -> str:
    ports = [str(port["port"]) for port in entry.get("ports") or ()]
    return f" tcp dport {{ {', '.join(ports)} }}" if ports else ""


def _has_address(pod: Plain) -> bool:
    return bool(pod["status"].get("podIP")) and not pod["spec"].get("hostNetwork")


def _items(cluster: Cluster, path: str) -> list[Plain]:
    found = cluster.api.get(path)
    return found["items"] if found is not None else []


def _load(cluster: Cluster, script: str) -> None:
    for node in cluster.nodes:
        node.sandbox.run([program("sh"), "-c", f"{program('nft')} -f - <<'END'\n{script}\nEND"])
