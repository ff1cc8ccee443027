"""Kubernetes' conditions on nodes in the model's words. Pure."""

from gangline.kube.objects import NodeSelector, NodeSelectorTerm
from gangline.model import Match, NodeRequirement, NodeTerm


def selector_to_terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """Say which nodes are selected; a term without requirements holds of none."""
    return tuple(term for each in selector.node_selector_terms if (term := term_to_model(each)))


def term_to_model(term: NodeSelectorTerm) -> NodeTerm:
    """Say what must hold of one node."""
    return tuple(
        NodeRequirement(key=each.key, operator=Match(each.operator), values=tuple(each.values))
        for each in (*term.match_expressions, *term.match_fields)
    )
