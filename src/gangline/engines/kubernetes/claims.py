"""Which volume claims the replicas of a job use, and what of the nodes their volumes leave. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.staging import moved_claims
from gangline.kube import Node
from gangline.kube.objects import NodeSelector, NodeSelectorTerm
from gangline.model import Gang, GangReplica, JobSpec, Match, NodeRequirement, NodeRule, NodeTerm, RoleName, RoleSpec

_CLAIM = "persistentVolumeClaim"


def claims_by_role(spec: JobSpec) -> dict[RoleName, tuple[str, ...]]:
    """Name the claims of every role that has any: its template's, the job's own volume, and where data lies."""
    shared = sorted(moved_claims(spec)) if spec.inputs or spec.outputs else []
    if names.VOLUME in spec.labels:
        shared.append(spec.labels[names.VOLUME])
    found = {role.name: (*shared, *_template_claims(role)) for role in spec.roles}
    return {role: claims for role, claims in found.items() if claims}


def claims_of_gang(gang: Gang, replicas: Iterable[GangReplica], nodes: Mapping[str, Node]) -> list[tuple[str, Node]]:
    """Say which claims these replicas use, and where."""
    by_role = claims_by_role(gang.spec)
    return [
        (claim, nodes[replica.node])
        for replica in replicas
        for claim in by_role.get(replica.id.role, ())
        if replica.node in nodes
    ]


def confined(spec: JobSpec, terms: Mapping[RoleName, Sequence[tuple[NodeTerm, ...]]]) -> JobSpec:
    """Return the spec with its roles kept to nodes of which one term of each choice holds."""
    return replace(spec, roles=tuple(_confined(role, terms.get(role.name, ())) for role in spec.roles))


def _confined(role: RoleSpec, choices: Sequence[tuple[NodeTerm, ...]]) -> RoleSpec:
    rule = role.placement or NodeRule()
    for choice in choices:
        rule = rule.narrowed(NodeRule(node_affinity=choice))
    return replace(role, placement=rule) if choices else role


def selector_to_terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """Say in the model's words which nodes a volume is reached from; a term without requirements holds of none."""
    return tuple(term for each in selector.node_selector_terms if (term := _to_term(each)))


def _to_term(term: NodeSelectorTerm) -> NodeTerm:
    return tuple(
        NodeRequirement(key=each.key, operator=Match(each.operator), values=tuple(each.values))
        for each in (*term.match_expressions, *term.match_fields)
    )


def _template_claims(role: RoleSpec) -> Iterable[str]:
    text = role.pod_template_json or ""
    if _CLAIM not in text:
        return  # most templates have none, and this is asked of every waiting job in every cycle
    for volume in (json.loads(text).get("spec") or {}).get("volumes") or ():
        if claim := (volume.get(_CLAIM) or {}).get("claimName"):
            yield claim
