"""Who may do what: rights, roles that bundle them, and people with roles in tenants. Values and rules alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gangline.model.identity import Tenant


class Right(StrEnum):
    """What an operation needs. Every operation of every interface names exactly one."""

    ANYONE = "anyone"
    """Nothing, not even a login: whether the service is there, and how to log in to it."""
    ASK = "ask"
    """A login, whatever its roles: what is nobody's secret, such as the version or what one may do oneself."""
    READ = "read"
    """To see what a tenant has."""
    WRITE = "write"
    """To make, change and delete what a tenant has, and to read its Secrets."""
    ADMINISTER = "administer"
    """To say who else may act for a tenant, and to read who did."""
    MEASURE = "measure"
    """To read what the platform counts of itself, all tenants together."""
    OPERATE = "operate"
    """To run the platform: queues, all tenants at once."""


class Role(StrEnum):
    """What a person is in a tenant; the operator is that in all of them."""

    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"
    MONITOR = "monitor"
    """Of the whole platform, as the operator: a program that reads its figures, and nothing else."""
    OPERATOR = "operator"


PLATFORM_ROLES = frozenset({Role.MONITOR, Role.OPERATOR})
"""Roles that are in no single tenant."""

_VIEWER = frozenset({Right.ANYONE, Right.ASK, Right.READ})
RIGHTS_OF: Mapping[Role, frozenset[Right]] = {
    Role.VIEWER: _VIEWER,
    Role.MEMBER: _VIEWER | {Right.WRITE},
    Role.ADMIN: _VIEWER | {Right.WRITE, Right.ADMINISTER},
    Role.MONITOR: frozenset({Right.ANYONE, Right.ASK, Right.MEASURE}),
    Role.OPERATOR: frozenset(Right),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Somebody who has proved who they are: a name, and a role in each of their tenants."""

    name: str
    roles: Mapping[Tenant, Role] = field(default_factory=dict)
    operator: bool = False
    monitor: bool = False

    def tenants_with(self, right: Right) -> frozenset[Tenant] | None:
        """Return the tenants in which they have a right; None means every one."""
        if self.operator or (self.monitor and right is Right.MEASURE):
            return None
        return frozenset(tenant for tenant, role in self.roles.items() if right in RIGHTS_OF[role])

    def may(self, right: Right, tenant: Tenant | None = None) -> bool:
        """Whether they have a right in a tenant; for None, in any at all."""
        if self.operator or right in (Right.ANYONE, Right.ASK) or (self.monitor and right is Right.MEASURE):
            return True
        tenants = self.tenants_with(right) or frozenset()
        return bool(tenants) if tenant is None else tenant in tenants
