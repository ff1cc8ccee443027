"""What one pod of others asks for, in words the scheduler understands. Pure.

What cannot be said in them is refused by name, never left out: a pod that must not share a zone with another is better
told so than put there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gangline.engines.kubernetes.capacity import host_ports, pod_requests, topology
from gangline.engines.kubernetes.foreign.offers import APART_PREFIX, digest
from gangline.engines.kubernetes.foreign.pods import WatchedPod
from gangline.engines.kubernetes.foreign.selectors import labels_match
from gangline.errors import EngineError
from gangline.kube.objects import NodeSelector, Toleration
from gangline.model import Resources

_HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CLASSES = ((-100, 0), (0, 50), (1_000, 75), (10_000, 100), (1_000_000_000, 900), (2_000_001_000, 1_000))
"""Values of PriorityClasses and the priorities of jobs they stand for; between them it rises evenly. The first four are
those of the installer's own classes."""


class InexpressibleError(EngineError):
    """A pod asks for something that cannot be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What one pod asks for. ``singles`` are among ``resources``: things of which every node has one."""

    resources: Resources
    labels: tuple[tuple[str, str], ...] = ()
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    claims: tuple[str, ...] = ()
    singles: frozenset[str] = frozenset()
    within: str | None = None


def wish_of(pod: WatchedPod, *, in_group: bool) -> Wish:
    """Read what a pod asks for; raises InexpressibleError with what it is that cannot be kept."""
    _refuse_unkeepable(pod)
    apart = dict.fromkeys(_apart(pod), 1)
    ports = host_ports(pod)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return Wish(
        resources=pod_requests(pod) + Resources(extended=apart | ports),
        labels=tuple(sorted(pod.spec.node_selector.items())),
        affinity=affinity.required if affinity is not None else None,
        tolerations=pod.spec.tolerations,
        claims=tuple(claims_of(pod)),
        singles=frozenset(apart) | frozenset(ports),
        within=_within(pod, in_group=in_group),
    )


def priority_of(value: int) -> int:
    """The priority of a job for the value of a PriorityClass; higher values never get lower priorities."""
    if value <= _CLASSES[0][0]:
        return _CLASSES[0][1]
    for (low, least), (high, most) in pairwise(_CLASSES):
        if value <= high:
            return least + (value - low) * (most - least) // (high - low)
    return _CLASSES[-1][1]


def level_of(topology_key: str) -> str | None:
    """The topology level that a node label stands for."""
    return "node" if topology_key == _HOSTNAME else next(iter(topology({topology_key: "."})), None)


def _refuse_unkeepable(pod: WatchedPod) -> None:
    if pod.spec.resource_claims:
        raise InexpressibleError(
            "pods with resource claims are bound by kube-scheduler, which hands out devices: leave schedulerName out"
        )
    hard = [each for each in pod.spec.topology_spread_constraints if each.get("whenUnsatisfiable") != "ScheduleAnyway"]
    if hard:
        raise InexpressibleError(
            "topologySpreadConstraints with whenUnsatisfiable: DoNotSchedule are not kept: use ScheduleAnyway, or"
            f" podAntiAffinity with topologyKey {_HOSTNAME}"
        )


def _apart(pod: WatchedPod) -> Iterable[str]:
    """Name what each node has one of, for a pod that bears no other of its kind beside it."""
    if pod.spec.affinity is None:
        return
    for term in pod.spec.affinity.pod_anti_affinity.get(_REQUIRED) or ():
        if term.get("topologyKey") != _HOSTNAME or not _means_its_own_kind(pod, term):
            raise InexpressibleError(
                "required podAntiAffinity is kept only towards pods of the same labels and namespace, with topologyKey"
                f" {_HOSTNAME}; this one has topologyKey {term.get('topologyKey')}"
            )
        yield f"{APART_PREFIX}{digest((pod.metadata.namespace, term.get('labelSelector')))}"


def _within(pod: WatchedPod, *, in_group: bool) -> str | None:
    """The domain that the whole group must share, where each pod wants to be near its own kind."""
    terms = pod.spec.affinity.pod_affinity.get(_REQUIRED) or () if pod.spec.affinity is not None else ()
    if not terms:
        return None
    level = level_of(terms[0].get("topologyKey", ""))
    if len(terms) > 1 or level is None or not in_group or not _means_its_own_kind(pod, terms[0]):
        raise InexpressibleError(
            "required podAffinity is kept only between the pods of one PodGroup, with one topologyKey that is a"
            " topology level"
        )
    return level


def _means_its_own_kind(pod: WatchedPod, term: Mapping[str, Any]) -> bool:
    """Whether a term speaks of pods like the one that has it, and of no others."""
    elsewhere = set(term.get("namespaces") or ()) - {pod.metadata.namespace}
    if elsewhere or term.get("namespaceSelector") is not None:
        return False
    return labels_match(term.get("labelSelector"), pod.metadata.labels)


def claims_of(pod: WatchedPod) -> Iterable[str]:
    """Name the volume claims that a pod uses, its own short-lived ones among them."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"
