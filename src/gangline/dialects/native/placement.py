"""Placement of a job, and of a single role: read from a job file and written back.

Conditions on nodes are written as in Kubernetes, so the dialects of its jobs read them here too.
"""

from collections.abc import Mapping
from typing import Any

from gangline.dialects.native import fields
from gangline.dialects.value import Value
from gangline.model import Match, NodeRequirement, NodeRule, NodeTerm, PlacementRule, Prefer, Toleration, Within

OPERATORS = ("Equal", "Exists")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def read_placement(value: Value) -> PlacementRule:
    """Read ``spec.placement``."""
    given = value.fields(fields.PLACEMENT)
    outermost, *nested = _levels(given) or (Within("", _flag(given)),)
    with value.located():
        return PlacementRule(
            prefer=given["prefer"].choice(Prefer) if "prefer" in given else None,
            within=outermost.level or None,
            within_required=outermost.required,
            nested=tuple(nested),
            apart=given["apart"].text() if "apart" in given else None,
            near=given["near"].strings() if "near" in given else {},
            away=given["away"].strings() if "away" in given else {},
            **_nodes(given),
        )


def read_nodes(value: Value) -> tuple[NodeRule | None, tuple[Within, ...]]:
    """Read the ``placement`` of a role, which speaks of nodes, and of the domains that each of its groups stays in."""
    given = value.fields(fields.PLACEMENT)
    for name in given:
        if name not in (*fields.NODES, *fields.WITHIN):
            raise given[name].wrong("it speaks of the whole gang", expected=f"it in spec.placement.{name}")
    levels = _levels(given)
    with value.located():
        return (None if levels and not _nodes(given) else NodeRule(**_nodes(given))), levels


def _levels(given: Mapping[str, Value]) -> tuple[Within, ...]:
    """Topology levels: one by its name, or a list from the outermost on, of names and of levels that say more."""
    if "within" not in given:
        return ()
    value = given["within"]
    if not isinstance(value.data, list | tuple):
        return (Within(value.text(), _flag(given)),)
    if "within_required" in given:
        raise given["within_required"].wrong("it stands beside a list of levels", expected="required in each of them")
    levels = tuple(map(_level, value.items()))
    names = [each.level for each in levels]
    if len(set(names)) < len(names):
        raise value.wrong("a level is given twice", expected="each level once")
    return levels


def _flag(given: Mapping[str, Value]) -> bool:
    return given["within_required"].boolean() if "within_required" in given else True


def _level(value: Value) -> Within:
    if isinstance(value.data, str):
        return Within(value.text())
    given = value.fields(fields.LEVEL)
    if "level" not in given:
        raise value.missing("level", "the name of a topology level, for example rack")
    return Within(given["level"].text(), given["required"].boolean() if "required" in given else True)


def _nodes(given: Mapping[str, Value]) -> dict[str, Any]:
    readers = {
        "gpu_types": ("gpu_type", _one_or_more),
        "node_selector": ("node_selector", Value.strings),
        "node_affinity": ("node_affinity", lambda value: tuple(map(_term, value.items()))),
        "tolerations": ("tolerations", lambda value: tuple(map(read_toleration, value.items()))),
    }
    return {attribute: read(given[name]) for attribute, (name, read) in readers.items() if name in given}


def _term(value: Value) -> NodeTerm:
    """A list of requirements, or a single one."""
    if isinstance(value.data, list | tuple):
        return tuple(map(read_requirement, value.items()))
    return (read_requirement(value),)


def read_requirement(value: Value) -> NodeRequirement:
    """Read one requirement of a node, as Kubernetes writes it."""
    given = value.fields(fields.REQUIREMENT)
    if "key" not in given:
        raise value.missing("key", "the name of a label")
    with value.located(prefix="node_affinity"):
        return NodeRequirement(
            key=given["key"].text(),
            operator=given["operator"].choice(Match) if "operator" in given else Match.IN,
            values=_one_or_more(given["values"]) if "values" in given else (),
        )


def read_toleration(value: Value) -> Toleration:
    """Read one toleration, as Kubernetes writes it."""
    given = value.fields(fields.TOLERATION)
    return Toleration(
        key=given["key"].text() if "key" in given else "",
        operator=given["operator"].one_of(OPERATORS) if "operator" in given else "Equal",
        value=given["value"].text_or_number() if "value" in given else "",
        effect=given["effect"].one_of(EFFECTS) if "effect" in given and given["effect"].data else "",
    )


def placement_to_plain(rule: PlacementRule) -> dict[str, object]:
    """Write what differs from the defaults."""
    plain: dict[str, object] = {
        "prefer": None if rule.prefer is None else rule.prefer.value,
        **levels_to_plain(rule.levels or (Within("", rule.within_required),)),
        "apart": rule.apart,
        "near": dict(rule.near) or None,
        "away": dict(rule.away) or None,
    }
    return {name: setting for name, setting in plain.items() if setting is not None} | nodes_to_plain(rule)


def levels_to_plain(levels: tuple[Within, ...]) -> dict[str, object]:
    """Write topology levels: a single one as its name."""
    if len(levels) > 1:
        return {"within": [{"level": each.level, **({} if each.required else {"required": False})} for each in levels]}
    plain: dict[str, object] = {}
    for each in levels:
        plain |= {"within": each.level} if each.level else {}
        plain |= {} if each.required else {"within_required": False}
    return plain


def nodes_to_plain(rule: NodeRule) -> dict[str, object]:
    """Write what a rule says of nodes."""
    plain: dict[str, object] = {
        "gpu_type": list(rule.gpu_types),
        "node_selector": dict(rule.node_selector),
        "node_affinity": [[_requirement_to_plain(each) for each in term] for term in rule.node_affinity],
        "tolerations": [_toleration_to_plain(toleration) for toleration in rule.tolerations],
    }
    return {name: setting for name, setting in plain.items() if setting}


def _requirement_to_plain(requirement: NodeRequirement) -> dict[str, object]:
    plain: dict[str, object] = {"key": requirement.key, "operator": requirement.operator.value}
    return plain | ({"values": list(requirement.values)} if requirement.values else {})


def _toleration_to_plain(toleration: Toleration) -> dict[str, object]:
    plain = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {name: text for name, text in plain.items() if text}


def _one_or_more(value: Value) -> tuple[str, ...]:
    if isinstance(value.data, list | tuple):
        return tuple(item.text_or_number() for item in value.items())
    return (value.text_or_number(),)
