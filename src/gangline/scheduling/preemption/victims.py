"""Who could make room for a gang, in the order in which it would hurt least. Says nothing about whether it helps."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from heapq import merge

import numpy as np

from gangline.model import JobId, QueueName, RoleName, RoleSpec, Timestamp
from gangline.scheduling.demand.gang_affinity import role_name
from gangline.scheduling.gangs.holdings import Held, HeldRole
from gangline.scheduling.nodes.table import Bools, Ints
from gangline.scheduling.policies import Policies
from gangline.scheduling.preemption.standing import NEVER, Standing, Standings
from gangline.scheduling.queues.ordering import Turn
from gangline.scheduling.queues.quota import Branch, QueueTree
from gangline.scheduling.snapshot import Snapshot


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
    extra: bool = False
    """Beyond what its gang has asked for: it goes to anybody who waits."""


EXTRA_WEIGHT = 1e-9
"""Less than any other surplus."""
SURPLUS_WEIGHT = 1e-6
"""Less than any whole gang, whatever it has lost."""
RANK_WEIGHT = 1e12
"""More than any amount of work a gang can lose: a less important gang always goes first."""


@dataclass(slots=True, eq=False)
class _Member:
    """What a gang could give up at one importance: its surplus of some ``roles`` (None: of all), and the rest of it.

    Not frozen for the same reason as a unit.
    """

    gang: Held
    roles: frozenset[RoleName] | None = None
    whole: bool = True


class _Kind(Enum):
    """Which units of a class are looked at."""

    ALL = auto()
    SURPLUS = auto()
    EXTRA = auto()


class Pool:
    """All gangs that may be stopped for others in this cycle, whoever those are, by queue and importance."""

    def __init__(self, snapshot: Snapshot, tree: QueueTree, policies: Policies) -> None:
        self._snapshot = snapshot
        self._tree = tree
        self._policies = policies
        self._safe_at: list[Timestamp] = []
        self._awaited: set[tuple[int, float]] = set()
        """Classes in which somebody waits for a gang to become less important."""
        self._changes: dict[tuple[int, float], float] = {}
        """When the first gang of a class changes its importance."""
        self._classes: dict[tuple[int, float], tuple[Branch, list[_Member]]] = {}
        self._known: dict[tuple[JobId, int], list[Unit]] = {}
        self._ordered: dict[tuple[int, float, _Kind], list[Unit]] = {}
        self._passed: dict[int, int] = {}
        standings, branches = Standings(snapshot, policies.job_order), tree.branches
        for held in snapshot.held.values():
            spec = held.job.spec
            leaf = branches.get(spec.queue)
            if leaf is None or held.releasing:
                continue
            if not _are_alike(spec.roles):
                for found, member in _members(held, standings):
                    self._add(leaf, found, member)
            elif spec.policy.preemptible:
                self._add(leaf, standings.of(held.job), _Member(held))
        ranks = sorted({each for _, each in self._classes}, reverse=True)
        self._levels = {each: level for level, each in enumerate(ranks)}

    def _add(self, leaf: Branch, found: Standing, member: _Member) -> None:
        key = (id(leaf), found.rank)
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = (leaf, [])
            self._changes[key] = found.until
        elif found.until < self._changes[key]:
            self._changes[key] = found.until
        known[1].append(member)

    def wakes(self) -> list[Timestamp]:
        """When a gang may be stopped for somebody who was looked at, and may not be now."""
        soonest = self._snapshot.now + 1.0
        changes = (self._changes[key] for key in self._awaited)
        return [*self._safe_at, *(Timestamp(max(at, soonest)) for at in changes if at < NEVER)]

    def for_turn(
        self,
        turn: Turn,
        taken: Collection[JobId],
        spared: Collection[JobId] = (),
        *,
        hard: bool = False,
        others_only: bool = False,
        relieved: Ints | int = 0,
    ) -> Iterator[Unit]:
        """What may be given up for this gang, in order: less important in its own queue, above their share in others.

        ``taken`` have been asked by others and will be in every later call; ``spared`` are not to be asked this time.
        ``hard``: also gangs so large that their queue has less than its share without them. ``others_only``: no gang of
        its own queue, only surplus. ``relieved``: what others of its own queue give up for it in any case.
        """
        grants = _Grants(self._tree, turn, hard=hard, relieved=relieved)
        lists = []
        for key, (leaf, gangs) in self._classes.items():
            own, rank = leaf is turn.leaf, key[1]
            if not (self._policies.preemption if own else self._policies.reclaim):
                continue
            kind = _Kind.EXTRA
            if own and rank <= turn.rank:
                self._awaited.add(key)
            if own and rank >= turn.rank:
                # Surplus competes on its own, behind everybody's minimum of the same importance.
                kind = _Kind.SURPLUS if rank == turn.rank or others_only else _Kind.ALL
            elif not own and grants.may_ask(leaf):
                kind = _Kind.ALL
            lists.append(self._left(self._in_order(leaf, rank, gangs, kind), taken))
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

    def yielding(self, leaf: Branch, rank: float) -> Ints | int:
        """What gangs of a queue that are less important than a rank have at least; 0: there are none."""
        return sum((amounts for other, amounts in self._least.get(id(leaf), {}).items() if other > rank), 0)

    def take(self, job_ids: Iterable[JobId]) -> None:
        """Others have asked these gangs: they make way for nobody else."""
        for key, held in (self._whole[job_id] for job_id in job_ids if job_id in self._whole):
            self._least[key[0]][key[1]] = self._least[key[0]][key[1]] - held.least

    @cached_property
    def _whole(self) -> dict[JobId, tuple[tuple[int, float], Held]]:
        members = ((key, each) for key, (_, gangs) in self._classes.items() for each in gangs if each.whole)
        return {each.gang.job.id: (key, each.gang) for key, each in members}

    @cached_property
    def _least(self) -> dict[int, dict[float, Ints]]:
        """The minimum of the gangs of every queue that may be stopped, by importance."""
        least: dict[int, dict[float, Ints]] = defaultdict(dict)
        for (leaf, rank), held in self._whole.values():
            known = least[leaf].get(rank)
            least[leaf][rank] = held.least if known is None else known + held.least
        return least

    def movable(self, turn: Turn, taken: Collection[JobId]) -> list[Unit]:
        """Gangs, not more important than this one, that may be moved if all of them find another place."""
        units = [
            Unit(unit.gang, unit.gang.roles, True, unit.weight, unit.gang.amounts)
            for (_, rank), (leaf, gangs) in self._classes.items()
            if rank >= turn.rank
            for unit in self._in_order(leaf, rank, gangs, _Kind.ALL)
            if unit.whole and not unit.gang.demand.has_affinity and unit.gang.job.id not in taken
        ]
        return sorted(units, key=_order)

    def _in_order(self, leaf: Branch, rank: float, gangs: Sequence[_Member], kind: "_Kind") -> list[Unit]:
        """The units of one class, cheapest first; they are the same for everybody, so they are made once."""
        key = (id(leaf), rank, kind)
        known = self._ordered.get(key)
        if known is None:
            level, every, extra = self._levels[rank], kind is _Kind.ALL, kind is _Kind.EXTRA
            resizable = [member for member in gangs if member.gang.resizable]
            units = [
                unit
                for member in resizable
                for unit in self._units(leaf, member, level)
                if every or (unit.extra if extra else not unit.whole)
            ]
            if every and len(resizable) < len(gangs):
                units += self._rigid(leaf, gangs, level)
            known = self._ordered[key] = sorted(units, key=_order)
        return known

    def _units(self, leaf: Branch, member: _Member, level: int) -> list[Unit]:
        key = (member.gang.job.id, level)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._divide(leaf, member, level)
        return known

    def _rigid(self, leaf: Branch, gangs: Iterable[_Member], level: int) -> Iterator[Unit]:
        """Gangs that have no surplus, as a unit each: most of them, and there may be tens of thousands."""
        now, cost = self._snapshot.now, self._policies.victim_cost.cost
        left_alone, base = self._minimum_run(leaf), level * RANK_WEIGHT
        for member in gangs:
            held = member.gang
            if not member.whole or held.resizable:
                continue
            safe_at = held.launched_at + left_alone
            if safe_at > now:
                self._safe_at.append(Timestamp(safe_at))
            else:
                yield Unit(held, held.roles, True, 1.0 + cost(held, now) + base, held.amounts)

    def _divide(self, leaf: Branch, member: _Member, level: int) -> list[Unit]:
        """An elastic gang as units: each surplus replica, then the rest of it unless it has only just started."""
        units: list[Unit] = []
        held = member.gang
        least, present = held.amounts, {role.role: len(role.rows) for role in held.roles}
        for role in surplus(held):
            amounts = self._tree.measure.of_rows(self._snapshot.holdings.need(role.shape).row, role.rows)
            extra = present[role.role] > held.demand.role(role.role).wanted
            weight = (EXTRA_WEIGHT if extra else SURPLUS_WEIGHT) * (1 + level)
            if member.roles is None or role_name(role.role) in member.roles:
                units.append(Unit(held, (role,), False, weight, amounts, extra))
            present[role.role] -= 1
            least = least - amounts
        if not member.whole:
            return units
        now = self._snapshot.now
        safe_at = held.launched_at + self._minimum_run(leaf)
        if safe_at > now:
            self._safe_at.append(Timestamp(safe_at))
            return units
        weight = 1.0 + self._policies.victim_cost.cost(held, now) + level * RANK_WEIGHT
        units.append(Unit(held, minimum(held), True, weight, least))
        return units

    def _minimum_run(self, leaf: Branch) -> float:
        """How long a gang is left alone: what the nearest queue above it says, else as for everybody."""
        said = (branch.queue.minimum_run_seconds for branch in leaf.path)
        return next((each for each in said if each is not None), self._policies.minimum_run_seconds)


def _members(held: Held, standings: Standings) -> Iterator[tuple[Standing, _Member]]:
    """What a gang whose roles differ in importance could give up, and how important that is."""
    spec = held.job.spec
    whole = all(map(spec.is_preemptible, spec.roles))
    by_priority: dict[int, set[RoleName]] = {spec.priority: set()} if whole else {}
    for role in filter(spec.is_preemptible, spec.roles):
        by_priority.setdefault(spec.priority_of(role), set()).add(role.name)
    for priority, names in by_priority.items():
        job = replace(held.job, spec=replace(spec, priority=priority))
        yield standings.worked_out(job), _Member(held, frozenset(names), whole and priority == spec.priority)


def _are_alike(roles: Iterable[RoleSpec]) -> bool:
    """Whether no role has an importance of its own. A plain loop: it is asked of every gang that runs."""
    for role in roles:  # noqa: SIM110 - twice as fast as ``all``
        if role.priority is not None or role.preemptible is not None:
            return False
    return True


class _Grants:
    """What queues give to one gang of another queue: taken in order while they have more than their own.

    The share of the gang's own queue must cover it, or the two would reclaim from each other in turn.
    """

    def __init__(self, tree: QueueTree, turn: Turn, *, hard: bool, relieved: Ints | int) -> None:
        self._tree = tree
        self._turn = turn
        self._hard = hard
        self._relieved = relieved
        self._claims: dict[int, _Claim | None] = {}
        self._paths: dict[QueueName, tuple[list[Branch], _Claim]] = {}
        self._refused: set[tuple[QueueName, bool, bytes]] = set()

    def may_ask(self, leaf: Branch) -> bool:
        """Whether there is anything to be had from a queue."""
        path = list(until_shared(leaf, self._turn.leaf))
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
        if unit.extra:
            if name in self._paths:
                path, claim = self._paths[name]
                claim.take(path, unit)
            return True
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
        path = list(until_shared(self._turn.leaf, leaf))
        wants = self._tree.wants(self._turn.gang.demand)
        amounts = next((each for each in wants if self._tree.covers(path, each, self._relieved)), None)
        if amounts is None:
            return None
        scarce = shared.scarce & (amounts > 0)
        promised = bool((path[-1].firm + amounts - self._relieved <= path[-1].guarantee)[scarce].all())
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
        self.take(path, unit)
        return True

    def take(self, path: Sequence[Branch], unit: Unit) -> None:
        """Count a unit as gone."""
        for branch in path:
            self._all[id(branch)] = self._total(branch) - unit.amounts
            if unit.whole:
                self._firm[id(branch)] = self._minimum(branch) - unit.amounts

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
    """Every replica above the minimum of its role that may be stopped, each by itself: the role that is least
    important first, and of a role the highest index."""
    least = {role.role: role.least for role in gang.demand.roles}
    for role in _by_importance(gang):
        for position in range(len(role.rows) - 1, least[role.role] - 1, -1):
            yield _part(role, slice(position, position + 1))


def _by_importance(gang: Held) -> Sequence[HeldRole]:
    spec = gang.job.spec
    if _are_alike(spec.roles):
        return gang.roles if spec.policy.preemptible else ()
    own = {role.role: spec.role(role_name(role.role)) for role in gang.roles}
    some = [role for role in gang.roles if spec.is_preemptible(own[role.role])]
    return sorted(some, key=lambda role: spec.priority_of(own[role.role]))


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


def until_shared(leaf: Branch, other: Branch) -> Iterator[Branch]:
    """The queues that lose when ``leaf`` gives to ``other``: up to, not including, the first one above both."""
    above = {id(branch) for branch in other.path}
    for branch in leaf.path:
        if id(branch) in above:
            return
        yield branch
