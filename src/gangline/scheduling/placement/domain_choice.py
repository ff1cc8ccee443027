"""Which domain each part of a gang lies in: every choice that could work, the tightest domains first.

A gang may have to lie in one zone, in it in one rack, and each of its groups in a rack of its own. A choice gives every
such part a domain; the ``Placer`` then tries the nodes that it leaves. Parts that share a domain are tried together on
the way, so that a choice that cannot work is dropped before the rest of it is made.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gangline.model import RoleName
from gangline.scheduling.demand.gang_affinity import Colocation
from gangline.scheduling.demand.shapes import Demand, RoleDemand
from gangline.scheduling.nodes.domains import confined
from gangline.scheduling.nodes.table import Bools, Interned

if TYPE_CHECKING:
    from gangline.scheduling.placement.placer import Placer

TRIAL_EFFORT = 25
"""What trying a role in one domain costs, in the units of exact searches."""


def parts_of(demand: Demand) -> tuple[Colocation, ...]:
    """Parts of a gang that lie in a domain of their own."""
    return tuple(each for each in demand.together if len(each.roles) < len(demand.roles))


def are_countable(demand: Demand) -> bool:
    """Whether its parts are single roles or groups that have nothing to do with each other but the nodes they share."""
    alone = all(len(each.roles) == 1 for each in parts_of(demand))
    apart = any(each.level != "node" for each in demand.apart)
    return alone and not apart and not any(role.topology_spread for role in demand.roles)


class _Choice(NamedTuple):
    """A part of a gang and the number of its domain; ``position`` among the domains that were open to it."""

    group: Colocation
    domain: int
    position: int


class Domains:
    """The choices of one demand on some nodes."""

    def __init__(self, placer: "Placer", demand: Demand, allowed: Bools | None) -> None:
        self._placer = placer
        self._demand = demand
        self._allowed = allowed
        self._table = placer.draft.table
        self._tried: dict[object, bool] = {}
        self._parts = parts_of(demand)
        self._everybody = frozenset(role.role for role in demand.roles)
        self._symmetric = not demand.apart and (allowed is None or allowed.ndim == 1)
        """Whether roles that ask for the same may change places."""
        self._failed = False
        """Whether a choice has failed already: from then on it pays to look whether the rest has room at all."""

    def choices(self) -> Iterator[Bools | None]:
        """Sets of nodes: one mask for each way to give every part of the gang a domain."""
        yield from self._choose(self._demand.together, self._allowed, ())

    def _choose(
        self, groups: tuple[Colocation, ...], allowed: Bools | None, chosen: tuple[_Choice, ...]
    ) -> Iterator[Bools | None]:
        if not groups:
            yield allowed
            self._failed = True
            return
        has_room = self._failed
        if self._failed and not self._has_room(allowed):
            return
        group, rest = groups[0], groups[1:]
        inside = self._bounds(group, chosen)
        if not inside and not self._is_enough(group, rest, allowed):
            self._failed = True
            return
        first = self._first(group, chosen, inside)
        domains = self._table.level(group.level)
        for position, domain in enumerate(self._open_to(group, allowed, domains)):
            if position < first:
                continue
            mask = confined(allowed, self._demand, group.roles, domains.ids == domain)
            if self._fits_beside(group, domain, mask, chosen):
                yield from self._choose(rest, mask, (*chosen, _Choice(group, domain, position)))
            # The first choice is made without a look at the rest: most often it is as good as any.
            if not has_room and not self._has_room(allowed):
                return
            self._failed = has_room = True

    def _has_room(self, allowed: Bools | None) -> bool:
        """Whether the gang would fit if the parts that have no domain yet might lie anywhere."""
        return not self._parts or self._try(self._everybody, allowed)

    def _open_to(self, group: Colocation, allowed: Bools | None, domains: Interned) -> list[int]:
        """Domains where every role of the group by itself would fit, the tightest first."""
        fits = np.ones(len(domains.names), dtype=np.bool_)
        room = np.zeros(len(domains.names), dtype=np.float64)
        for role in self._demand.roles:
            if role.role in group.roles:
                sums = self._placer.room_by_domain(role, self._demand, allowed, domains)
                fits &= sums >= role.least
                room += sums
        return sorted(np.flatnonzero(fits).tolist(), key=lambda number: (room[number], number))

    def _bounds(self, group: Colocation, chosen: tuple[_Choice, ...]) -> tuple[tuple[str, int], ...]:
        """The domains of other levels that the roles of a part are in already."""
        mine = (each for each in chosen if each.group in self._parts and each.group.roles & group.roles)
        return tuple((each.group.level, each.domain) for each in mine if each.group is not group)

    def _first(self, group: Colocation, chosen: tuple[_Choice, ...], inside: tuple[tuple[str, int], ...]) -> int:
        """Groups that are alike are as good in any order: each need not try what comes before the last one's domain."""
        twins = (each for each in reversed(chosen) if self._are_alike(each.group, group))
        twin = next((each for each in twins if self._before(each, chosen) == inside), None)
        return 0 if twin is None else twin.position

    def _before(self, choice: _Choice, chosen: tuple[_Choice, ...]) -> tuple[tuple[str, int], ...]:
        """What a part was bound by when its domain was chosen."""
        return self._bounds(choice.group, chosen[: chosen.index(choice)])

    def _are_alike(self, one: Colocation, other: Colocation) -> bool:
        """Whether two parts are groups that ask for the same."""
        if one.level != other.level or len(one.roles) > 1 or len(other.roles) > 1 or one.roles == other.roles:
            return False
        if not self._symmetric:
            return False
        first, second = (replace(self._role(each), role=RoleName(""), first=0) for each in (one, other))
        return first == second and self._levels(one) == self._levels(other)

    def _levels(self, group: Colocation) -> list[str]:
        """All levels that bind the roles of a part."""
        return [each.level for each in self._parts if each.roles & group.roles]

    def _role(self, group: Colocation) -> RoleDemand:
        (name,) = group.roles
        return self._demand.role(name)

    def _is_enough(self, group: Colocation, rest: tuple[Colocation, ...], allowed: Bools | None) -> bool:
        """Whether as many groups like this one as are still to come fit, each in a domain, as far as room can tell."""
        alike = 1 + sum(self._are_alike(group, each) for each in rest) if len(group.roles) == 1 else 1
        if alike == 1:
            return True
        role = self._role(group)
        domains = self._table.level(group.level)
        room = self._placer.room_by_domain(role, self._demand, allowed, domains)
        return not role.least or int((room // role.least).sum()) >= alike

    def _fits_beside(self, group: Colocation, domain: int, mask: Bools, chosen: tuple[_Choice, ...]) -> bool:
        """Whether a part fits in a domain together with the parts that are there already."""
        if group not in self._parts:
            return True
        there = [each.group for each in chosen if each.domain == domain and each.group.level == group.level]
        names = frozenset(name for each in (*there, group) if each in self._parts for name in each.roles)
        if len(names) == 1:
            return True
        others = (each for each in chosen if each.group.level != group.level and each.group.roles & names)
        bounds = tuple(sorted((each.group.level, each.domain) for each in others))
        key = (bounds, group.level, domain, self._kinds(names) if self._symmetric else names)
        if key not in self._tried:
            self._tried[key] = self._try(names, mask)
        return self._tried[key]

    def _kinds(self, names: frozenset[RoleName]) -> object:
        """What a set of roles comes to, whatever they are called."""
        roles = (replace(self._demand.role(name), role=RoleName(""), first=0) for name in names)
        return frozenset(Counter(roles).items())

    def _try(self, names: frozenset[RoleName], mask: Bools | None) -> bool:
        """Whether some roles fit together on the nodes that are left to them."""
        if not self._placer.needs.effort.spend(TRIAL_EFFORT * len(names)):
            return False
        numbers = [number for number, each in enumerate(self._demand.roles) if each.role in names]
        some = replace(self._demand, roles=tuple(self._demand.roles[number] for number in numbers), together=())
        draft = self._placer.draft
        mark = draft.mark()
        found = self._placer.place_in(some, mask if mask is None or mask.ndim == 1 else mask[numbers])
        draft.undo(mark)
        return isinstance(found, tuple)
