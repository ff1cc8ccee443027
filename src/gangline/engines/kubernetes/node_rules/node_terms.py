"""Kubernetes' conditions on nodes and labels in the model's words. Pure."""

from collections.abc import Iterable

import msgspec

from gangline.kube import Node, Partial
from gangline.kube.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement, Toleration
from gangline.model import Match, NodeRequirement, NodeTerm
from gangline.model import Toleration as ModelToleration
from gangline.model.jobs.placement import NODE_NAME


class LabelSelector(Partial, frozen=True):
    """Selects by labels; an empty one selects everything."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[SelectorRequirement, ...] = ()


def selector_to_terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """Say which nodes are selected; a term without requirements holds of none."""
    return tuple(term for each in selector.node_selector_terms if (term := term_to_model(each)))


def term_to_model(term: NodeSelectorTerm) -> NodeTerm:
    """Say what must hold of one node."""
    return _requirements((*term.match_expressions, *term.match_fields))


def labels_to_term(selector: LabelSelector) -> NodeTerm:
    """Say what must hold of some labels."""
    exact = (NodeRequirement(key=key, values=(value,)) for key, value in selector.match_labels.items())
    return (*exact, *_requirements(selector.match_expressions))


def tolerations_to_model(given: Iterable[Toleration]) -> tuple[ModelToleration, ...]:
    """Say what a pod tolerates."""
    return tuple(
        ModelToleration(key=one.key, operator=one.operator, value=one.value, effect=one.effect) for one in given
    )


def node_matches(selector: NodeSelector, node: Node) -> bool:
    """Whether one of the selector's terms holds of a node."""
    labels = {**node.metadata.labels, NODE_NAME: node.metadata.name}
    return any(all(each.holds(labels) for each in term) for term in selector_to_terms(selector))


def _requirements(given: Iterable[SelectorRequirement]) -> NodeTerm:
    return tuple(
        NodeRequirement(key=each.key, operator=Match(each.operator), values=tuple(each.values)) for each in given
    )
