"""Who could make room for a gang, in the order in which it would hurt least. Says nothing about whether it helps."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gangline.model import JobId, Timestamp
from gangline.scheduling.holdings import Held, HeldRole
from gangline.scheduling.line import Turn
from gangline.scheduling.plugins.costs import launched_at
from gangline.scheduling.policies import Policies
from gangline.scheduling.quota import Branch, QueueTree
from gangline.scheduling.snapshot import Snapshot
from gangline.scheduling.table import Bools, Ints


@dataclass(frozen=True, slots=True)
class Unit:
    """Something that can be given up on its own: one surplus replica of an elastic gang, or a whole gang.

    ``roles`` of a whole gang lists its minimum only, because its surplus is listed in units of their own.
    ``weight`` orders units: surplus before gangs, the least important gangs first, then the cheapest.
    ``amounts`` is what its queue would be relieved of.
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
    """All gangs that may be stopped for others in this cycle, whoever those are."""

    def __init__(self, snapshot: Snapshot, tree: QueueTree, policies: Policies) -> None:
        self._tree = tree
        self._policies = policies
        self._now = snapshot.now
        self.wakes: list[Timestamp] = []
        self._young: list[tuple[Branch, float, Timestamp]] = []
        self._units: list[tuple[Branch, float, Unit]] = []
        self._ranks = {held.job.id: policies.job_order.rank(held.job, snapshot.now) for held in snapshot.held.values()}
        levels = {rank: number for number, rank in enumerate(sorted(set(self._ranks.values()), reverse=True))}
        for held in snapshot.held.values():
            leaf = tree.branches.get(held.job.spec.queue)
            if leaf is not None and not held.releasing and held.job.spec.policy.preemptible:
                self._add(snapshot, held, leaf, levels[self._ranks[held.job.id]])

    def _add(self, snapshot: Snapshot, held: Held, leaf: Branch, level: int) -> None:
        rank = self._ranks[held.job.id]
        weight = 1.0 + self._policies.victim_cost.cost(held, self._now) + level * RANK_WEIGHT
        for role in surplus(held):
            amounts = self._tree.measure.of_rows(snapshot.holdings.need(role.shape).row, role.rows)
            self._units.append((leaf, rank, Unit(held, (role,), False, SURPLUS_WEIGHT * (1 + level), amounts)))
        safe_at = Timestamp(launched_at(held) + self._policies.minimum_run_seconds)
        if safe_at > self._now:
            self._young.append((leaf, rank, safe_at))
            return
        amounts = held_amounts(held, snapshot, self._tree)
        self._units.append((leaf, rank, Unit(held, minimum(held), True, weight, amounts)))

    def for_turn(self, turn: Turn, taken: set[JobId]) -> list[Unit]:
        """What may be given up for this gang: less important in its own queue, above their share in others."""
        rank = turn.rank
        self.wakes += [at for leaf, young, at in self._young if leaf is not turn.leaf or young > rank]
        own, others = [], []
        for leaf, unit_rank, unit in self._units:
            if unit.gang.job.id in taken:
                continue
            if leaf is turn.leaf:
                # Surplus competes on its own, behind everybody's minimum of the same importance.
                if self._policies.preemption and (unit_rank > rank or (not unit.whole and unit_rank >= rank)):
                    own.append(unit)
            else:
                others.append((leaf, unit))
        own.sort(key=_order)
        reclaimed = self._reclaimable(turn, others) if self._policies.reclaim and others else []
        return sorted((*own, *reclaimed), key=_order)

    def movable(self, turn: Turn, taken: set[JobId]) -> list[Unit]:
        """Gangs, not more important than this one, that may be moved if all of them find another place."""
        rank = turn.rank
        units = [
            unit
            for _, unit_rank, unit in self._units
            if unit.whole and unit_rank >= rank and unit.gang.job.id not in taken
        ]
        return sorted(units, key=_order)

    def _reclaimable(self, turn: Turn, others: list[tuple[Branch, Unit]]) -> list[Unit]:
        """Units of other queues that may go, taken in order while every queue keeps what it deserves.

        The gang's own queue must stay within what it deserves, or the two would reclaim from each other in turn.
        """
        contended = self._contended()
        amounts = self._tree.measure.of_amounts(turn.gang.demand.total())
        sated = {
            id(branch)
            for branch in turn.leaf.path
            if (
                (branch.used + branch.coming + amounts > np.maximum(branch.deserved, branch.guarantee))
                & contended
                & (amounts > 0)
            ).any()
        }
        left: dict[int, Ints] = {}
        granted = []
        for leaf, unit in sorted(others, key=lambda pair: _order(pair[1])):
            path = list(_until_shared(leaf, turn.leaf))
            if any(id(branch) in sated for branch in _until_shared(turn.leaf, leaf)):
                continue
            if all(self._spare(branch, unit.amounts, contended, left) for branch in path):
                for branch in path:
                    left[id(branch)] = left.get(id(branch), branch.used - branch.leaving) - unit.amounts
                granted.append(unit)
        return granted

    def _contended(self) -> Bools:
        """Resources of which more is asked for than there is; only those are worth taking from anybody."""
        tops = self._tree.root.children
        wanted = sum((branch.used + branch.asked for branch in tops), np.zeros_like(self._tree.root.used))
        return np.asarray(wanted > self._tree.measure.total)

    def _spare(self, branch: Branch, amounts: Ints, contended: Bools, left: dict[int, Ints]) -> bool:
        before = left.get(id(branch), branch.used - branch.leaving)
        after = before - amounts
        used = amounts > 0
        keeps_guarantee = bool((after >= np.minimum(branch.guarantee, before))[used].all())
        keeps_share = bool((after >= branch.deserved)[used & contended].all())
        return keeps_guarantee and keeps_share and bool((used & contended).any())


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


def held_amounts(gang: Held, snapshot: Snapshot, tree: QueueTree) -> Ints:
    """What a gang uses of its queue's quota."""
    amounts = np.zeros(len(tree.measure.names), dtype=np.int64)
    for role in gang.roles:
        amounts += tree.measure.of_rows(snapshot.holdings.need(role.shape).row, role.rows)
    return amounts


def _order(unit: Unit) -> tuple[float, float, str, int]:
    newest_first = -launched_at(unit.gang)
    return (
        unit.weight,
        newest_first,
        unit.gang.job.id,
        -max((index for role in unit.roles for index in role.indexes), default=0),
    )


def _until_shared(leaf: Branch, other: Branch) -> Iterator[Branch]:
    """The queues that lose when ``leaf`` gives to ``other``: up to, not including, the first one above both."""
    above = {id(branch) for branch in other.path}
    for branch in leaf.path:
        if id(branch) in above:
            return
        yield branch
