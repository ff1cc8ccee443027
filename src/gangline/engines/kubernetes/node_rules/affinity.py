"""What a pod says of the nodes and of the other pods it wants, in the model's words. Pure.

Pods are bound to their nodes by Gangline, so whatever kube-scheduler would keep to, Gangline keeps to: for its own
jobs' templates, for Kubeflow's and for pods of others. What it does not understand is said by name, never left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gangline.engines.kubernetes.node_rules.capacity import topology
from gangline.engines.kubernetes.node_rules.node_terms import (
    LabelSelector,
    labels_to_term,
    selector_to_terms,
    term_to_model,
    tolerations_to_model,
)
from gangline.errors import InvalidInputError
from gangline.kube import Partial
from gangline.kube.objects import NodeAffinity, Toleration
from gangline.model import (
    AffinityKind,
    AffinityTerm,
    Match,
    NodePreference,
    NodeRequirement,
    NodeRule,
    NodeTerm,
    Prefer,
    Tenant,
    TopologySpread,
)

HOSTNAME = "kubernetes.io/hostname"
NODE_LEVEL = "node"
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

TenantsOf = Callable[[frozenset[str]], tuple[Tenant, ...] | None]
"""Says whose jobs live in some namespaces; None: everybody's."""


class PodTerm(Partial, frozen=True):
    """Other pods, and the kind of domain that is shared with them or not."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodTerm(Partial, frozen=True):
    """A term that should hold."""

    weight: int = 1
    pod_affinity_term: PodTerm = PodTerm()


class PodAffinity(Partial, frozen=True):
    """Which pods a pod wants in its domain; as anti-affinity, which it does not bear there."""

    required: tuple[PodTerm, ...] = msgspec.field(name=REQUIRED, default=())
    preferred: tuple[WeightedPodTerm, ...] = msgspec.field(name=PREFERRED, default=())


class AllAffinity(Partial, frozen=True):
    """All three kinds of affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Partial, frozen=True):
    """How evenly pods of some labels must lie."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None


class PodSchedulingSpec(Partial, frozen=True):
    """What of a pod's spec a scheduler reads, besides amounts."""

    affinity: AllAffinity | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinityRule:
    """One rule about other pods, with the namespaces it looks at; None: all of them."""

    pod_affinity: AffinityTerm
    namespaces: frozenset[str] | None

    def means(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod is meant."""
        inside = self.namespaces is None or namespace in self.namespaces
        return inside and all(each.holds(labels) for each in self.pod_affinity.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRule:
    """What a pod wants. ``nodes`` is without affinity to pods, which is completed by who runs where when a job waits.

    ``prefer`` and ``within`` are what it would rather have for the pods of its own kind.
    """

    nodes: NodeRule = field(default_factory=NodeRule)
    pod_affinity: tuple[PodAffinityRule, ...] = ()
    prefer: Prefer | None = None
    within: str | None = None

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return self == PodRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The pod that a rule is read for: its labels, its namespace, and whose jobs live in which namespaces."""

    labels: Mapping[str, str]
    namespace: str
    tenants_of: TenantsOf


class _NotUnderstoodError(Exception):
    """A rule that must hold says something that cannot be kept; it never leaves this module."""


def read_rule(spec: Mapping[str, Any], pod: Surroundings, *, nodes: bool) -> PodRule:
    """Read the spec of a pod. Its own words about nodes only if ``nodes``: a dialect may have read those already.

    Never raises: what cannot be understood keeps the pod from every node, and says why.
    """
    try:
        scheduling = msgspec.convert(
            {name: value for name, value in spec.items() if value is not None}, PodSchedulingSpec
        )
        return _read(scheduling, pod, nodes=nodes)
    except (msgspec.ValidationError, InvalidInputError, _NotUnderstoodError, ValueError) as error:
        return PodRule(nodes=NodeRule(barred=(f"its pod template is not understood: {error}",)))


def required_anti_affinity(affinity: Mapping[str, Any], pod: Surroundings) -> Iterator[PodAffinityRule]:
    """Whom a pod that runs keeps away; what is not understood of it keeps nobody away."""
    for plain in affinity.get(REQUIRED) or ():
        try:
            yield _pod_affinity(msgspec.convert(plain, PodTerm), pod, AffinityKind.ANTI_AFFINITY)
        except (msgspec.ValidationError, InvalidInputError, _NotUnderstoodError, ValueError):
            continue


def level_of(topology_key: str) -> str:
    """The topology level that a node label stands for: a known one, or the label itself."""
    return NODE_LEVEL if topology_key == HOSTNAME else next(iter(topology({topology_key: "."})), topology_key)


def domain_of(level: str, node: str, labels: Mapping[str, str]) -> str | None:
    """The domain of a level that a node is in."""
    return node if level == NODE_LEVEL else topology(labels).get(level, labels.get(level))


def _read(scheduling: PodSchedulingSpec, pod: Surroundings, *, nodes: bool) -> PodRule:
    affinity = scheduling.affinity or AllAffinity()
    attracts, repels = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
    pod_affinity = [_pod_affinity(term, pod, AffinityKind.AFFINITY) for term in attracts.required]
    pod_affinity += [_pod_affinity(term, pod, AffinityKind.ANTI_AFFINITY) for term in repels.required]
    hard = [each for each in scheduling.topology_spread_constraints if each.when_unsatisfiable != "ScheduleAnyway"]
    soft = [each for each in scheduling.topology_spread_constraints if each.when_unsatisfiable == "ScheduleAnyway"]
    node_affinity = affinity.node_affinity or NodeAffinity()
    rule = NodeRule(
        preferences=tuple(_preferences(node_affinity)),
        topology_spread=tuple(_topology_spread(each, pod) for each in hard),
    )
    apart = [*_own_levels(repels.preferred, pod), *(level_of(each.topology_key) for each in soft)]
    return PodRule(
        nodes=rule.narrowed(_nodes(scheduling, node_affinity)) if nodes else rule,
        pod_affinity=tuple(pod_affinity),
        prefer=Prefer.SPREAD if apart else None,
        within=next(iter(_own_levels(attracts.preferred, pod)), None),
    )


def _nodes(scheduling: PodSchedulingSpec, affinity: NodeAffinity) -> NodeRule:
    terms = selector_to_terms(affinity.required) if affinity.required is not None else ()
    return NodeRule(
        node_selector=scheduling.node_selector,
        node_affinity=terms,
        tolerations=tolerations_to_model(scheduling.tolerations),
        barred=() if terms or affinity.required is None else ("its node affinity selects no node",),
    )


def _preferences(affinity: NodeAffinity) -> Iterator[NodePreference]:
    for each in affinity.preferred:
        if term := term_to_model(each.preference):
            yield NodePreference(each.weight, term)


def _pod_affinity(term: PodTerm, pod: Surroundings, kind: AffinityKind) -> PodAffinityRule:
    namespaces = _namespaces(term, pod)
    selects_nobody = term.label_selector is None
    pod_affinity = AffinityTerm(
        kind=kind,
        level=level_of(term.topology_key),
        labels=(*_term(term.label_selector), *_own_values(term, pod.labels)),
        tenants=() if selects_nobody else None if namespaces is None else pod.tenants_of(namespaces),
    )
    return PodAffinityRule(pod_affinity=pod_affinity, namespaces=frozenset() if selects_nobody else namespaces)


def _namespaces(term: PodTerm, pod: Surroundings) -> frozenset[str] | None:
    """The namespaces that are looked at; None: all. Nobody watches them, so only their name can be asked for."""
    chosen = term.namespace_selector
    if chosen is None:
        return frozenset(term.namespaces or (pod.namespace,))
    if not chosen.match_labels and not chosen.match_expressions:
        return None
    named = frozenset(
        value
        for each in _term(chosen)
        if each.key == _NAMESPACE_NAME and each.operator is Match.IN
        for value in each.values
    )
    if len(_term(chosen)) != 1 or not named:
        raise _NotUnderstoodError(f"a namespaceSelector may ask for the label {_NAMESPACE_NAME} alone")
    return named | frozenset(term.namespaces)


def _term(selector: LabelSelector | None) -> NodeTerm:
    return () if selector is None else labels_to_term(selector)


def _own_values(term: PodTerm, labels: Mapping[str, str]) -> Iterator[NodeRequirement]:
    """Labels in which the others must be like the pod itself, or unlike it; one that the pod lacks is left out."""
    pairs = ((Match.IN, term.match_label_keys), (Match.NOT_IN, term.mismatch_label_keys))
    for operator, keys in pairs:
        for key in keys:
            if key in labels:
                yield NodeRequirement(key=key, operator=operator, values=(labels[key],))


def _topology_spread(constraint: SpreadConstraint, pod: Surroundings) -> TopologySpread:
    selector = constraint.label_selector
    if selector is None or not all(each.holds(pod.labels) for each in _term(selector)):
        raise _NotUnderstoodError(
            "topologySpreadConstraints with whenUnsatisfiable DoNotSchedule are kept among pods of the same role; the"
            " labelSelector of this one does not select it"
        )
    return TopologySpread(level=level_of(constraint.topology_key), skew=constraint.max_skew)


def _own_levels(terms: Iterable[WeightedPodTerm], pod: Surroundings) -> Iterator[str]:
    """The levels of the terms that speak of the pod's own kind, what weighs most first."""
    for each in sorted(terms, key=lambda each: -each.weight):
        term = each.pod_affinity_term
        if term.label_selector is not None and all(one.holds(pod.labels) for one in _term(term.label_selector)):
            yield level_of(term.topology_key)
