"""Kubernetes' selectors over labels and nodes, evaluated as kube-scheduler does. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gangline.kube import Node
from gangline.kube.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement


def labels_match(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector selects these labels: None selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    expressions = msgspec.convert(selector.get("matchExpressions") or [], tuple[SelectorRequirement, ...])
    return all(_holds(expression, labels) for expression in expressions)


def node_matches(choice: NodeSelector, node: Node) -> bool:
    """Whether one of the selector's terms holds of a node."""
    return any(_term_holds(term, node) for term in choice.node_selector_terms)


def _term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    if not (term.match_expressions or term.match_fields):
        return False  # Kubernetes' own rule: an empty term selects nothing
    fields = {"metadata.name": node.metadata.name}
    return _all_hold(term.match_expressions, node.metadata.labels) and _all_hold(term.match_fields, fields)


def _all_hold(requirements: Iterable[SelectorRequirement], labels: Mapping[str, str]) -> bool:
    return all(_holds(requirement, labels) for requirement in requirements)


def _holds(requirement: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
        case _:
            return False


def _compares(value: str | None, requirement: SelectorRequirement) -> bool:
    try:
        found, bound = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return found > bound if requirement.operator == "Gt" else found < bound
