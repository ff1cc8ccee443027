"""Making room: prove that a gang fits before anything is stopped, then stop as little as possible.

A plan is a whole transaction. It is built in a draft from which the candidates are released; the beneficiary is
placed there for real, then every victim that turns out not to be needed is kept. Nothing is proposed unless the
beneficiary has its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from gangline.scheduling.domains import for_any
from gangline.scheduling.draft import MANY, Draft, Need
from gangline.scheduling.holdings import Held, HeldRole, Holdings
from gangline.scheduling.layout import Layout, book
from gangline.scheduling.placement import Placer, Shortfall
from gangline.scheduling.shapes import Demand, RoleDemand
from gangline.scheduling.table import GPU, Bools, Floats, Ints
from gangline.scheduling.victims import Unit

MOVES_LIMIT = 8
"""Gangs moved for one beneficiary at most; more disturbance than that is not worth one start."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to give up, where the beneficiary goes, and (for moved gangs) that all of them fit elsewhere."""

    units: tuple[Unit, ...]
    layout: Layout
    moves: bool = False

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
    """One beneficiary in one draft, which is always left as it was found."""

    def __init__(self, demand: Demand, allowed: Bools | None, holdings: Holdings, placer: Placer) -> None:
        self._demand = demand
        self._allowed = allowed
        self._placer = placer
        self._draft = placer.draft
        self._holdings = holdings

    def fit(self) -> Layout | None:
        """Where the gang goes when nothing further is given up."""
        return self._fit_without(())

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

    def moving(self, units: Sequence[Unit]) -> Plan | None:
        """Gangs to move so that this one fits, each of which fits again somewhere else; None when there are none."""
        useful = self._useful(units)
        chosen = self._by_node(useful) if useful else None
        if chosen is None or len(chosen) > 4 * MOVES_LIMIT:
            return None
        plan = self._trim(chosen)
        if len(plan.units) > MOVES_LIMIT or not self._all_fit_again(plan):
            return None
        return Plan(plan.units, plan.layout, moves=True)

    def _useful(self, units: Sequence[Unit]) -> list[Unit]:
        """Units on nodes that the gang may use; what is left of a gang whose nodes are gone helps nobody."""
        where = np.zeros(len(self._draft.table), dtype=np.bool_)
        for role in self._demand.roles:
            where |= self._placer.needs.of(role.shape).allowed
        if self._allowed is not None:
            where &= for_any(self._allowed)
        if where.all():
            return [unit for unit in units if any(role.rows for role in unit.roles)]
        flags: list[bool] = where.tolist()
        return [unit for unit in units if any(flags[row] for role in unit.roles for row in role.rows)]

    def _fit_without(self, units: Sequence[Unit]) -> Layout | None:
        """Where the gang goes once these are gone."""
        mark = self._draft.mark()
        self._release(units)
        layout = self._placer.place(self._demand, self._allowed)
        self._draft.undo(mark)
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
        for one, two, ... replicas on it, and the cheapest offers are accepted.
        """
        role = max(self._demand.roles, key=lambda each: (each.shape.gpu_millis * each.least, each.least))
        need = self._placer.needs.of(role.shape)
        offers = _offers(self._draft, need, units, self._holdings)
        chosen = _accept(offers, role, int(self._draft.counts(need).sum()))
        if chosen is None:
            return None
        some = [unit for number, unit in enumerate(units) if number in chosen]
        return None if self._fit_without(some) is None else some

    def _trim(self, units: Sequence[Unit]) -> Plan:
        """Keep every unit that is not needed after all, the most expensive first."""
        mark = self._draft.mark()
        self._release(units)
        kept: list[Unit] = list(units)
        for unit in sorted(units, key=lambda each: -each.weight):
            before = self._draft.mark()
            for role in unit.roles:
                self._draft.retake(self._holdings.need(role.shape), role.rows, role.slots)
            tried = self._draft.mark()
            if isinstance(self._placer.place(self._demand, self._allowed), Shortfall):
                self._draft.undo(before)
            else:
                self._draft.undo(tried)
                kept.remove(unit)
        layout = self._placer.place(self._demand, self._allowed)
        assert not isinstance(layout, Shortfall)
        self._draft.undo(mark)
        return Plan(tuple(kept), layout)

    def _all_fit_again(self, plan: Plan) -> bool:
        """Whether every stopped gang could start at once beside the beneficiary."""
        mark = self._draft.mark()
        self._release(plan.units)
        book(self._draft, plan.layout)
        fits = all(not isinstance(self._placer.place(unit.gang.demand), Shortfall) for unit in plan.units)
        self._draft.undo(mark)
        return fits

    def _release(self, units: Sequence[Unit]) -> None:
        self._holdings.release(self._draft, [role for unit in units for role in unit.roles])


@dataclass(frozen=True, slots=True)
class _Offers:
    """One line per (node, unit): what it costs, and how many replicas fit, once this and all cheaper units of the
    node are gone. Lines of one node are consecutive, cheapest first."""

    rows: Ints
    units: Ints
    costs: Floats
    gains: Ints


def _offers(draft: Draft, need: Need, units: Sequence[Unit], holdings: Holdings) -> _Offers:
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
    return _Offers(row, owner, costs, np.where(need.allowed[row], gains, 0))


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
    if need.part:
        np.minimum(counts, np.maximum(free[:, GPU], 0) // need.row[GPU], out=counts)
    return counts


def _accept(offers: _Offers, role: RoleDemand, possible: int) -> set[int] | None:
    """Accept offers by cost per replica gained until the role fits; returns the units to give up."""
    useful = np.flatnonzero(offers.gains > 0)
    order = useful[np.argsort(offers.costs[useful] / offers.gains[useful], kind="stable")]
    gained: dict[int, int] = {}
    chosen: set[int] = set()
    for line in order.tolist():
        if possible >= role.least:
            break
        row = int(offers.rows[line])
        more = int(offers.gains[line]) - gained.get(row, 0)
        if more <= 0:
            continue
        gained[row] = int(offers.gains[line])
        possible += more
        start = int(np.searchsorted(offers.rows, row))
        chosen.update(offers.units[start : line + 1].tolist())
    return chosen if possible >= role.least else None
