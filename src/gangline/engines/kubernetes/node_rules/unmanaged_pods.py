"""Pods that run on nodes and belong to no job: who of them is meant by a rule, and whom they keep away themselves.

Kept by the view as pods come and go. Only jobs with affinity to others ask, so what answers them is made when they do.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gangline.engines.kubernetes.node_rules.affinity import (
    REQUIRED,
    PodAffinityRule,
    Surroundings,
    TenantsOf,
    domain_of,
    required_anti_affinity,
)
from gangline.kube import Node, Pod
from gangline.model import AffinityTerm, Match

_Name = tuple[str, str]

Repelled = Mapping[PodAffinityRule, tuple[str, ...]]
"""Whom pods of others keep away, and from which domains."""


class UnmanagedPods:
    """Such pods by namespace and name."""

    def __init__(self) -> None:
        self._pods: dict[_Name, Pod] = {}
        self._with_anti_affinity: dict[_Name, Pod] = {}
        self._labelled: dict[tuple[str, str], list[Pod]] | None = None
        self._repelling: Repelled = {}

    def __contains__(self, name: object) -> bool:
        """Whether a pod of this namespace and name is one of them."""
        return name in self._pods

    @property
    def have_anti_affinity(self) -> bool:
        """Whether any of them keeps others away."""
        return bool(self._with_anti_affinity)

    def put(self, pod: Pod) -> None:
        """Take in a pod that runs."""
        name = (pod.metadata.namespace, pod.metadata.name)
        self._pods[name] = pod
        self._labelled = None
        affinity = pod.spec.affinity
        if affinity is not None and affinity.pod_anti_affinity.get(REQUIRED):
            self._with_anti_affinity[name] = pod

    def drop(self, pod: Pod) -> None:
        """Take in that a pod is gone, or is none of these any more."""
        name = (pod.metadata.namespace, pod.metadata.name)
        if self._pods.pop(name, None) is not None:
            self._labelled = None
            self._with_anti_affinity.pop(name, None)

    def completed(self, rule: PodAffinityRule, nodes: Mapping[str, Node]) -> AffinityTerm:
        """The rule, with the domains in which one of them is meant."""
        found = {
            domain
            for pod in self._candidates(rule.pod_affinity)
            if rule.means(pod.metadata.namespace, pod.metadata.labels)
            and (domain := _domain(rule.pod_affinity.level, pod, nodes)) is not None
        }
        return replace(rule.pod_affinity, present=tuple(sorted(found))) if found else rule.pod_affinity

    def repelling(self, tenants_of: TenantsOf, nodes: Mapping[str, Node]) -> Repelled:
        """Whom they keep away, and from which domains; the same object as long as it is the same."""
        found: dict[PodAffinityRule, set[str]] = defaultdict(set)
        for pod in self._with_anti_affinity.values():
            own = Surroundings(labels=pod.metadata.labels, namespace=pod.metadata.namespace, tenants_of=tenants_of)
            terms = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else {}
            for rule in required_anti_affinity(terms, own):
                if (domain := _domain(rule.pod_affinity.level, pod, nodes)) is not None:
                    found[rule].add(domain)
        repelling = {rule: tuple(sorted(domains)) for rule, domains in found.items()}
        if repelling != self._repelling:
            self._repelling = repelling
        return self._repelling

    def _candidates(self, pod_affinity: AffinityTerm) -> Iterator[Pod]:
        """Those that have one of the values that a rule asks for; all, if it names none."""
        anchor = next((each for each in pod_affinity.labels if each.operator is Match.IN), None)
        if anchor is None:
            yield from self._pods.values()
            return
        if self._labelled is None:
            self._labelled = defaultdict(list)
            for pod in self._pods.values():
                for label in pod.metadata.labels.items():
                    self._labelled[label].append(pod)
        for value in anchor.values:
            yield from self._labelled.get((anchor.key, value), ())


def _domain(level: str, pod: Pod, nodes: Mapping[str, Node]) -> str | None:
    node = nodes.get(pod.spec.node_name)
    return None if node is None else domain_of(level, node.metadata.name, node.metadata.labels)
