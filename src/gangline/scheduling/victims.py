"""Who could make room for a gang, in the order in which it would hurt least. Says nothing about whether it helps."""

from collections.abc import Iterable, Iterator, Sequence
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

    def for_turn(self, turn: Turn, taken: set[JobId]) -> list[Unit]:
        """What may be given up for this gang: less important in its own queue, above their share in others."""
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
            own += self._reclaimable(turn, others)
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

    def _reclaimable(self, turn: Turn, others: list[tuple[Branch, Unit]]) -> list[Unit]:
        """Units of other queues that may go, taken in order while every queue keeps what it deserves.

        The gang's own queue must stay within what it deserves, or the two would reclaim from each other in turn.
        """
        amounts = self._tree.measure.of_amounts(turn.gang.demand.total())
        rivalries: dict[int, tuple[Bools, bool]] = {}
        left: dict[int, Ints] = {}
        granted = []
        for leaf, unit in sorted(others, key=lambda pair: _order(pair[1])):
            path = list(_until_shared(leaf, turn.leaf))
            shared = path[-1].parent or self._tree.root
            if id(shared) not in rivalries:
                contended = _contended(shared)
                rivalries[id(shared)] = contended, _sated(_until_shared(turn.leaf, leaf), amounts, contended)
            contended, sated = rivalries[id(shared)]
            if not sated and all(_spare(branch, unit.amounts, contended, left) for branch in path):
                for branch in path:
                    left[id(branch)] = left.get(id(branch), branch.used - branch.leaving) - unit.amounts
                granted.append(unit)
        return granted


def _contended(shared: Branch) -> Bools:
    """Resources of which more is asked for below a queue than it deserves; only those are worth taking from anybody."""
    wanted = sum((branch.used + branch.asked for branch in shared.children), np.zeros_like(shared.used))
    return np.asarray(wanted > shared.deserved)


def _sated(path: Iterable[Branch], amounts: Ints, contended: Bools) -> bool:
    """Whether one of these queues would have more than it deserves once it got that much."""
    counts = contended & (amounts > 0)
    return any(
        (branch.used + branch.coming + amounts > np.maximum(branch.deserved, branch.guarantee))[counts].any()
        for branch in path
    )


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


def _spare(branch: Branch, amounts: Ints, contended: Bools, left: dict[int, Ints]) -> bool:
    """Whether a queue can do without this much: it keeps its guarantee, and its share of what is scarce."""
    before = left.get(id(branch), branch.used - branch.leaving)
    after = before - amounts
    used = amounts > 0
    keeps_guarantee = bool((after >= np.minimum(branch.guarantee, before))[used].all())
    keeps_share = bool((after >= branch.deserved)[used & contended].all())
    return keeps_guarantee and keeps_share and bool((used & contended).any())


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
