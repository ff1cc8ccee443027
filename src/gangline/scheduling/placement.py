"""Where a gang goes: whole or not at all, exactly, and without trying replicas one by one.

The cycle keeps one ``Placer`` per draft. Feasibility and scores are cached per shape and refreshed only for rows
that changed. Several shapes that compete for the same nodes are solved exactly by ``joint`` when the quick way fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gangline.scheduling.draft import Draft, Need
from gangline.scheduling.joint import fit_together
from gangline.scheduling.layout import ONE, Layout, Seats
from gangline.scheduling.plugins.interface import NodeScore, Refusal, Score
from gangline.scheduling.policies import Policies
from gangline.scheduling.ranking import Ranking
from gangline.scheduling.shapes import Demand, RoleDemand, Shape
from gangline.scheduling.table import ABSENT, Bools, Floats, Ints, NodeTable

SHAPES_KEPT = 10_000

WORTH_RANKING = 16
"""Single replicas placed in one draft before it pays to keep its nodes in order."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A gang that does not fit: the role that was short, and how many of its replicas would have fitted."""

    role: RoleDemand
    possible: int
    level: str | None = None


class Needs:
    """Shapes against one table under one set of filters: computed once, kept as long as the table."""

    def __init__(self, table: NodeTable, policies: Policies) -> None:
        self.table = table
        self._filters = policies.filters
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
                refusal for each in self._filters for refusal in each.refuse(self.table, shape) if refusal.nodes.any()
            )
            allowed = np.ones(len(self.table), dtype=np.bool_)
            for refusal in refusals:
                allowed &= ~refusal.nodes
            known = self._known[shape] = (Need.of(self.table, shape, allowed), refusals)
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
        if role.least == 1 and demand.packed:
            self._single[id(demand)] = (demand, role, need)
            return self._place_single(role, need)
        known = self._cached(need, packed=demand.packed)
        if known.total < role.least:
            return Shortfall(role, known.total)
        return (self._seat(role, need, role.least, demand, None),) if role.least else ()

    def _place_single(self, role: RoleDemand, need: Need) -> Layout | Shortfall:
        row = self._best_row(need)
        if row is None:
            return Shortfall(role, 0)
        slots = self.draft.take(need, row)
        return (Seats(role, need, self._every_row[row : row + 1], ONE, slots),)

    def _best_row(self, need: Need) -> int | None:
        """Where to pack one replica; once there have been several, the nodes are kept in order for them."""
        if self._ranking is not None and not need.part:
            return self._ranking.best(need)
        self._singles += 1
        score = self._policies.pack
        if self._singles == WORTH_RANKING and isinstance(score, NodeScore):
            self._ranking = Ranking(self.draft, score, need)
        known = self._cached(need, packed=True)
        return int(known.scores.argmin()) if known.total else None

    def extend(self, role: RoleDemand, wanted: int, demand: Demand, allowed: Bools | None = None) -> Seats | None:
        """Take room for up to ``wanted`` further replicas of one role; None when not even one fits."""
        need = self.needs.of(role.shape)
        wanted = min(wanted, int(self._masked(need, demand, allowed).sum()))
        return self._seat(role, need, wanted, demand, allowed) if wanted else None

    def _options(self, demand: Demand, allowed: Bools | None) -> Iterator[tuple[Bools | None, str | None]]:
        """The sets of nodes to try, best first, each with the topology level it stays within."""
        level = demand.within
        for types in self._type_masks(demand, allowed):
            if level is None:
                yield types, None
                continue
            for domain in self._domains(demand, level, types):
                yield domain, level
            if not demand.within_required:
                yield types, None

    def _type_masks(self, demand: Demand, allowed: Bools | None) -> Iterator[Bools | None]:
        """One GPU type for the whole gang, in the order of preference; then any mixture of them."""
        types = next((role.shape.gpu_types for role in demand.roles if len(role.shape.gpu_types) > 1), ())
        gpus = np.zeros(len(self.draft.table), dtype=np.bool_)
        if types:
            gpus = self.draft.table.gpu_type.ids != ABSENT
        for name in types:
            mask = ~gpus | self.draft.table.gpu_type.equal_to(name)
            yield mask if allowed is None else mask & allowed
        yield allowed

    def _domains(self, demand: Demand, level: str, allowed: Bools | None) -> Iterator[Bools]:
        """Domains where every role by itself would fit, the tightest first."""
        domains = self.draft.table.level(level)
        inside = domains.ids != ABSENT
        fits = np.ones(len(domains.names), dtype=np.bool_)
        room = np.zeros(len(domains.names), dtype=np.float64)
        for role in demand.roles:
            counts = self._masked(self.needs.of(role.shape), demand, allowed)
            sums = np.bincount(domains.ids[inside], weights=counts[inside], minlength=len(domains.names))
            fits &= sums >= role.least
            room += sums
        for domain in sorted(np.flatnonzero(fits).tolist(), key=lambda number: (room[number], number)):
            mask = domains.ids == domain
            yield mask if allowed is None else mask & allowed

    def _place_in(self, demand: Demand, allowed: Bools | None) -> Layout | Shortfall:
        """Try one set of nodes: role by role, the hardest first, then all together."""
        roles = [role for role in demand.roles if role.least]
        for role in roles:
            possible = int(self._masked(self.needs.of(role.shape), demand, allowed).sum())
            if possible < role.least:
                return Shortfall(role, possible)
        mark = self.draft.mark()
        layout: list[Seats] = []
        for role in sorted(roles, key=self._hardness):
            need = self.needs.of(role.shape)
            possible = int(self._masked(need, demand, allowed).sum())
            if possible < role.least:
                self.draft.undo(mark)
                return self._place_together(demand, roles, allowed) or Shortfall(role, possible)
            layout.append(self._seat(role, need, role.least, demand, allowed))
        order = {role.role: number for number, role in enumerate(demand.roles)}
        return tuple(sorted(layout, key=lambda seats: order[seats.role.role]))

    def _place_together(self, demand: Demand, roles: list[RoleDemand], allowed: Bools | None) -> Layout | None:
        needs = [self.needs.of(role.shape) for role in roles]
        domains = None if demand.apart is None else self.draft.table.level(demand.apart).ids
        found = fit_together(self.draft, needs, [role.least for role in roles], allowed, domains=domains)
        if found is None:
            return None
        layout = []
        for role, need, counts, slots in zip(roles, needs, found, self.draft.take_together(needs, found), strict=True):
            rows = np.flatnonzero(counts)
            layout.append(Seats(role, need, rows, counts[rows], slots))
        return tuple(layout)

    def _hardness(self, role: RoleDemand) -> tuple[float, ...]:
        capacity = self.draft.table.capacity.max(axis=0, initial=1)
        need = self.needs.of(role.shape)
        allowed = int(need.allowed.sum())
        return (-float((need.row / np.maximum(capacity, 1)).max()), allowed)

    def _seat(self, role: RoleDemand, need: Need, wanted: int, demand: Demand, allowed: Bools | None) -> Seats:
        """Choose nodes for ``wanted`` replicas that are known to fit, and take them."""
        counts = self._masked(need, demand, allowed)
        scores = self._cached(need, packed=demand.packed).scores
        if wanted == 1:
            best = np.where(counts > 0, scores, np.inf)
            rows, taken = np.array([best.argmin()]), ONE
        elif demand.packed:
            rows, taken = pack(counts, scores, wanted)
        else:
            rows, taken = spread(counts, scores, wanted)
        slots = self.draft.take_all(need, rows, taken)
        return Seats(role, need, rows, taken, slots)

    def _masked(self, need: Need, demand: Demand, allowed: Bools | None) -> Ints:
        counts = self._cached(need, packed=demand.packed).counts
        if allowed is not None:
            counts = np.where(allowed, counts, 0)
        return counts if demand.apart is None else self._one_per_domain(counts, need, demand.apart, demand)

    def _one_per_domain(self, counts: Ints, need: Need, level: str, demand: Demand) -> Ints:
        """Room for replicas none of which share a domain: one on the best node of each."""
        domains = self.draft.table.level(level)
        scores = self._cached(need, packed=demand.packed).scores
        rows = np.flatnonzero((counts > 0) & (domains.ids != ABSENT))
        ordered = rows[np.lexsort((rows, scores[rows]))]
        _, first = np.unique(domains.ids[ordered], return_index=True)
        single = np.zeros_like(counts)
        single[ordered[first]] = 1
        return single

    def _cached(self, need: Need, *, packed: bool) -> _Cached:
        score: Score = self._policies.pack if packed else self._policies.spread
        key = (id(need), packed)
        changed = self.draft.changed
        known = self._cache.get(key)
        if known is None:
            known = _Cached(self.draft.counts(need), score.score(self.draft, need, self._every_row), len(changed))
            self._cache[key] = known
        elif known.position < len(changed):
            rows = np.array(sorted(set(changed[known.position :])), dtype=np.int64)
            known.refresh(rows, self.draft.counts(need, rows), score.score(self.draft, need, rows))
            known.position = len(changed)
        return known


def pack(counts: Ints, scores: Floats, wanted: int) -> tuple[Ints, Ints]:
    """As few nodes as possible: the roomiest first, and for the rest the node that it fits most tightly."""
    rows = np.flatnonzero(counts)
    order = rows[np.lexsort((rows, scores[rows], -counts[rows]))]
    room = counts[order]
    before = np.cumsum(room) - room
    last = int(np.searchsorted(before + room, wanted))
    rest = wanted - int(before[last])
    # Every node from ``last`` on could be the one that takes the rest; the tightest leaves the least scattered room.
    tail = order[last:]
    roomy = tail[counts[tail] >= rest]
    tightest = roomy[np.lexsort((roomy, scores[roomy], counts[roomy]))[0]]
    return np.append(order[:last], tightest), np.append(room[:last], rest)


def spread(counts: Ints, scores: Floats, wanted: int) -> tuple[Ints, Ints]:
    """As evenly as possible: one more on every node in turn, the emptiest first."""
    rows = np.flatnonzero(counts)
    order = rows[np.lexsort((rows, scores[rows]))]
    room = counts[order]
    low, high = 0, int(min(wanted, room.max()))
    while low < high:
        middle = (low + high) // 2
        if int(np.minimum(room, middle).sum()) >= wanted:
            high = middle
        else:
            low = middle + 1
    taken = np.minimum(room, high - 1)
    more = np.flatnonzero(room >= high)[: wanted - int(taken.sum())]
    taken[more] += 1
    used = taken > 0
    return order[used], taken[used]
