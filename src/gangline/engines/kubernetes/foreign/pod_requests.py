"""What one pod of others requests, as the scheduler understands it. Pure.

Affinity to other pods stays in the pod's own words, and is read where that of jobs' templates is (see
``pod_affinity``).
What cannot be kept is refused by name, never left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from gangline.engines.kubernetes.node_rules.capacity import host_ports, pod_requests
from gangline.engines.kubernetes.node_rules.node_terms import selector_to_terms, tolerations_to_model
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod
from gangline.errors import EngineError
from gangline.kube.objects import NodeAffinity
from gangline.model import NodeRule, NodeTerm, Resources, Toleration

_CLASSES = ((-100, 0), (0, 50), (1_000, 75), (10_000, 100), (1_000_000_000, 900), (2_000_001_000, 1_000))
"""Values of PriorityClasses and the priorities of jobs they stand for; between them it rises evenly. The first four are
those of the installer's own classes."""


class InexpressibleError(EngineError):
    """A pod asks for something that cannot be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """What one pod asks for. ``singles`` are among ``resources``: things of which every node has one."""

    resources: Resources
    labels: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    claims: tuple[str, ...] = ()
    singles: frozenset[str] = frozenset()
    affinity_json: str = ""
    """What it says of other pods, and which nodes it would rather have, as the spec of a pod; empty if nothing."""

    @property
    def nodes(self) -> NodeRule:
        """Which nodes it may use."""
        return NodeRule(node_selector=dict(self.labels), node_affinity=self.terms, tolerations=self.tolerations)


def pod_request_of(pod: WatchedPod, *, alone: bool = False) -> PodRequest:
    """Read what a pod asks for; raises InexpressibleError with what it is that cannot be kept.

    ``alone`` says that it is placed by itself, and not as one of a gang.
    """
    _refuse_unkeepable(pod, alone=alone)
    ports = host_ports(pod)
    return PodRequest(
        resources=pod_requests(pod) + Resources(extended=ports),
        labels=tuple(sorted(pod.spec.node_selector.items())),
        terms=_terms(pod),
        tolerations=tolerations_to_model(pod.spec.tolerations),
        claims=tuple(claims_of(pod)),
        singles=frozenset(ports),
        affinity_json=_pod_affinity(pod),
    )


def priority_of(value: int) -> int:
    """The priority of a job for the value of a PriorityClass; higher values never get lower priorities."""
    if value <= _CLASSES[0][0]:
        return _CLASSES[0][1]
    for (low, least), (high, most) in pairwise(_CLASSES):
        if value <= high:
            return least + (value - low) * (most - least) // (high - low)
    return _CLASSES[-1][1]


def _refuse_unkeepable(pod: WatchedPod, *, alone: bool) -> None:
    if pod.spec.resource_claims:
        raise InexpressibleError(
            "pods with resource claims are bound by kube-scheduler, which hands out devices: leave schedulerName out"
        )
    spread = pod.spec.topology_spread_constraints
    if alone and any(each.get("whenUnsatisfiable") != "ScheduleAnyway" for each in spread):
        raise InexpressibleError(
            "topologySpreadConstraints with whenUnsatisfiable: DoNotSchedule are kept between the pods of one PodGroup"
            " alone: use ScheduleAnyway, or podAntiAffinity"
        )


def _terms(pod: WatchedPod) -> tuple[NodeTerm, ...]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return ()
    terms = selector_to_terms(affinity.required)
    if not terms:
        raise InexpressibleError("its node affinity selects no node")
    return terms


def _pod_affinity(pod: WatchedPod) -> str:
    """Copy what speaks of other pods; the required node affinity stands apart."""
    affinity, spread = pod.spec.affinity, pod.spec.topology_spread_constraints
    said: dict[str, Any] = {"topologySpreadConstraints": spread} if spread else {}
    if affinity is not None:
        preferred = affinity.node_affinity.preferred if affinity.node_affinity is not None else ()
        parts = {
            "podAffinity": affinity.pod_affinity,
            "podAntiAffinity": affinity.pod_anti_affinity,
            "nodeAffinity": NodeAffinity(preferred=preferred) if preferred else None,
        }
        if given := {name: part for name, part in parts.items() if part}:
            said["affinity"] = given
    return msgspec.json.encode(said, order="deterministic").decode() if said else ""


def claims_of(pod: WatchedPod) -> Iterable[str]:
    """Name the volume claims that a pod uses, its own short-lived ones among them."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"
