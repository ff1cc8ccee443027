"""Making room: prove that a gang fits before anything is stopped, then stop as little as possible.

A plan is a whole transaction. It is built in a draft from which the candidates are released; the beneficiary is
placed there for real, then every victim that turns out not to be needed is kept. Nothing is proposed unless the
beneficiary has its place.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from gangline.model import JobId
from gangline.scheduling.demand.shapes import Demand, RoleDemand
from gangline.scheduling.gangs.holdings import Held, HeldRole, Holdings
from gangline.scheduling.nodes.domains import both, for_any, for_role, room_within
from gangline.scheduling.nodes.draft import MANY, Draft, Need
from gangline.scheduling.nodes.table import GPU, Bools, Floats, Ints
from gangline.scheduling.placement.layout import Layout, book
from gangline.scheduling.placement.placer import Shortfall
from gangline.scheduling.preemption.clearing import Clearing
from gangline.scheduling.preemption.victims import Unit

MOVES_LIMIT = 8
"""Gangs moved for one beneficiary at most; more disturbance than that is not worth one start."""

TRIALS = 2000
"""How often a gang of one shape is placed to find out who need not go for it; one of many shapes less often."""

REGIONS_TRIED = 8
"""Domains in which gangs to move are looked for at most, those with most room first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to give up, where the beneficiary goes, and where the gangs go that are only moved."""

    units: tuple[Unit, ...]
    layout: Layout
    moved: Mapping[JobId, Layout] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        """What it costs."""
        return sum(unit.weight for unit in self.units)

    @property
    def stopped(self) -> tuple[Held, ...]:
        """Gangs that stop as a whole."""
        return tuple(unit.gang for unit in self.units if unit.whole)

    @property
    def shed(self) -> tuple[Unit, ...]:
        """Surplus of gangs that go on."""
        stopped = {held.job.id for held in self.stopped}
        return tuple(unit for unit in self.units if unit.gang.job.id not in stopped)


class Attempt:
    """One beneficiary in one clearing, which is always left as it was found."""

    def __init__(self, demand: Demand, allowed: Bools | None, clearing: Clearing) -> None:
        self._demand = demand
        self._allowed = allowed
        self._clearing = clearing
        self._placer = clearing.placer
        self._draft = clearing.placer.draft
        self._holdings = clearing.holdings

    def fit(self) -> Layout | None:
        """Where the gang goes when nothing further is given up."""
        return self._fit_without(())

    def stopping_one(self, unit: Unit) -> Plan | None:
        """Just this unit, which costs least of all, if that is enough."""
        layout = self._fit_without((unit,))
        return None if layout is None else Plan((unit,), layout)

    def stopping(self, units: Sequence[Unit]) -> Plan | None:
        """The smallest set of units found whose going lets the gang in; None when all together would not do."""
        useful = self._useful(units)
        if not useful:
            return None
        chosen = self._by_node(useful)
        if chosen is None:
            if self._fit_without(useful) is None:
                return None
            chosen = self._by_order(useful)
        return self._trim(chosen)

    def sparing(self, plan: Plan, units: Sequence[Unit], suffices: Callable[[Sequence[Unit]], bool]) -> Plan:
        """The same plan without those of some units that it can do without, the most expensive first."""
        for unit in sorted(units, key=lambda each: -each.weight):
            others = tuple(each for each in plan.units if each is not unit)
            layout = self._fit_without(others) if suffices(others) else None
            if layout is not None:
                plan = Plan(others, layout)
        return plan

    def moving(self, units: Sequence[Unit], homes: Mapping[JobId, Bools | None]) -> Plan | None:
        """Gangs to move so that this one fits, each of which fits again where it may go; None when there are none."""
        for allowed in self._regions():
            plan = Attempt(self._demand, allowed, self._clearing).moving_here(units, homes)
            if plan is not None:
                return plan
        return None

    def _regions(self) -> Iterator[Bools | None]:
        """Where to look for gangs to move: everywhere, or in each of the domains that have most room already."""
        yield self._allowed
        if not self._demand.levels:
            return
        domains = self._draft.table.level(self._demand.levels[-1])
        role = self._hardest()
        room = room_within(self._draft.counts(self._placer.needs.of(role.shape)), domains.ids, len(domains.names))
        for number in np.argsort(-room, kind="stable")[:REGIONS_TRIED].tolist():
            yield both(self._allowed, domains.ids == number)

    def moving_here(self, units: Sequence[Unit], homes: Mapping[JobId, Bools | None]) -> Plan | None:
        """The same, without a look at single domains."""
        useful = self._useful(units)
        chosen = self._by_node(useful) if useful else None
        if chosen is None or len(chosen) > 4 * MOVES_LIMIT:
            return None
        plan = self._trim(chosen)
        moved = self._new_places(plan, homes) if len(plan.units) <= MOVES_LIMIT else None
        return None if moved is None else Plan(plan.units, plan.layout, moved)

    def _useful(self, units: Sequence[Unit]) -> list[Unit]:
        """Units on nodes that the gang may use; what is left of a gang whose nodes are gone helps nobody."""
        where = np.zeros(len(self._draft.table), dtype=np.bool_)
        for role in self._demand.roles:
            where |= self._placer.needs.of(role.shape).allowed
        if self._allowed is not None:
            where &= for_any(self._allowed)
        if where.all():
            return [unit for unit in units if unit.roles[0].rows or any(role.rows for role in unit.roles)]
        flags: list[bool] = where.tolist()
        return [unit for unit in units if any(flags[row] for role in unit.roles for row in role.rows)]

    def _fit_without(self, units: Sequence[Unit]) -> Layout | None:
        """Where the gang goes once these are gone."""
        mark = self._clearing.mark()
        self._clearing.release(units)
        layout = self._placer.place(self._demand, self._allowed)
        self._clearing.undo(mark)
        return None if isinstance(layout, Shortfall) else layout

    def enough_in_total(self) -> bool:
        """Whether what the gang needs is free somewhere, however scattered; moving cannot create any."""
        for role in self._demand.roles:
            need = self._placer.needs.of(role.shape)
            free = np.maximum(self._draft.free[need.allowed], 0).sum(axis=0)
            if (free < need.row * role.least).any():
                return False
        return True

    def _by_order(self, units: list[Unit]) -> list[Unit]:
        """The shortest run of units, taken in order, that does."""
        low, high = 0, len(units)
        while low < high:
            middle = (low + high) // 2
            if self._fit_without(units[:middle]) is not None:
                high = middle
            else:
                low = middle + 1
        return units[:high]

    def _by_node(self, units: list[Unit]) -> list[Unit] | None:
        """Units that free the cheapest nodes, judged by the role that is hardest to place; None if that fails.

        Taking units in order frees a little everywhere. Here every node is asked what it would cost to make room
        for one, two, ... replicas on it, and the cheapest are taken.
        """
        role = self._hardest()
        need = self._placer.needs.of(role.shape)
        where = for_role(self._allowed, self._demand, role)
        counts = self._draft.counts(need)
        by_node = _node_costs(
            self._draft, need, units, self._holdings, need.allowed if where is None else need.allowed & where
        )
        chosen = _accept(by_node, role, int((counts if where is None else counts[where]).sum()))
        if chosen is None:
            return None
        some = [unit for number, unit in enumerate(units) if number in chosen]
        return None if self._fit_without(some) is None else some

    def _hardest(self) -> RoleDemand:
        return max(self._demand.roles, key=lambda each: (each.shape.gpu_millis * each.least, each.least))

    def _trim(self, units: Sequence[Unit]) -> Plan:
        """Keep every unit that is not needed after all, the most expensive first.

        Where that would take too many trials, units may go whose room the place found needs, though another would not.
        """
        mark = self._clearing.mark()
        self._clearing.release(units)
        going = dict.fromkeys(map(id, units))
        left = TRIALS // len(self._demand.roles)
        untried = deque(sorted(units, key=lambda each: -each.weight))
        while untried:
            unit, before = untried[0], self._clearing.mark()
            self._clearing.retake(unit)
            tried = self._clearing.mark()
            enough = self.enough_in_total()
            left -= enough
            if left < 0:
                self._clearing.undo(before)
                break
            untried.popleft()
            if not enough or isinstance(self._placer.place(self._demand, self._allowed), Shortfall):
                self._clearing.undo(before)
            else:
                self._clearing.undo(tried)
                del going[id(unit)]
        layout = self._placer.place(self._demand, self._allowed)
        assert not isinstance(layout, Shortfall)
        for unit in filter(self._fits_beside, untried):
            self._clearing.retake(unit)
            del going[id(unit)]
        self._clearing.undo(mark)
        return Plan(tuple(unit for unit in units if id(unit) in going), layout)

    def _fits_beside(self, unit: Unit) -> bool:
        """Whether what a unit had is free again, with the gang in its place."""
        needs = [(self._holdings.need(role.shape), role.rows) for role in unit.roles]
        if any(need.part or need.parts is not None for need, _ in needs):
            return False
        taken: dict[int, Ints] = {}
        for need, rows in needs:
            for row in rows:
                taken[row] = taken.get(row, 0) + need.row
        return all((self._draft.free[row] >= amounts).all() for row, amounts in taken.items())

    def _new_places(self, plan: Plan, homes: Mapping[JobId, Bools | None]) -> dict[JobId, Layout] | None:
        """Where every gang that is stopped could start at once beside the beneficiary; None if one could not."""
        mark = self._clearing.mark()
        self._clearing.release(plan.units)
        book(self._draft, plan.layout)
        places: dict[JobId, Layout] = {}
        for unit in plan.units:
            found = self._placer.place(unit.gang.demand, homes[unit.gang.job.id])
            if isinstance(found, Shortfall):
                break
            places[unit.gang.job.id] = found
        self._clearing.undo(mark)
        return places if len(places) == len(plan.units) else None


@dataclass(frozen=True, slots=True)
class _NodeCosts:
    """One line per (node, unit): what it costs, and how many replicas fit, once this and all cheaper units of the
    node are gone. Lines of one node are consecutive, cheapest first."""

    rows: Ints
    units: Ints
    costs: Floats
    gains: Ints


def _node_costs(draft: Draft, need: Need, units: Sequence[Unit], holdings: Holdings, where: Bools) -> _NodeCosts:
    roles = [role for unit in units for role in unit.roles]
    lengths = [len(role.rows) for role in roles]
    row = np.fromiter(chain.from_iterable(role.rows for role in roles), np.int64, sum(lengths))
    numbers = np.repeat(np.arange(len(units)), [len(unit.roles) for unit in units])
    owner = np.repeat(numbers, lengths)
    vector = np.repeat(_vectors(roles, holdings), lengths, axis=0)
    order = np.lexsort((owner, row))
    row, owner, vector = row[order], owner[order], vector[order]
    weights = np.array([unit.weight for unit in units])[owner]
    first = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    group = np.cumsum(np.r_[True, row[1:] != row[:-1]]) - 1
    freed = _running_sum(vector, first, group)
    costs = _running_sum(weights, first, group)
    # Several replicas of one gang on a node are paid for once.
    again = np.r_[False, (row[1:] == row[:-1]) & (owner[1:] == owner[:-1])]
    costs -= _running_sum(np.where(again, weights, 0.0), first, group)
    gains = _count(need, draft.free[row] + freed) - _count(need, draft.free[row])
    return _NodeCosts(row, owner, costs, np.where(where[row], gains, 0))


def _vectors(roles: Sequence[HeldRole], holdings: Holdings) -> Ints:
    """What one replica of each role occupies. Roles of the same demand share one shape, so few are looked up."""
    shapes = {id(role.shape): role.shape for role in roles}
    kinds = {known: kind for kind, known in enumerate(shapes)}
    table = np.array([holdings.need(shape).row for shape in shapes.values()])
    return np.asarray(table[[kinds[id(role.shape)] for role in roles]])


def _running_sum(values: np.ndarray, first: Ints, group: Ints) -> np.ndarray:
    total = np.cumsum(values, axis=0)
    return np.asarray(total - (total[first] - values[first])[group])


def _count(need: Need, free: Ints) -> Ints:
    counts = np.full(len(free), MANY, dtype=np.int64)
    for column, amount in zip(need.columns, need.amounts, strict=True):
        np.minimum(counts, np.maximum(free[:, column], 0) // amount, out=counts)
    if need.parts is not None:
        column = need.row.nonzero()[0][-1]  # of GPU memory, which is the last column
        np.minimum(counts, np.maximum(free[:, column], 0) // need.row[column], out=counts)
    elif need.part:
        np.minimum(counts, np.maximum(free[:, GPU], 0) // need.row[GPU], out=counts)
    return counts


def _accept(by_node: _NodeCosts, role: RoleDemand, possible: int) -> set[int] | None:
    """Take nodes by cost per replica gained until the role fits; returns the units to give up."""
    useful = np.flatnonzero(by_node.gains > 0)
    order = useful[np.argsort(by_node.costs[useful] / by_node.gains[useful], kind="stable")]
    gained: dict[int, int] = {}
    chosen: set[int] = set()
    for line in order.tolist():
        if possible >= role.least:
            break
        row = int(by_node.rows[line])
        more = int(by_node.gains[line]) - gained.get(row, 0)
        if more <= 0:
            continue
        gained[row] = int(by_node.gains[line])
        possible += more
        start = int(np.searchsorted(by_node.rows, row))
        chosen.update(by_node.units[start : line + 1].tolist())
    return chosen if possible >= role.least else None
