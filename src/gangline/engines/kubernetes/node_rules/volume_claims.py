"""What the replicas of a job need besides machines, and what of the nodes their volumes leave. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests.moves import GangData, claim_of, has_moves, scheme_of
from gangline.engines.kubernetes.node_rules.references import Reference, references_by_role
from gangline.engines.kubernetes.node_rules.volumes import Sharing
from gangline.kube import Node
from gangline.model import (
    AffinityKind,
    AffinityTerm,
    Gang,
    GangReplica,
    JobId,
    JobSpec,
    NodeRequirement,
    NodeRule,
    NodeTerm,
    RoleName,
    RoleSpec,
)

_CLAIM = "persistentVolumeClaim"

Need = str | Reference
"""What pods cannot start without: a claim, by its name, or another object of their namespace."""


def claims_by_role(spec: JobSpec) -> dict[RoleName, tuple[str, ...]]:
    """Name the claims of every role that has any: its template's, the job's own volume, and where data lies."""
    mounted = GangData().mounted(spec) if has_moves(spec) else set()
    shared = sorted({claim_of(place)[0] for place in mounted if scheme_of(place) == "pvc"})
    if names.VOLUME in spec.labels:
        shared.append(spec.labels[names.VOLUME])
    found = {role.name: (*shared, *_template_claims(role)) for role in spec.roles}
    return {role: claims for role, claims in found.items() if claims}


def needs_by_role(spec: JobSpec) -> dict[RoleName, tuple[Need, ...]]:
    """Name what the pods of every role cannot start without: claims, ConfigMaps and Secrets."""
    claims, references = claims_by_role(spec), references_by_role(spec)
    if not references:
        return {**claims}
    return {role: (*claims.get(role, ()), *references.get(role, ())) for role in {**claims, **references}}


def claims_of_gang(gang: Gang, replicas: Iterable[GangReplica], nodes: Mapping[str, Node]) -> list[tuple[str, Node]]:
    """Say which claims these replicas use, and where."""
    by_role = claims_by_role(gang.spec)
    return [
        (claim, nodes[replica.node])
        for replica in replicas
        for claim in by_role.get(replica.id.role, ())
        if replica.node in nodes
    ]


@dataclass(frozen=True, slots=True)
class VolumeConstraint:
    """What a claim leaves to those who use it: nodes of which one of the terms holds, and how they share it.

    ``lacking`` says why there is nothing to use yet, wherever that would be.
    """

    terms: tuple[NodeTerm, ...] = ()
    sharing: Sharing = Sharing.ANYWHERE
    lacking: str = ""


def confined(
    spec: JobSpec,
    job_id: JobId,
    by_role: Mapping[RoleName, Sequence[Need]],
    constraints: Mapping[Need, VolumeConstraint],
) -> JobSpec:
    """Return the spec with its roles kept to what the claims and other objects that they use leave them."""
    users = Counter(dict.fromkeys(constraints, 0))
    for role in spec.roles:
        users.update(dict.fromkeys(by_role.get(role.name, ()), role.most))
    roles = []
    for each in spec.roles:
        role = each
        for name in by_role.get(each.name, ()):
            if name in constraints:
                role = _constrained(role, name, constraints[name], job_id, users[name])
        roles.append(role)
    return replace(spec, roles=tuple(roles))


def _constrained(role: RoleSpec, claim: Need, constraint: VolumeConstraint, job_id: JobId, users: int) -> RoleSpec:
    """Keep a role to a claim's nodes. Whoever shares a claim that one node may use at a time wants the others there."""
    rule, labels = NodeRule(node_affinity=constraint.terms), role.labels
    if constraint.lacking:
        rule = replace(rule, barred=(constraint.lacking,))
    elif users > 1 and constraint.sharing is Sharing.ONE_POD:
        rule = replace(rule, barred=(f"claim '{claim}' is ReadWriteOncePod and {users} replicas use it",))
    elif users > 1 and constraint.sharing is Sharing.ONE_NODE:
        shared = NodeRequirement(key=f"claim {claim}", values=(job_id,))
        rule = replace(rule, pod_affinity=(AffinityTerm(kind=AffinityKind.AFFINITY, level="node", labels=(shared,)),))
        labels = {**labels, shared.key: job_id}
    return replace(role, placement=(role.placement or NodeRule()).narrowed(rule), labels=labels)


def _template_claims(role: RoleSpec) -> Iterable[str]:
    text = role.pod_template_json or ""
    if _CLAIM not in text:
        return  # most templates have none, and this is asked of every waiting job in every cycle
    for volume in (json.loads(text).get("spec") or {}).get("volumes") or ():
        if claim := (volume.get(_CLAIM) or {}).get("claimName"):
            yield claim
