"""How the replicas of one gang lie to one another: which must not share a domain, and which must.

Derived once per gang from what its roles say of the company they want; placement keeps to it. Knows nothing of nodes,
and nothing of others on them, which is the matter of ``neighbours``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gangline.model import Bond, JobSpec, RoleName


@dataclass(frozen=True, slots=True)
class Apart:
    """Replicas of two roles (or of one, if there is but one name) no two of which share a domain of a level.

    ``strict`` says that nodes outside every domain are not used; otherwise nobody shares anything there.
    """

    level: str
    roles: frozenset[RoleName]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Together:
    """Roles whose replicas all lie in one domain of a level."""

    level: str
    roles: frozenset[RoleName]


def aparts_of(spec: JobSpec) -> tuple[Apart, ...]:
    """What must lie apart: each role by the job's own rule, and whoever bears not another."""
    own = spec.placement.apart
    found = [] if own is None else [Apart(own, frozenset({role.name}), strict=True) for role in spec.roles]
    found += [Apart(level, frozenset(pair)) for level, *pair in _pairs(spec, Bond.REPELS)]
    return tuple(dict.fromkeys(found))


def togethers_of(spec: JobSpec) -> tuple[Together, ...]:
    """What must lie together: roles that want one another, directly or through a third."""
    groups: list[Together] = []
    for level, *pair in _pairs(spec, Bond.ATTRACTS):
        members = frozenset(pair)
        touching = [group for group in groups if group.level == level and group.roles & members]
        groups = [group for group in groups if group not in touching]
        groups.append(Together(level, members.union(*(group.roles for group in touching))))
    return tuple(groups)


def _pairs(spec: JobSpec, bond: Bond) -> Iterator[tuple[str, RoleName, RoleName]]:
    for role in spec.roles:
        for company in spec.nodes_of(role).company:
            if company.bond is bond and not company.of_jobs:
                for other in spec.roles:
                    if company.means(other.labels, spec.tenant):
                        yield company.level, role.name, other.name
