"""How the replicas of one gang lie to one another: which must not share a domain, and which must.

Derived once per gang from its levels, its groups and the affinity rules of its roles; placement keeps to it. Knows
nothing of nodes, and nothing of others on them, which is the matter of ``between_gangs``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gangline.model import AffinityKind, JobSpec, RoleName, RoleSpec


@dataclass(frozen=True, slots=True)
class Separation:
    """Replicas of two roles (or of one, if there is but one name) no two of which share a domain of a level.

    ``strict`` says that nodes outside every domain are not used; otherwise nobody shares anything there.
    """

    level: str
    roles: frozenset[RoleName]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Colocation:
    """Roles whose replicas all lie in one domain of a level; not ``required``, if that is possible."""

    level: str
    roles: frozenset[RoleName]
    required: bool = True


_MARK = "/"
"""No role's own name has a slash."""


def group_names(role: RoleSpec) -> tuple[RoleName, ...]:
    """What placement calls the groups of a role: by the role's own name if there is but one."""
    return (role.name,) if role.groups == 1 else tuple(RoleName(f"{role.name}{_MARK}{n}") for n in range(role.groups))


def role_name(group: RoleName) -> RoleName:
    """The role that a group is part of."""
    return RoleName(group.partition(_MARK)[0])


def separations_of(spec: JobSpec) -> tuple[Separation, ...]:
    """What must lie apart: each role by the job's own rule, and whoever bears not another."""
    own = spec.placement.apart
    pairs = [] if own is None else [(own, role.name, role.name, True) for role in spec.roles]
    pairs += [(level, one, other, False) for level, one, other in _pairs(spec, AffinityKind.ANTI_AFFINITY)]
    names = {role.name: group_names(role) for role in spec.roles}
    return tuple(
        dict.fromkeys(
            Separation(level, frozenset({first, second}), strict=strict)
            for level, one, other, strict in pairs
            for first in names[one]
            for second in names[other]
        )
    )


def colocations_of(spec: JobSpec) -> tuple[Colocation, ...]:
    """What lies together: the whole gang, level by level; roles that want one another; and each group."""
    everybody = frozenset(name for role in spec.roles for name in group_names(role))
    return (
        *(Colocation(each.level, everybody, each.required) for each in spec.placement.levels),
        *_attracted(spec),
        *(
            Colocation(each.level, frozenset({name}), each.required)
            for role in spec.roles
            for name in group_names(role)
            for each in role.within
        ),
    )


def _attracted(spec: JobSpec) -> list[Colocation]:
    """Roles that want one another, directly or through a third."""
    groups: list[Colocation] = []
    for level, *pair in _pairs(spec, AffinityKind.AFFINITY):
        members = frozenset(pair)
        touching = [group for group in groups if group.level == level and group.roles & members]
        groups = [group for group in groups if group not in touching]
        groups.append(Colocation(level, members.union(*(group.roles for group in touching))))
    names = {role.name: group_names(role) for role in spec.roles}
    return [Colocation(each.level, frozenset(name for role in each.roles for name in names[role])) for each in groups]


def _pairs(spec: JobSpec, kind: AffinityKind) -> Iterator[tuple[str, RoleName, RoleName]]:
    for role in spec.roles:
        for pod_affinity in spec.nodes_of(role).pod_affinity:
            if pod_affinity.kind is kind and not pod_affinity.of_jobs:
                for other in spec.roles:
                    if pod_affinity.means(other.labels, spec.tenant):
                        yield pod_affinity.level, role.name, other.name
