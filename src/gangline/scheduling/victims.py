"""Who could make room for a gang, in the order in which it would hurt least. Says nothing about whether it helps."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

import numpy as np

from gangline.model import JobId, QueueName, Timestamp
from gangline.scheduling.holdings import Held, HeldRole
from gangline.scheduling.line import Turn
from gangline.scheduling.policies import Policies
from gangline.scheduling.quota import Branch, QueueTree
from gangline.scheduling.snapshot import Snapshot
from gangline.scheduling.table import Bools, Ints


@dataclass(slots=True, eq=False)
class Unit:
    """Something that can be given up on its own: one surplus replica of an elastic gang, or a whole gang.

    ``roles`` of a whole gang lists its minimum only, because its surplus is listed in units of their own.
    ``weight`` orders units: surplus before gangs, the least important gangs first, then the cheapest.
    ``amounts`` is what its queue would be relieved of, again without the surplus. Nobody changes one; it is not frozen
    only because a cycle may make tens of thousands, and freezing doubles their cost.
    """

    gang: Held
    roles: tuple[HeldRole, ...]
    whole: bool
    weight: float
    amounts: Ints


SURPLUS_WEIGHT = 1e-6
"""Less than any whole gang, whatever it has lost."""
RANK_WEIGHT = 1e12
"""More than any amount of work a gang can lose: a less important gang always goes first."""


class Pool:
    """All gangs that may be stopped for others in this cycle, whoever those are, by queue and importance."""

    def __init__(self, snapshot: Snapshot, tree: QueueTree, policies: Policies) -> None:
        self._snapshot = snapshot
        self._tree = tree
        self._policies = policies
        self.wakes: list[Timestamp] = []
        self._classes: dict[tuple[int, float], tuple[Branch, list[Held]]] = {}
        self._known: dict[JobId, list[Unit]] = {}
        self._ordered: dict[tuple[int, float, bool], list[Unit]] = {}
        self._passed: dict[int, int] = {}
        rank = policies.job_order.rank
        for held in snapshot.held.values():
            leaf = tree.branches.get(held.job.spec.queue)
            if leaf is not None and not held.releasing and held.job.spec.policy.preemptible:
                key = (id(leaf), rank(held.job, snapshot.now))
                known = self._classes.get(key)
                if known is None:
                    known = self._classes[key] = (leaf, [])
                known[1].append(held)
        ranks = sorted({each for _, each in self._classes}, reverse=True)
        self._levels = {each: level for level, each in enumerate(ranks)}

    def for_turn(
        self, turn: Turn, taken: Collection[JobId], spared: Collection[JobId] = (), *, hard: bool = False
    ) -> Iterator[Unit]:
        """What may be given up for this gang, in order: less important in its own queue, above their share in others.

        ``taken`` have been asked by others and will be in every later call; ``spared`` are not to be asked this time.
        ``hard``: also gangs so large that their queue has less than its share without them.
        """
        grants = _Grants(self._tree, turn, hard=hard)
        lists = []
        for (_, rank), (leaf, gangs) in self._classes.items():
            if leaf is not turn.leaf:
                if self._policies.reclaim and grants.may_ask(leaf):
                    lists.append(self._left(self._in_order(leaf, rank, gangs), taken))
            elif self._policies.preemption and rank >= turn.rank:
                # Surplus competes on its own, behind everybody's minimum of the same importance.
                units = self._in_order(leaf, rank, gangs, surplus_only=rank == turn.rank)
                lists.append(self._left(units, taken))
        for unit in lists[0] if len(lists) == 1 else merge(*lists, key=_order):
            gang = unit.gang.job
            if gang.id in taken or gang.id in spared:
                continue
            if gang.spec.queue == turn.leaf.queue.name or grants.grant(unit):
                yield unit

    def _left(self, units: list[Unit], taken: Collection[JobId]) -> Iterator[Unit]:
        """The units behind those at the front that are taken: the cheapest go first, so most of them are there."""
        first = self._passed.get(id(units), 0)
        while first < len(units) and units[first].gang.job.id in taken:
            first += 1
        self._passed[id(units)] = first
        return map(units.__getitem__, range(first, len(units)))

    def movable(self, turn: Turn, taken: Collection[JobId]) -> list[Unit]:
        """Gangs, not more important than this one, that may be moved if all of them find another place."""
        units = [
            unit
            for (_, rank), (leaf, gangs) in self._classes.items()
            if rank >= turn.rank
            for unit in self._in_order(leaf, rank, gangs)
            if unit.whole and not unit.gang.demand.choosy and unit.gang.job.id not in taken
        ]
        return sorted(units, key=_order)

    def _in_order(self, leaf: Branch, rank: float, gangs: Sequence[Held], *, surplus_only: bool = False) -> list[Unit]:
        """The units of one class, cheapest first; they are the same for everybody, so they are made once."""
        key = (id(leaf), rank, surplus_only)
        known = self._ordered.get(key)
        if known is None:
            level = self._levels[rank]
            units = [
                unit
                for held in gangs
                if held.resizable or not surplus_only
                for unit in self._units(held, level)
                if not (surplus_only and unit.whole)
            ]
            known = self._ordered[key] = sorted(units, key=_order)
        return known

    def _units(self, held: Held, level: int) -> list[Unit]:
        known = self._known.get(held.job.id)
        if known is None:
            known = self._known[held.job.id] = self._divide(held, level)
        return known

    def _divide(self, held: Held, level: int) -> list[Unit]:
        """A gang as units: each surplus replica, then the rest of it unless it has only just started."""
        units: list[Unit] = []
        least = held.amounts
        if held.resizable:
            for role in surplus(held):
                amounts = self._tree.measure.of_rows(self._snapshot.holdings.need(role.shape).row, role.rows)
                units.append(Unit(held, (role,), False, SURPLUS_WEIGHT * (1 + level), amounts))
                least = least - amounts
        now = self._snapshot.now
        safe_at = held.launched_at + self._policies.minimum_run_seconds
        if safe_at > now:
            self.wakes.append(Timestamp(safe_at))
            return units
        weight = 1.0 + self._policies.victim_cost.cost(held, now) + level * RANK_WEIGHT
        units.append(Unit(held, minimum(held) if held.resizable else held.roles, True, weight, least))
        return units


class _Grants:
    """What queues give to one gang of another queue: taken in order while they have more than their own.

    The share of the gang's own queue must cover it, or the two would reclaim from each other in turn.
    """

    def __init__(self, tree: QueueTree, turn: Turn, *, hard: bool) -> None:
        self._tree = tree
        self._turn = turn
        self._hard = hard
        self._amounts = tree.measure.of_amounts(turn.gang.demand.total())
        self._claims: dict[int, _Claim | None] = {}
        self._paths: dict[QueueName, tuple[list[Branch], _Claim]] = {}
        self._refused: set[tuple[QueueName, bool, bytes]] = set()

    def may_ask(self, leaf: Branch) -> bool:
        """Whether there is anything to be had from a queue."""
        path = list(_until_shared(leaf, self._turn.leaf))
        shared = path[-1].parent or self._tree.root
        if id(shared) not in self._claims:
            self._claims[id(shared)] = self._claim(leaf, shared)
        claim = self._claims[id(shared)]
        if claim is None or not all(claim.has_more(branch) for branch in path):
            return False
        self._paths[leaf.queue.name] = path, claim
        return True

    def grant(self, unit: Unit) -> bool:
        """Whether a unit may go besides those that were granted before; what a queue refuses once it always does."""
        name = unit.gang.job.spec.queue
        alike = (name, unit.whole, unit.amounts.tobytes())
        if alike in self._refused:
            return False
        path, claim = self._paths[name]
        granted = claim.grants(path, unit)
        if not granted:
            self._refused.add(alike)
        return granted

    def _claim(self, leaf: Branch, shared: Branch) -> "_Claim | None":
        """What the gang may ask of queues that it has only this one above it in common with; None: nothing."""
        path, amounts = list(_until_shared(self._turn.leaf, leaf)), self._amounts
        if not self._tree.covers(path, amounts):
            return None
        scarce = shared.scarce & (amounts > 0)
        promised = bool((path[-1].firm + amounts <= path[-1].guarantee)[scarce].all())
        return _Claim(scarce, hard=self._hard, promised=promised)


class _Claim:
    """What one gang may take from the queues of others: what they have beyond their own, of resources that are scarce.

    Surplus counts against a queue as it is, a gang by the minimum of all gangs. A gentle claim leaves every queue its
    own, a ``hard`` one only asks that it has more than that now. Nobody gets less than its guarantee for it, except for
    a gang that is itself ``promised``.
    """

    def __init__(self, scarce: Bools, *, hard: bool, promised: bool) -> None:
        self._scarce = scarce
        self._hard = hard
        self._promised = promised
        self._firm: dict[int, Ints] = {}
        self._all: dict[int, Ints] = {}

    def has_more(self, branch: Branch) -> bool:
        """Whether a queue has more than its own at all."""
        return bool(((self._total(branch) > branch.own) & self._scarce).any())

    def grants(self, path: Sequence[Branch], unit: Unit) -> bool:
        """Whether all queues on the path can do without a unit, after those that were granted before."""
        if not all(self._spares(branch, unit) for branch in path):
            return False
        for branch in path:
            self._all[id(branch)] = self._total(branch) - unit.amounts
            if unit.whole:
                self._firm[id(branch)] = self._minimum(branch) - unit.amounts
        return True

    def _spares(self, branch: Branch, unit: Unit) -> bool:
        before = self._minimum(branch) if unit.whole else self._total(branch)
        counts = self._scarce & (unit.amounts > 0)
        if not (before > branch.own)[counts].any():
            return False
        after = before - unit.amounts
        if not (self._hard and unit.whole) and not (after >= branch.own)[counts].all():
            return False
        keeps_guarantee = (after >= np.minimum(branch.guarantee, before))[unit.amounts > 0].all()
        return bool(keeps_guarantee) or (self._hard and self._promised)

    def _total(self, branch: Branch) -> Ints:
        return self._all.get(id(branch), branch.used - branch.leaving + branch.coming)

    def _minimum(self, branch: Branch) -> Ints:
        return self._firm.get(id(branch), branch.firm)


def surplus(gang: Held) -> Iterator[HeldRole]:
    """Every replica above the minimum of its role, the highest index first, each by itself."""
    least = {role.role: role.least for role in gang.demand.roles}
    for role in gang.roles:
        for position in range(len(role.rows) - 1, least[role.role] - 1, -1):
            yield _part(role, slice(position, position + 1))


def minimum(gang: Held) -> tuple[HeldRole, ...]:
    """The replicas without which the gang cannot live: the lowest indexes of every role."""
    least = {role.role: role.least for role in gang.demand.roles}
    return tuple(_part(role, slice(0, least[role.role])) for role in gang.roles)


def _part(role: HeldRole, which: slice) -> HeldRole:
    return HeldRole(
        role=role.role, shape=role.shape, indexes=role.indexes[which], rows=role.rows[which], slots=role.slots[which]
    )


def _order(unit: Unit) -> tuple[float, float, str, int]:
    newest_first = -unit.gang.launched_at
    index = unit.roles[0].indexes[-1] if unit.roles[0].indexes else 0
    return (unit.weight, newest_first, unit.gang.job.id, -index)


def _until_shared(leaf: Branch, other: Branch) -> Iterator[Branch]:
    """The queues that lose when ``leaf`` gives to ``other``: up to, not including, the first one above both."""
    above = {id(branch) for branch in other.path}
    for branch in leaf.path:
        if id(branch) in above:
            return
        yield branch
