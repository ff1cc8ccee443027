"""What nodes have for pods of others, told to the scheduler as amounts.

The scheduler knows labels, taints and amounts; Kubernetes knows more: affinity by expressions, ports of a node, volumes
that exist on one node alone. All of it becomes amounts here: a node that meets a requirement has plenty of it, another
none; of a port it has one. So a gang is placed exactly, in the same cycle as all others, and the scheduler learns
nothing of Kubernetes.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from gangline.engines.kubernetes.foreign.selectors import node_matches
from gangline.engines.kubernetes.names import DOMAIN
from gangline.kube import Node
from gangline.kube.objects import NodeSelector, Toleration

PLENTY = 10_000
"""More than a node has pods."""
FITS_PREFIX = f"{DOMAIN}/fits."
_DIGEST_LENGTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What must hold of a node: every label, one term of every choice, and a toleration for every taint.

    ``tolerations`` is None where the job itself says what its replicas tolerate.
    """

    labels: tuple[tuple[str, str], ...] = ()
    choices: tuple[NodeSelector, ...] = ()
    tolerations: tuple[Toleration, ...] | None = None

    def meets(self, node: Node) -> bool:
        """Whether a node is fit."""
        return (
            all(node.metadata.labels.get(key) == value for key, value in self.labels)
            and all(node_matches(choice, node) for choice in self.choices)
            and (self.tolerations is None or _tolerates_all(self.tolerations, node))
        )


def digest(value: object) -> str:
    """A short name for a value, the same in every life of the controller."""
    text = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:_DIGEST_LENGTH]


class Offers:
    """The requirements and single things that pods wait for now; ``changed`` is called when they are others."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._requirements: dict[str, Requirement] = {}
        self._singles: frozenset[str] = frozenset()

    def settle(self, requirements: Mapping[str, Requirement], singles: Iterable[str]) -> None:
        """Offer exactly these from now on: requirements by their name, and things of which each node has one."""
        settled = dict(requirements), frozenset(singles)
        if settled != (self._requirements, self._singles):
            self._requirements, self._singles = settled
            self._changed()

    def of(self, node: Node) -> dict[str, int]:
        """What a node has."""
        met = {name: PLENTY for name, requirement in self._requirements.items() if requirement.meets(node)}
        return met | dict.fromkeys(self._singles, 1)


def _tolerates_all(tolerations: Iterable[Toleration], node: Node) -> bool:
    hard = [taint for taint in node.spec.taints if taint.effect != "PreferNoSchedule"]
    return all(any(_tolerates(each, taint.key, taint.value, taint.effect) for each in tolerations) for taint in hard)


def _tolerates(toleration: Toleration, key: str, value: str, effect: str) -> bool:
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == value)
