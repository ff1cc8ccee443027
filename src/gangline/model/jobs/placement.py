"""Where replicas may and should run: conditions on nodes, and how replicas lie to one another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gangline.errors import InvalidInputError
from gangline.model.identity import Tenant
from gangline.model.node import Taint

POD_SECURITY, AS_WRITTEN = "gangline.dev/pod-security", "as-written"
"""The annotation of a pod template that is kept to the letter: no security context of ours is added to it."""
NODE_NAME = "metadata.name"
"""As the key of a requirement: the node's own name instead of one of its labels."""


class Prefer(StrEnum):
    """How replicas are laid over nodes when several layouts fit."""

    PACK = "pack"
    SPREAD = "spread"


class Match(StrEnum):
    """How a label is compared, in Kubernetes' words; a label that is not there is never in, above or below."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    ABOVE = "Gt"
    BELOW = "Lt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Lets replicas onto nodes with a matching taint. An empty key matches every taint, an empty effect all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether a taint does not matter; ``Exists`` ignores its value."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return not self.key or self.operator == "Exists" or self.value == taint.value


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequirement:
    """One condition on a label: of a node or, in ``AffinityTerm``, of a replica. ``Gt`` and ``Lt`` compare whole
    numbers."""

    key: str
    operator: Match = Match.IN
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        match self.operator:
            case Match.IN | Match.NOT_IN:
                fits, expected = bool(self.values), "at least one value"
            case Match.EXISTS | Match.DOES_NOT_EXIST:
                fits, expected = not self.values, "no values"
            case Match.ABOVE | Match.BELOW:
                fits, expected = len(self.values) == 1 and _is_whole(self.values[0]), "one whole number"
        if not fits:
            problem = f"{self.operator} does not take {list(self.values)}"
            raise InvalidInputError(problem, field="node_affinity.values", expected=expected)

    def __str__(self) -> str:
        values = f" {', '.join(self.values)}" if self.values else ""
        return f"{self.key} {self.operator}{values}"

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether some labels meet it."""
        value = labels.get(self.key)
        match self.operator:
            case Match.IN:
                return value in self.values
            case Match.NOT_IN:
                return value not in self.values
            case Match.EXISTS:
                return value is not None
            case Match.DOES_NOT_EXIST:
                return value is None
            case Match.ABOVE | Match.BELOW:
                return value is not None and self.compares(value)

    def compares(self, value: str) -> bool:
        """Whether a label's text is a whole number above, or below, the one that is named."""
        if not _is_whole(value):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator is Match.ABOVE else int(value) < bound


NodeTerm = tuple[NodeRequirement, ...]
"""Conditions that must all hold of one node, or of one replica."""


@dataclass(frozen=True, slots=True)
class NodePreference:
    """A term that replicas would rather see hold; what weighs more counts more."""

    weight: int
    term: NodeTerm


class AffinityKind(StrEnum):
    """Whether a replica wants others in its domain, or bears none of them there."""

    AFFINITY = "attracts"
    ANTI_AFFINITY = "repels"


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityTerm:
    """Whom a replica must have, or must not have, in its domain of a topology level.

    Meant are replicas that all of ``labels`` hold of, of one of ``tenants`` (None: of anybody); with ``of_jobs`` it is
    the labels of their jobs that count, and those of its own gang are not meant. ``present`` names domains where
    somebody who belongs to no job is meant too: engines know of such and fill it in before a scheduling cycle.
    """

    kind: AffinityKind
    level: str
    labels: NodeTerm = ()
    tenants: tuple[Tenant, ...] | None = None
    of_jobs: bool = False
    present: tuple[str, ...] = ()

    def means(self, labels: Mapping[str, str], tenant: Tenant) -> bool:
        """Whether a replica (or a job) with these labels is meant."""
        return (self.tenants is None or tenant in self.tenants) and all(each.holds(labels) for each in self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpread:
    """Replicas of a role lie evenly: no domain of ``level`` has over ``skew`` more of them than the emptiest."""

    level: str
    skew: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRule:
    """Which nodes replicas may use.

    ``gpu_types`` is in order of preference; empty means any. Every label of ``node_selector`` must be there, and one
    of the terms of ``node_affinity`` must hold, if there are any. The rest stands in no job file: engines fill it in
    from what a job brings along. ``preferences`` are terms that should hold; ``pod_affinity`` and ``topology_spread``
    say how replicas
    lie to others and among themselves; each reason in ``barred`` keeps them from every node.
    """

    gpu_types: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[NodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    preferences: tuple[NodePreference, ...] = ()
    pod_affinity: tuple[AffinityTerm, ...] = ()
    topology_spread: tuple[TopologySpread, ...] = ()
    barred: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not all(self.node_affinity):
            raise InvalidInputError(
                "a term without requirements holds of no node", field="node_affinity", expected="a requirement in each"
            )

    def narrowed(self, own: "NodeRule") -> "NodeRule":
        """Return what holds for a role with a rule of its own: both, and the role's word where they contradict."""
        return NodeRule(
            gpu_types=own.gpu_types or self.gpu_types,
            node_selector={**self.node_selector, **own.node_selector},
            node_affinity=_both(self.node_affinity, own.node_affinity),
            tolerations=(*self.tolerations, *own.tolerations),
            preferences=(*self.preferences, *own.preferences),
            pod_affinity=(*self.pod_affinity, *own.pod_affinity),
            topology_spread=(*self.topology_spread, *own.topology_spread),
            barred=(*self.barred, *own.barred),
        )


@dataclass(frozen=True, slots=True)
class Within:
    """Replicas stay in one domain of a topology level: a condition, or only a preference."""

    level: str
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRule(NodeRule):
    """Where a gang may and should run: which nodes its replicas may use, and how they lie to one another.

    ``within`` keeps the gang inside one domain of that topology level; ``within_required`` says whether
    that is a condition or a preference. ``nested`` has further levels inside that one, each inside the one before it:
    preferences are given up from the last to the first. ``apart`` lets no two replicas of a role share a domain of
    that level. ``near`` and ``away`` are labels of other jobs: replicas go only to nodes that run a job with all of
    these, or never to such nodes.
    """

    prefer: Prefer | None = None
    within: str | None = None
    within_required: bool = True
    nested: tuple[Within, ...] = ()
    apart: str | None = None
    near: Mapping[str, str] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)

    @property
    def levels(self) -> tuple[Within, ...]:
        """All levels of which the gang stays in one domain, the outermost first."""
        return (Within(self.within, self.within_required), *self.nested) if self.within is not None else ()


def _both(one: tuple[NodeTerm, ...], other: tuple[NodeTerm, ...]) -> tuple[NodeTerm, ...]:
    """Return the terms of which one holds exactly where one of each does."""
    if not one or not other:
        return one or other
    return tuple((*first, *second) for first in one for second in other)


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii()
