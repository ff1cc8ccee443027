"""Who could make room for a gang, in the order in which it would hurt least. Says nothing about whether it helps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gangline.model import JobId, Timestamp
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

    def for_turn(self, turn: Turn, taken: set[JobId], *, hard: bool = False) -> list[Unit]:
        """What may be given up for this gang: less important in its own queue, above their share in others.

        ``hard``: also gangs so large that their queue has less than its share without them.
        """
        own: list[Unit] = []
        others: list[tuple[Branch, Unit]] = []
        for (_, rank), (leaf, gangs) in self._classes.items():
            if leaf is not turn.leaf:
                if self._policies.reclaim:
                    others += [(leaf, unit) for unit in self._units(gangs, rank, taken)]
            elif self._policies.preemption and rank > turn.rank:
                own += self._units(gangs, rank, taken)
            elif self._policies.preemption and rank == turn.rank:
                # Surplus competes on its own, behind everybody's minimum of the same importance.
                own += [unit for unit in self._units(gangs, rank, taken, surplus_only=True) if not unit.whole]
        if others:
            own += self._reclaimable(turn, others, hard=hard)
        return sorted(own, key=_order)

    def movable(self, turn: Turn, taken: set[JobId]) -> list[Unit]:
        """Gangs, not more important than this one, that may be moved if all of them find another place."""
        units = [
            unit
            for (_, rank), (_, gangs) in self._classes.items()
            if rank >= turn.rank
            for unit in self._units(gangs, rank, taken)
            if unit.whole and not unit.gang.demand.choosy
        ]
        return sorted(units, key=_order)

    def _units(
        self, gangs: Sequence[Held], rank: float, taken: set[JobId], *, surplus_only: bool = False
    ) -> list[Unit]:
        units: list[Unit] = []
        level = self._levels[rank]
        for held in gangs:
            job_id = held.job.id
            if job_id in taken or (surplus_only and not held.resizable):
                continue
            known = self._known.get(job_id)
            if known is None:
                known = self._known[job_id] = self._divide(held, level)
            units += known
        return units

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

    def _reclaimable(self, turn: Turn, others: list[tuple[Branch, Unit]], *, hard: bool) -> list[Unit]:
        """Units of other queues that may go, taken in order while their queues have more than their own.

        The share of the gang's own queue must cover it, or the two would reclaim from each other in turn.
        """
        claims: dict[int, _Claim | None] = {}
        granted = []
        for leaf, unit in sorted(others, key=lambda pair: _order(pair[1])):
            path = list(_until_shared(leaf, turn.leaf))
            shared = path[-1].parent or self._tree.root
            if id(shared) not in claims:
                claims[id(shared)] = self._claim(turn, leaf, shared, hard=hard)
            claim = claims[id(shared)]
            if claim is not None and claim.grants(path, unit):
                granted.append(unit)
        return granted

    def _claim(self, turn: Turn, leaf: Branch, shared: Branch, *, hard: bool) -> "_Claim | None":
        """What the gang may ask of queues that it has only this one above it in common with; None: nothing."""
        amounts = self._tree.measure.of_amounts(turn.gang.demand.total())
        path = list(_until_shared(turn.leaf, leaf))
        if not self._tree.covers(path, amounts):
            return None
        scarce = shared.scarce & (amounts > 0)
        promised = bool((path[-1].firm + amounts <= path[-1].guarantee)[scarce].all())
        return _Claim(scarce, hard=hard, promised=promised)


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
