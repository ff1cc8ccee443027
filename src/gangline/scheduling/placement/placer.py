"""Where a gang goes: whole or not at all, exactly, and without trying replicas one by one.

The cycle keeps one ``Placer`` per draft. Feasibility and scores are cached per shape and refreshed only for rows
that changed. Several shapes that compete for the same nodes are solved exactly by ``joint`` when the quick way fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gangline.model import RoleName
from gangline.scheduling.demand.gang_affinity import Colocation
from gangline.scheduling.demand.shapes import Demand, RoleDemand, Shape
from gangline.scheduling.nodes.domains import Seated, both, clear_of, for_role, one_per_domain, room_within
from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.nodes.table import ABSENT, Bools, Floats, Interned, Ints, NodeTable
from gangline.scheduling.placement.domain_choice import Domains, are_countable, parts_of
from gangline.scheduling.placement.filling import pack, spread
from gangline.scheduling.placement.joint_fit import Clashes, Effort, Pairs, fit_together
from gangline.scheduling.placement.layout import ONE, Layout, Seats, book
from gangline.scheduling.placement.nested_fit import Kind, Nest, cells_of, nested
from gangline.scheduling.placement.ranking import Ranking
from gangline.scheduling.placement.topology_spread import evenly
from gangline.scheduling.plugins.interface import NodeScore, Refusal
from gangline.scheduling.plugins.scores import dislikes
from gangline.scheduling.policies import Policies

SHAPES_KEPT = 10_000
WORTH_RANKING = 16
"""Single replicas placed in one draft before it pays to keep its nodes in order."""

DISLIKED = 1e6
"""What a point of dislike adds to a node's score: more than any score, so that preferences come first."""
NOBODY: Seated = {}


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A gang that does not fit: the role that was short, and how many of its replicas would have fitted."""

    role: RoleDemand
    possible: int
    level: str | None = None
    beside: bool = False
    """Whether it is this role that must lie in one domain of the level, and not the whole gang."""


class Needs:
    """Shapes against one table under one set of filters: computed once, kept as long as the table.

    ``effort`` is what exact searches may still cost; every cycle begins with a new one.
    """

    def __init__(self, table: NodeTable, policies: Policies, lifted: str | None = None) -> None:
        self.table = table
        self._filters = policies.filters
        self.effort = Effort()
        self._lifted = lifted
        """A rule that is left out of account, to find out what it costs."""
        self._known: dict[Shape, tuple[Need, tuple[Refusal, ...]]] = {}

    def serve(self, table: NodeTable, policies: Policies) -> bool:
        """Whether they hold for this table and these filters, and are not so many that it is better to begin anew."""
        return self.table is table and self._filters is policies.filters and len(self._known) < SHAPES_KEPT

    def of(self, shape: Shape) -> Need:
        """What the shape takes and where it may go."""
        return self._entry(shape)[0]

    def refusals(self, shape: Shape) -> tuple[Refusal, ...]:
        """Which rules keep it away from which nodes."""
        return self._entry(shape)[1]

    def _entry(self, shape: Shape) -> tuple[Need, tuple[Refusal, ...]]:
        known = self._known.get(shape)
        if known is None:
            refusals = tuple(
                refusal
                for each in self._filters
                for refusal in each.refuse(self.table, shape)
                if refusal.rule != self._lifted and refusal.nodes.any()
            )
            allowed = np.ones(len(self.table), dtype=np.bool_)
            for refusal in refusals:
                allowed &= ~refusal.nodes
            need = Need.of(self.table, shape, allowed, dislikes(self.table, shape))
            known = self._known[shape] = (need, refusals)
        return known


class _Cached:
    """Counts and scores of one shape, correct up to a position in the draft's list of changes.

    ``total`` is the sum of the counts; a node without room has an infinite score.
    """

    __slots__ = ("counts", "position", "scores", "total")

    def __init__(self, counts: Ints, scores: Floats, position: int) -> None:
        self.counts = counts
        self.scores = np.where(counts > 0, scores, np.inf)
        self.total = int(counts.sum())
        self.position = position

    def refresh(self, rows: Ints, counts: Ints, scores: Floats) -> None:
        """Replace what is known of some rows."""
        self.total += int(counts.sum()) - int(self.counts[rows].sum())
        self.counts[rows] = counts
        self.scores[rows] = np.where(counts > 0, scores, np.inf)


class Placer:
    """Places gangs in one draft."""

    def __init__(self, draft: Draft, needs: Needs, policies: Policies) -> None:
        self.draft = draft
        self.needs = needs
        self._policies = policies
        self._cache: dict[tuple[int, bool], _Cached] = {}
        self._every_row = np.arange(len(draft.table), dtype=np.int64)
        self._single: dict[int, tuple[Demand, RoleDemand, Need]] = {}
        """Demands for a single replica that may go anywhere, by the identity of the object (which is kept with it)."""
        self._singles = 0
        self._ranking: Ranking | None = None

    def place(self, demand: Demand, allowed: Bools | None = None) -> Layout | Shortfall:
        """Take room for the least that the gang can live with. On a shortfall nothing is taken."""
        if allowed is None:
            single = self._single.get(id(demand))
            if single is not None:
                return self._place_single(*single[1:])
            if demand.plain:
                return self._place_plain(demand.roles[0], demand)
        firm = tuple(each for each in demand.together if each.required)
        mark = self.draft.mark()
        worst: Shortfall | None = None
        for types in self._type_masks(demand, allowed):
            found = self._place_held(demand, firm, types)
            if not isinstance(found, Shortfall):
                return found if len(firm) == len(demand.together) else self._preferably(demand, types, found, mark)
            if worst is None or found.possible > worst.possible:
                worst = found
        assert worst is not None
        return worst

    def _preferably(self, demand: Demand, allowed: Bools | None, found: Layout, mark: int) -> Layout:
        """A better place than the one that was found since the mark, if there is one that keeps to preferences.

        They are given up from the last to the first.
        """
        self.draft.undo(mark)
        preferred = [each for each in demand.together if not each.required]
        best, low, high = found, 0, len(preferred)
        kept = high  # most often all of them can be kept
        while low < high:
            given_up = set(preferred[kept:])
            better = self._place_held(demand, tuple(each for each in demand.together if each not in given_up), allowed)
            if isinstance(better, Shortfall):
                high = kept - 1
            elif kept == high:
                return better
            else:
                best, low = better, kept
                self.draft.undo(mark)
            kept = (low + high + 1) // 2
        return book(self.draft, best)

    def _place_held(self, demand: Demand, held: tuple[Colocation, ...], allowed: Bools | None) -> Layout | Shortfall:
        """Place a gang so that some of what should lie together does."""
        if not held:
            return self.place_in(demand, allowed)
        bound = replace(demand, together=held) if len(held) < len(demand.together) else demand
        whole = tuple(each for each in held if len(each.roles) == len(demand.roles))
        if len(whole) == len(held) or not are_countable(bound):
            return self._place_chosen(bound, allowed, bound)
        outer = replace(bound, together=whole)
        return self._place_chosen(bound, allowed, outer)

    def _place_chosen(self, demand: Demand, allowed: Bools | None, chosen: Demand) -> Layout | Shortfall:
        """Try one choice of domains after the other; where some of them are not chosen, groups are counted there."""
        place = self.place_in if chosen is demand else self._place_groups
        worst: Shortfall | None = None
        for mask in Domains(self, chosen, allowed).choices():
            found = place(demand, mask)
            if not isinstance(found, Shortfall):
                return found
            if worst is None or found.possible > worst.possible:
                worst = replace(found, level=next((each.level for each in reversed(demand.together)), None))
        return worst or self._short_of_domains(demand, allowed)

    def _place_groups(self, demand: Demand, allowed: Bools | None) -> Layout | Shortfall:
        """Place a gang whose groups lie in domains of their own: kind by kind, the hardest first, then all together."""
        roles = [role for role in demand.roles if role.least]
        kinds = self._kinds(demand, roles, allowed)
        partitions = nested(kind.domains for kind in kinds if kind.domains is not None)
        if partitions is None:
            inner = replace(demand, together=parts_of(demand))
            return self._place_chosen(inner, allowed, inner)
        apart = self._clashes(demand, roles, kinds)
        if not Nest(self.draft, kinds, partitions, apart, effort=self.needs.effort).has_room():
            return Shortfall(roles[0], 0)
        first = sorted(kinds, key=lambda kind: (kind.domains is None, *self._hardness(roles[kind.groups[0]])))
        ways = [[[kind] for kind in first]] if len(kinds) == 1 or not apart else []
        ways += [[kinds]] if len(kinds) > 1 else []
        for batches in ways:
            found = self._place_kinds(demand, roles, batches, partitions, apart)
            if found is not None:
                return found
        return Shortfall(roles[0], 0)

    def _place_kinds(
        self, demand: Demand, roles: list[RoleDemand], batches: list[list[Kind]], partitions: list[Ints], apart: Pairs
    ) -> Layout | None:
        """Take room for some kinds of groups, one batch after the other; nothing if one of them finds none."""
        mark = self.draft.mark()
        layout: list[Seats] = []
        for kinds in batches:
            with self.needs.effort.part() as effort:
                found = Nest(self.draft, kinds, partitions, apart, effort=effort).fit()
            if found is None:
                self.draft.undo(mark)
                return None
            around = {number: kind.around(found[number]) for kind in kinds for number in kind.groups}
            mine = [roles[number] for number in around]
            # In the domains that were chosen, the nodes with the best scores.
            seats = self._place_each(replace(demand, roles=tuple(mine)), np.stack(list(around.values())))
            layout += self._seats(mine, [found[n] for n in around]) if isinstance(seats, Shortfall) else seats
        return _in_order(demand, layout)

    def _kinds(self, demand: Demand, roles: list[RoleDemand], allowed: Bools | None) -> list[Kind]:
        """Groups that ask for the same, and roles that may lie anywhere."""
        levels: dict[RoleName, tuple[str, ...]] = {}
        for part in parts_of(demand):
            for name in part.roles:
                levels[name] = (*levels.get(name, ()), part.level)
        cells = {each: cells_of(self.draft.table, each) for each in set(levels.values())}
        members: dict[object, list[int]] = {}
        found: dict[object, Kind] = {}
        for number, role in enumerate(roles):
            domains = cells[levels[role.role]] if role.role in levels else None
            usable = self._usable(role, demand, allowed)
            usable = usable if domains is None else usable & (domains != ABSENT)
            key = (role.name if demand.apart else "", role.shape, role.least, levels.get(role.role), usable.tobytes())
            members.setdefault(key, []).append(number)
            found.setdefault(key, Kind(self.needs.of(role.shape), role.least, (), usable, domains))
        return [replace(kind, groups=tuple(members[key])) for key, kind in found.items()]

    def _clashes(self, demand: Demand, roles: list[RoleDemand], kinds: list[Kind]) -> Pairs:
        """Numbers of kinds that must not share a node: what holds for a group holds for all groups of its role."""
        clashes = Clashes.of(self.draft.table, demand, roles)
        assert clashes is not None
        kind_of = {group: number for number, kind in enumerate(kinds) for group in kind.groups}
        return frozenset((kind_of[one], kind_of[other]) for one, other in clashes.on_node)

    def _short_of_domains(self, demand: Demand, allowed: Bools | None) -> Shortfall:
        """No choice of domains has room for all that must lie in one: which role the best of them is short of."""
        groups = [group for group in demand.together if group.required]
        for group in groups:
            domains = self.draft.table.level(group.level)
            roles = [role for role in demand.roles if role.role in group.roles and role.least]
            rooms = [self.room_by_domain(role, demand, allowed, domains) for role in roles]
            if (
                not domains.names
                or not roles
                or np.all([room >= role.least for role, room in zip(roles, rooms, strict=True)], axis=0).any()
            ):
                continue
            fitting = sum(np.minimum(room / role.least, 1.0) for role, room in zip(roles, rooms, strict=True))
            best = int(np.argmax(fitting))
            role, room = next(pair for pair in zip(roles, rooms, strict=True) if pair[1][best] < pair[0].least)
            return Shortfall(role, int(room[best]), group.level)
        role = next((role for role in demand.roles if role.least), demand.roles[0])
        return Shortfall(role, 0, next((each.level for each in groups), None))

    def closest(self, demand: Demand, short: Shortfall, allowed: Bools | None) -> Shortfall:
        """The same shortfall, exactly, for a gang whose parts lie in domains of their own: the role that, with fewer
        replicas, would let the rest of the gang in; of several, the one that could have most. Takes nothing."""
        if not any(each.required for each in parts_of(demand)):
            return short
        firm = replace(demand, together=tuple(each for each in demand.together if each.required))
        seen: set[RoleDemand] = set()
        best = Shortfall(next((role for role in demand.roles if role.least), demand.roles[0]), 0)
        for role in demand.roles:
            # Groups of one role are alike in every respect; those of two may differ in what they lie apart from.
            kind = replace(role, role=role.name if demand.apart else RoleName(""), first=0)
            if not role.least or kind in seen:
                continue
            seen.add(kind)
            possible = self._most(firm, role, allowed)
            if possible is not None and possible * best.role.least >= best.possible * role.least:
                best = Shortfall(role, possible)
        groups = [each for each in firm.together if best.role.role in each.roles]
        level = groups[-1].level if groups else None
        return replace(best, level=level, beside=bool(groups) and len(groups[-1].roles) < len(demand.roles))

    def _most(self, demand: Demand, role: RoleDemand, allowed: Bools | None) -> int | None:
        """How many replicas of a role fit beside the rest of the gang; None if the rest does not fit without it."""
        low, high = -1, role.least - 1
        while low < high:
            middle = (low + high + 1) // 2
            fewer = tuple(replace(each, least=middle) if each is role else each for each in demand.roles)
            mark = self.draft.mark()
            found = self.place(replace(demand, roles=fewer), allowed)
            self.draft.undo(mark)
            low, high = (low, middle - 1) if isinstance(found, Shortfall) else (middle, high)
        return None if low < 0 else low

    def _place_plain(self, role: RoleDemand, demand: Demand) -> Layout | Shortfall:
        """The same for one role that may go anywhere; a single replica needs no more than the best score."""
        need = self.needs.of(role.shape)
        packed = demand.packs(role.shape)
        if role.least == 1 and packed:
            self._single[id(demand)] = (demand, role, need)
            return self._place_single(role, need)
        known = self._cached(need, packed=packed)
        if known.total < role.least:
            return Shortfall(role, known.total)
        return (self._seat(role, need, role.least, demand, known.counts),) if role.least else ()

    def _place_single(self, role: RoleDemand, need: Need) -> Layout | Shortfall:
        row = self._best_row(need)
        if row is None:
            return Shortfall(role, 0)
        slots = self.draft.take(need, row)
        return (Seats(role, need, self._every_row[row : row + 1], ONE, slots),)

    def _best_row(self, need: Need) -> int | None:
        """Where to pack one replica; once there have been several, the nodes are kept in order for them."""
        if self._ranking is not None and not need.part and need.dislike is None:
            return self._ranking.best(need)
        self._singles += 1
        score = self._policies.pack
        if self._singles == WORTH_RANKING and isinstance(score, NodeScore):
            self._ranking = Ranking(self.draft, score, need)
        known = self._cached(need, packed=True)
        return int(known.scores.argmin()) if known.total else None

    def extend(
        self, role: RoleDemand, wanted: int, demand: Demand, allowed: Bools | None = None, seated: Seated = NOBODY
    ) -> Seats | None:
        """Take room for up to ``wanted`` further replicas of one role; None when not even one fits."""
        need = self.needs.of(role.shape)
        room = self._room(role, demand, allowed, seated, wanted)
        wanted = min(wanted, int(room.sum()))
        return self._seat(role, need, wanted, demand, room) if wanted else None

    def _type_masks(self, demand: Demand, allowed: Bools | None) -> Iterator[Bools | None]:
        """One GPU type for the whole gang, in the order of preference; then any mixture of them."""
        types = next((role.shape.gpu_types for role in demand.roles if len(role.shape.gpu_types) > 1), ())
        gpus = np.zeros(len(self.draft.table), dtype=np.bool_)
        if types:
            gpus = self.draft.table.gpu_type.ids != ABSENT
        for name in types:
            yield both(~gpus | self.draft.table.gpu_type.equal_to(name), allowed)
        yield allowed

    def room_by_domain(self, role: RoleDemand, demand: Demand, allowed: Bools | None, domains: Interned) -> Floats:
        """The most that each domain could take of a role if it were the only one; replicas may have to lie apart."""
        known = self._cached(self.needs.of(role.shape), packed=demand.packs(role.shape))
        mask = self._usable(role, demand, allowed)
        counts = np.where(mask, known.counts, 0)
        sums = room_within(counts, domains.ids, len(domains.names))
        for apart in demand.apart:
            if apart.roles == {role.role}:
                levels = self.draft.table.level(apart.level).ids
                sums = np.minimum(sums, room_within(counts, domains.ids, len(domains.names), apart=levels))
        return sums

    def place_in(self, demand: Demand, allowed: Bools | None) -> Layout | Shortfall:
        """Try one set of nodes: role by role, then all together."""
        roles = [role for role in demand.roles if role.least]
        for role in roles:
            possible = int(self._room(role, demand, allowed, NOBODY, role.least).sum())
            if possible < role.least:
                return Shortfall(role, possible)
        found = self._place_each(demand, allowed)
        return (self._place_together(demand, roles, allowed) or found) if isinstance(found, Shortfall) else found

    def _place_each(self, demand: Demand, allowed: Bools | None) -> Layout | Shortfall:
        """Role by role, the hardest first: quick, but not every gang that would fit gets in."""
        roles = [role for role in demand.roles if role.least]
        mark = self.draft.mark()
        layout: list[Seats] = []
        for role in sorted(roles, key=self._hardness):
            seated = {seats.role.role: seats.rows.tolist() for seats in layout}
            room = self._room(role, demand, allowed, seated, role.least)
            possible = int(room.sum())
            if possible < role.least:
                self.draft.undo(mark)
                return Shortfall(role, possible)
            layout.append(self._seat(role, self.needs.of(role.shape), role.least, demand, room))
        return _in_order(demand, layout)

    def _place_together(self, demand: Demand, roles: list[RoleDemand], allowed: Bools | None) -> Layout | None:
        """Look at all roles at once; not where some lie evenly, or apart at several levels besides nodes."""
        clashes = Clashes.of(self.draft.table, demand, roles)
        if clashes is None or any(role.topology_spread for role in roles):
            return None
        needs = [self.needs.of(role.shape) for role in roles]
        usable = [self._usable(role, demand, allowed) for role in roles]
        # Roles that ask for the same are one shape to the search, unless it matters which of them lies where.
        keys = [number if demand.apart else (id(needs[number]), mask.tobytes()) for number, mask in enumerate(usable)]
        kinds = {key: [number for number, each in enumerate(keys) if each == key] for key in keys}
        first = [numbers[0] for numbers in kinds.values()]
        wanted = [sum(roles[number].least for number in numbers) for numbers in kinds.values()]
        with self.needs.effort.part() as effort:
            masks = np.stack([usable[number] for number in first])
            merged = fit_together(self.draft, [needs[n] for n in first], wanted, masks, clashes, effort=effort)
        if merged is None:
            return None
        found = [np.zeros_like(merged[0]) for _ in roles]
        for numbers, counts in zip(kinds.values(), merged, strict=True):
            _deal(counts, [roles[number].least for number in numbers], [found[number] for number in numbers])
        return self._seats(roles, found)

    def _seats(self, roles: list[RoleDemand], found: list[Ints]) -> Layout:
        """Take this many replicas of each role on every node; they are known to fit."""
        needs = [self.needs.of(role.shape) for role in roles]
        layout = []
        for role, need, counts, slots in zip(roles, needs, found, self.draft.take_together(needs, found), strict=True):
            rows = np.flatnonzero(counts)
            layout.append(Seats(role, need, rows, counts[rows], slots))
        return tuple(layout)

    def _usable(self, role: RoleDemand, demand: Demand, allowed: Bools | None) -> Bools:
        mask = both(for_role(allowed, demand, role), clear_of(self.draft.table, demand.apart, role.role, NOBODY))
        own = self.needs.of(role.shape).allowed
        return own if mask is None else own & mask

    def _hardness(self, role: RoleDemand) -> tuple[float, ...]:
        capacity = self.draft.table.capacity.max(axis=0, initial=1)
        need = self.needs.of(role.shape)
        allowed = int(need.allowed.sum())
        return (-float((need.row / np.maximum(capacity, 1)).max()), allowed)

    def _seat(self, role: RoleDemand, need: Need, wanted: int, demand: Demand, room: Ints) -> Seats:
        """Choose nodes for ``wanted`` replicas that are known to fit, and take them."""
        packed = demand.packs(role.shape)
        scores = self._cached(need, packed=packed).scores
        if wanted == 1:
            best = np.where(room > 0, scores, np.inf)
            rows, taken = np.array([best.argmin()]), ONE
        elif packed:
            rows, taken = pack(room, scores, wanted, need.dislike)
        else:
            rows, taken = spread(room, scores, wanted)
        slots = self.draft.take_all(need, rows, taken)
        return Seats(role, need, rows, taken, slots)

    def _room(self, role: RoleDemand, demand: Demand, allowed: Bools | None, seated: Seated, wanted: int) -> Ints:
        """The room of each node for ``wanted`` replicas of a role, with those of the gang that have their place."""
        counts = self._spaced(role, demand, allowed, seated)
        if not role.topology_spread:
            return counts
        usable, present = self.needs.of(role.shape).allowed, seated.get(role.role, ())
        return evenly(self.draft.table, role.topology_spread, counts, usable=usable, present=present, wanted=wanted)

    def _spaced(self, role: RoleDemand, demand: Demand, allowed: Bools | None, seated: Seated) -> Ints:
        """The same, whatever lies evenly: what must lie apart is kept apart, from others of the gang and each other."""
        known = self._cached(self.needs.of(role.shape), packed=demand.packs(role.shape))
        mask = for_role(allowed, demand, role)
        if demand.apart:
            mask = both(mask, clear_of(self.draft.table, demand.apart, role.role, seated))
        counts = known.counts if mask is None else np.where(mask, known.counts, 0)
        for apart in demand.apart:
            if apart.roles == {role.role}:
                counts = one_per_domain(counts, self.draft.table.level(apart.level).ids, known.scores)
        return counts

    def _cached(self, need: Need, *, packed: bool) -> _Cached:
        key = (id(need), packed)
        changed = self.draft.changed
        known = self._cache.get(key)
        if known is None:
            scores = self._scores(need, self._every_row, packed=packed)
            known = self._cache[key] = _Cached(self.draft.counts(need), scores, len(changed))
        elif known.position < len(changed):
            rows = np.array(sorted(set(changed[known.position :])), dtype=np.int64)
            known.refresh(rows, self.draft.counts(need, rows), self._scores(need, rows, packed=packed))
            known.position = len(changed)
        return known

    def _scores(self, need: Need, rows: Ints, *, packed: bool) -> Floats:
        scores = (self._policies.pack if packed else self._policies.spread).score(self.draft, need, rows)
        return scores if need.dislike is None else scores + DISLIKED * need.dislike[rows]


def _in_order(demand: Demand, layout: list[Seats]) -> Layout:
    order = {role.role: number for number, role in enumerate(demand.roles)}
    return tuple(sorted(layout, key=lambda seats: order[seats.role.role]))


def _deal(counts: Ints, wanted: list[int], shares: list[Ints]) -> None:
    """Divide replicas that are alike among the roles that they belong to, node by node."""
    left = counts.copy()
    for count, share in zip(wanted, shares, strict=True):
        before = np.cumsum(left) - left
        share[:] = np.clip(count - before, 0, left)
        left -= share
