"""Where a gang goes: whole or not at all, exactly, and without trying replicas one by one.

The cycle keeps one ``Placer`` per draft. Feasibility and scores are cached per shape and refreshed only for rows
that changed. Several shapes that compete for the same nodes are solved exactly by ``joint`` when the quick way fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gangline.scheduling.bonds import Together
from gangline.scheduling.domains import Seated, both, clear_of, confined, for_role, one_per_domain, room_within
from gangline.scheduling.draft import Draft, Need
from gangline.scheduling.evenness import evenly
from gangline.scheduling.filling import pack, spread
from gangline.scheduling.joint import Clashes, Effort, fit_together
from gangline.scheduling.layout import ONE, Layout, Seats
from gangline.scheduling.plugins.interface import NodeScore, Refusal
from gangline.scheduling.plugins.scores import dislikes
from gangline.scheduling.policies import Policies
from gangline.scheduling.ranking import Ranking
from gangline.scheduling.shapes import Demand, RoleDemand, Shape
from gangline.scheduling.table import ABSENT, Bools, Floats, Interned, Ints, NodeTable

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
        worst: Shortfall | None = None
        for mask, level in self._options(demand, allowed):
            found = self._place_in(demand, mask)
            if not isinstance(found, Shortfall):
                return found
            if worst is None or found.possible > worst.possible or worst.level is not None:
                worst = Shortfall(found.role, found.possible, level)
        if worst is None:
            roles = [role for role in demand.roles if role.least] or list(demand.roles)
            worst = Shortfall(roles[0], 0, demand.within)
        return worst

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

    def _options(self, demand: Demand, allowed: Bools | None) -> Iterator[tuple[Bools | None, str | None]]:
        """The sets of nodes to try, best first, each with the topology level it stays within."""
        for types in self._type_masks(demand, allowed):
            for mask, level in self._gathered(demand, demand.together, types):
                if demand.within is None:
                    yield mask, level
                    continue
                everybody = Together(demand.within, frozenset(role.role for role in demand.roles))
                for domain in self._domains(demand, everybody, mask):
                    yield domain, demand.within
                if not demand.within_required:
                    yield mask, level

    def _type_masks(self, demand: Demand, allowed: Bools | None) -> Iterator[Bools | None]:
        """One GPU type for the whole gang, in the order of preference; then any mixture of them."""
        types = next((role.shape.gpu_types for role in demand.roles if len(role.shape.gpu_types) > 1), ())
        gpus = np.zeros(len(self.draft.table), dtype=np.bool_)
        if types:
            gpus = self.draft.table.gpu_type.ids != ABSENT
        for name in types:
            yield both(~gpus | self.draft.table.gpu_type.equal_to(name), allowed)
        yield allowed

    def _gathered(
        self, demand: Demand, groups: tuple[Together, ...], allowed: Bools | None, level: str | None = None
    ) -> Iterator[tuple[Bools | None, str | None]]:
        """Every choice of one domain for each group of roles that must lie together."""
        if not groups:
            yield allowed, level
            return
        for domain in self._domains(demand, groups[0], allowed):
            yield from self._gathered(demand, groups[1:], domain, groups[0].level)

    def _domains(self, demand: Demand, group: Together, allowed: Bools | None) -> Iterator[Bools]:
        """Domains where every role of the group by itself would fit, the tightest first."""
        domains = self.draft.table.level(group.level)
        fits = np.ones(len(domains.names), dtype=np.bool_)
        room = np.zeros(len(domains.names), dtype=np.float64)
        for role in demand.roles:
            if role.role in group.roles:
                sums = self._room_by_domain(role, demand, allowed, domains)
                fits &= sums >= role.least
                room += sums
        for domain in sorted(np.flatnonzero(fits).tolist(), key=lambda number: (room[number], number)):
            yield confined(allowed, demand, group.roles, domains.ids == domain)

    def _room_by_domain(self, role: RoleDemand, demand: Demand, allowed: Bools | None, domains: Interned) -> Floats:
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

    def _place_in(self, demand: Demand, allowed: Bools | None) -> Layout | Shortfall:
        """Try one set of nodes: role by role, the hardest first, then all together."""
        roles = [role for role in demand.roles if role.least]
        for role in roles:
            possible = int(self._room(role, demand, allowed, NOBODY, role.least).sum())
            if possible < role.least:
                return Shortfall(role, possible)
        mark = self.draft.mark()
        layout: list[Seats] = []
        for role in sorted(roles, key=self._hardness):
            seated = {seats.role.role: seats.rows.tolist() for seats in layout}
            room = self._room(role, demand, allowed, seated, role.least)
            possible = int(room.sum())
            if possible < role.least:
                self.draft.undo(mark)
                return self._place_together(demand, roles, allowed) or Shortfall(role, possible)
            layout.append(self._seat(role, self.needs.of(role.shape), role.least, demand, room))
        order = {role.role: number for number, role in enumerate(demand.roles)}
        return tuple(sorted(layout, key=lambda seats: order[seats.role.role]))

    def _place_together(self, demand: Demand, roles: list[RoleDemand], allowed: Bools | None) -> Layout | None:
        """Look at all roles at once; not where some lie evenly, or apart at several levels besides nodes."""
        clashes = Clashes.of(self.draft.table, demand, roles)
        if clashes is None or any(role.even for role in roles):
            return None
        needs = [self.needs.of(role.shape) for role in roles]
        usable = np.stack([self._usable(role, demand, allowed) for role in roles])
        wanted = [role.least for role in roles]
        with self.needs.effort.part() as effort:
            found = fit_together(self.draft, needs, wanted, usable, clashes, effort=effort)
        if found is None:
            return None
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
        if not role.even:
            return counts
        usable, present = self.needs.of(role.shape).allowed, seated.get(role.role, ())
        return evenly(self.draft.table, role.even, counts, usable=usable, present=present, wanted=wanted)

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
