"""Making room within a cycle: keeps a place for a gang that does not fit yet, and says who stops for it."""

from collections import deque
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain, islice

import numpy as np

from gangline.model import Job, JobId, NodeName, ReplicaId, Timestamp
from gangline.scheduling.cycle_memory import Nomination
from gangline.scheduling.decision import Eviction, Shrink
from gangline.scheduling.gangs.holdings import Held
from gangline.scheduling.gangs.terminating import is_terminating
from gangline.scheduling.nodes.table import Bools, Ints
from gangline.scheduling.placement.layout import Layout
from gangline.scheduling.preemption.clearing import Clearing
from gangline.scheduling.preemption.plan import Attempt, Plan
from gangline.scheduling.preemption.relief import Relief, ShareRelief
from gangline.scheduling.preemption.reservation import Reservations
from gangline.scheduling.preemption.victims import Pool, Unit, until_shared
from gangline.scheduling.queues.ordering import Turn
from gangline.scheduling.queues.quota import Branch, QueueTree, is_fixed

FEW = 8
"""So many of those who could make room are looked at first. Nobody behind them costs less than the last of them."""

PLANS_PER_CYCLE = 2000
"""Searches for others who could make room, in one cycle: about a second. Counted, so that decisions repeat."""

UNITS_PER_PLAN = 200
"""A search that looks at many who could make room counts as several, one for so many of them."""

NOMINATION_SECONDS = 900.0
"""How long a gang for which others were stopped goes before everybody else; they have that long to stop."""


class RoomMaker:
    """Plans and promises of one cycle. ``shrinks``, ``evictions`` and ``nominations`` are its outcome."""

    def __init__(self, reservations: Reservations, tree: QueueTree) -> None:
        self.shrinks: list[Shrink] = []
        self.evictions: list[Eviction] = []
        self.nominations: list[Nomination] = []
        self._reservations = reservations
        self._tree = tree
        self._snapshot = reservations.snapshot
        self._policies = reservations.policies
        self._pool: Pool | None = None
        self._leaving = [held for held in reservations.leaving.values() if any(role.rows for role in held.roles)]
        self._asked: set[JobId] = set()
        """Who gives something up already and is not asked again; with whom for in ``_givers``."""
        self._givers: dict[JobId, list[JobId]] = {}
        self._nominated: set[JobId] = set()
        self.places: dict[JobId, Layout] = {}
        """Where gangs will go that have a place in what others give up."""
        self.unreached: set[JobId] = set()
        """Gangs for which nobody was looked for, because the cycle had done enough."""
        self._left = PLANS_PER_CYCLE
        self.spare = False
        """Whether those who were stopped last give up more than the gang needs for which they are."""
        self.passed_over: dict[tuple[object, ...], deque[Turn]] = {}
        """Gangs without a place that others may yet leave behind; those of one class together."""
        self._expected = set(self._snapshot.memory.unreached)
        """Gangs that an earlier cycle did not reach, and this one has not yet."""

    @cached_property
    def owed(self) -> list[Nomination]:
        """Earlier nominations that still count: not expired, and the job waits or is on its way back to waiting."""
        waiting, held = self._snapshot.waiting, self._snapshot.held
        return [
            nomination
            for nomination in self._snapshot.memory.nominations
            if nomination.until > self._snapshot.now and (nomination.job_id in waiting or nomination.job_id in held)
        ]

    def home(self, job_id: JobId) -> Bools | None:
        """The nodes on which an earlier cycle found a place for a gang that is nominated; None if it did not."""
        table = self._snapshot.table
        rows = [table.rows[name] for name in self._homes.get(job_id, ()) if name in table.rows]
        if not rows:
            return None
        mask = np.zeros(len(table), dtype=np.bool_)
        mask[rows] = True
        return mask

    @cached_property
    def _homes(self) -> Mapping[JobId, tuple[NodeName, ...]]:
        return {each.job_id: each.nodes for each in self.owed}

    def wakes(self) -> list[Timestamp]:
        """When gangs that were too young to be stopped for somebody will no longer be."""
        return [] if self._pool is None else self._pool.wakes()

    def busy(self) -> set[JobId]:
        """Jobs that are already asked to give something up."""
        return self._asked | {shrink.job_id for shrink in self.shrinks}

    def givers(self, job_id: JobId) -> tuple[JobId, ...]:
        """Whose machines a gang waits for: those stopped or shrunk for it, else those that are leaving anyway."""
        return tuple(self._givers.get(job_id, ())) or tuple(dict.fromkeys(held.owner for held in self._leaving))

    def only_terminating(self, job_id: JobId) -> bool:
        """Whether all that a gang waits for has ended, and only its nodes have not released it yet."""
        return not self._givers.get(job_id) and all(is_terminating(held.job.id) for held in self._leaving)

    def in_what_leaves(self, turn: Turn, allowed: Bools | None) -> bool:
        """Keep a place for the gang out of what others are giving up already; nobody else is stopped for it."""
        self._left -= 1
        if self._left < 0 or not self._leaving:
            return False
        first = self._reservations.reserved is turn
        where = allowed if first else self._reservations.still_open(allowed)
        layout = Attempt(turn.gang.demand, where, self._reservations.clearing(reserved=not first)).fit()
        if layout is None or not self._is_allowed(turn, Plan((), layout)):
            return False
        if first:
            self._reservations.cancel()
        self._carry_out(turn, Plan((), layout))
        return True

    def may_pass_first(self, turn: Turn, allowed: Bools | None) -> bool:
        """Whether a gang fits now if it leaves the first in line no place, and need not: it is more important than that
        one, and its queue gets no more than its share by it."""
        first = self._reservations.reserved
        if first is None or turn.rank >= first.rank or self._leaving or self._left <= 0:
            return False
        self._left -= 1
        layout = Attempt(turn.gang.demand, allowed, self._reservations.clearing(reserved=False)).fit()
        return layout is not None and self._is_due(turn, Plan((), layout))

    def on_nodes(self, turn: Turn, allowed: Bools | None, relief: Relief | None = None) -> bool:
        """Keep a place for the gang out of what is being, or can be, given up. False when there is none.

        It may use ``allowed`` nodes; ``relief`` says what its queues must give up in any case.
        """
        plan = self._plan_in(self._reservations.clearing(), turn, self._reservations.still_open(allowed), relief)
        first = self._reservations.reserved
        instead = plan is None and first is not None and turn.rank < first.rank
        if instead:
            # Whoever is more important need not leave the first in line its place, if the queue gets no more for it.
            plan = self._plan_in(self._reservations.clearing(reserved=False), turn, allowed, relief)
            if plan is None or not plan.units or not self._is_due(turn, plan):
                return False
        if plan is None or not self._is_allowed(turn, plan):
            return False
        if instead:
            self._reservations.cancel()
        self._carry_out(turn, plan)
        return True

    def for_heir(self, turn: Turn, allowed: Bools | None, heir: Turn, where: Bools | None) -> bool:
        """Keep a place for another gang of the queue, which may use nodes ``where``, in what would be given up for this
        one. False if there is no room for it."""
        clearing = self._reservations.clearing()
        plan = self._plan_in(clearing, turn, self._reservations.still_open(allowed), None)
        if plan is None or plan.moved or not self._is_allowed(turn, plan):
            return False
        mark = clearing.mark()
        clearing.release(plan.units)
        layout = Attempt(heir.gang.demand, self._reservations.still_open(where), clearing).fit()
        clearing.undo(mark)
        if layout is None or not self._is_allowed(heir, Plan(plan.units, layout)):
            return False
        self._carry_out(heir, Plan(plan.units, layout))
        return True

    def _is_allowed(self, turn: Turn, plan: Plan) -> bool:
        """Whether the gang may have its place once all is given up: a queue that lends less gets back what it keeps,
        and whoever stands before it in line does not take it back."""
        if self._is_taken_back(turn, plan):
            return False
        if not self._tree.limited:
            return True
        given: dict[int, Ints] = {}
        for unit in plan.units:
            again = self._amounts(plan.moved.get(unit.gang.job.id, ()))
            for branch in (*self._tree.branches[unit.gang.job.spec.queue].path, self._tree.root):
                given[id(branch)] = given.get(id(branch), 0) + unit.amounts - again
        return self._tree.over_ceiling(turn.leaf, self._amounts(plan.layout), given) is None

    def _is_taken_back(self, turn: Turn, plan: Plan) -> bool:
        """Whether the gang would be stopped again: its share does not cover it, and somebody who was passed over,
        whose share does, would have room in what others give up for it."""
        may_stop = all(map(turn.gang.job.spec.is_preemptible, turn.gang.job.spec.roles))
        if not (plan.units and self.passed_over and self._policies.reclaim and may_stop):
            return False
        amounts, own = self._amounts(plan.layout), turn.leaf.queue.name
        given = sum((unit.amounts for unit in plan.units if unit.whole and unit.gang.job.spec.queue == own), 0)
        if self._tree.covers(turn.leaf.path, amounts, given):
            return False
        claims = (
            turns[0]
            for turns in self.passed_over.values()
            if turns and self._may_claim(turns[0], turn.leaf, amounts, given)
        )
        clearing = self._reservations.clearing(reserved=False)
        mark = clearing.mark()
        clearing.release(plan.units)
        found = any(
            Attempt(each.gang.demand, self._reservations.affinity.allowed(each.gang), clearing).fit() is not None
            for each in islice(claims, FEW)
        )
        clearing.undo(mark)
        return found

    def _may_claim(self, claimant: Turn, leaf: Branch, amounts: Ints, given: Ints | int) -> bool:
        """Whether a gang may have one of another queue stopped, once that has got ``amounts`` and others have given
        theirs: as in ``victims``, its own share covers it, and the other queue has more than its own."""
        wants = self._tree.wants(claimant.gang.demand)
        own, path = list(until_shared(claimant.leaf, leaf)), list(until_shared(leaf, claimant.leaf))
        wanted = next((each for each in wants if self._tree.covers(claimant.leaf.path, each)), None)
        if not path or wanted is None:
            return False
        scarce = (path[-1].parent or self._tree.root).scarce & (wanted > 0)
        promised = (own[-1].firm + wanted <= own[-1].guarantee)[scarce].all()
        for branch in path:
            after = branch.firm - given
            before = after + amounts
            if not (before > branch.own)[scarce & (amounts > 0)].any():
                return False
            if not promised and not (after >= np.minimum(branch.guarantee, before))[amounts > 0].all():
                return False
        return True

    def _plan_in(self, clearing: Clearing, turn: Turn, allowed: Bools | None, relief: Relief | None) -> Plan | None:
        forced = () if relief is None else relief.needed()
        attempt = Attempt(turn.gang.demand, allowed, clearing)
        mark = clearing.mark()
        clearing.release(forced)
        layout = attempt.fit() if self._leaving or forced else None
        given = 0 if relief is None else relief.given(forced)
        plan = self._plan(turn, attempt, Plan(forced, ()), given) if layout is None else Plan(forced, layout)
        clearing.undo(mark)
        if plan is None or relief is None or plan.moved or plan.units == forced:
            return plan
        return attempt.sparing(plan, forced, relief.is_met)

    def _is_due(self, turn: Turn, plan: Plan) -> bool:
        """Whether a gang takes no more than what its queue gives up for it and nobody has reserved, or the share covers
        the rest."""
        given = [unit.amounts for unit in plan.units if unit.gang.job.spec.queue == turn.leaf.queue.name]
        rows = sorted({row for seats in plan.layout for row in seats.rows.tolist()})
        unreserved = self._tree.measure.of_free(self._reservations.open.draft.free[rows])
        more = self._amounts(plan.layout) - sum(given, unreserved)
        if not self._tree.shares_types:
            more[self._tree.measure.typed] = 0
        return self._tree.covers(turn.leaf.path, np.maximum(more, 0))

    def _plan(self, turn: Turn, attempt: Attempt, given: Plan, relieved: Ints | int = 0) -> Plan | None:
        """What to give up besides; ``relieved`` is what those given up take off the share of the gang's queue."""
        stopped, known = {held.job.id for held in given.stopped}, set(map(id, given.units))
        plan, tried = None, list[Unit]()
        for units in self._units(turn, relieved):
            others = units
            if known:
                others = (unit for unit in units if id(unit) not in known and unit.gang.job.id not in stopped)
            few = list(islice(others, 1))
            if few and not self._reaches(turn.gang.job.id):
                return None
            plan = attempt.stopping_one(few[0]) if few and few != tried[:1] else None
            if plan is None:
                few += islice(others, FEW - 1)
                self._left -= bool(few)
                plan = attempt.stopping(few) if few != tried else None
            if len(few) == FEW and (plan is None or plan.weight > few[-1].weight):
                # Something dearer one by one may be cheaper together.
                few += others
                self._left -= len(few) // UNITS_PER_PLAN
                plan = attempt.stopping(few) if few != tried else None
            if plan is not None:
                return Plan((*given.units, *plan.units), plan.layout)
            tried = few
        if self._policies.defragmentation and self._reservations.first is None:
            # Moving creates nothing, except that who has surplus leaves it behind.
            if not attempt.enough_in_total() and not self._snapshot.holdings.resizable:
                return None
            movable = [unit for unit in self._movable(turn) if unit.gang.job.id not in stopped]
            plan = attempt.moving(movable, {unit.gang.job.id: self._home(unit.gang) for unit in movable})
        return None if plan is None else Plan((*given.units, *plan.units), plan.layout, plan.moved)

    def _reaches(self, job_id: JobId) -> bool:
        """Whether there is still time to look for others. Half of it is kept for those who were not reached before."""
        self._expected.discard(job_id)
        if job_id not in self._snapshot.memory.unreached and self._left <= min(
            len(self._expected), PLANS_PER_CYCLE // 2
        ):
            self.unreached.add(job_id)
            return False
        self._left -= 1
        if self._left < 0:
            self.unreached.add(job_id)
        return self._left >= 0

    def in_queue(self, turn: Turn, amounts: Ints, allowed: Bools | None) -> bool:
        """A queue above the gang is at its ceiling: let others below that one make way. False when that fails."""
        tried = False
        for units in self._units(turn):
            first = next(units, None)
            if first is None and tried:
                continue  # nobody more can be asked than before
            tried, relief = True, Relief(self._tree, turn, amounts)
            for unit in () if first is None else chain((first,), units):
                if not relief.lacking:
                    break
                relief.add(unit)
            if not relief.lacking and self.on_nodes(turn, allowed, relief):
                return True
        return False

    def in_share(self, turn: Turn, allowed: Bools | None) -> bool:
        """The share of its queue covers the gang only without less important ones: let those make way for it, and
        other queues give back what is theirs no longer. False when that fails."""
        wants, path = self._tree.wants(turn.gang.demand), turn.leaf.path
        lesser = self.yielding(turn.leaf, turn.rank)
        if isinstance(lesser, int) or self._is_covered(turn):
            return False
        amounts = next((each for each in wants if self._tree.covers(path, each, lesser)), None)
        if amounts is None or not self._reaches(turn.gang.job.id):
            return False
        relief = ShareRelief(self._tree, turn, amounts)
        for number, unit in enumerate(next(self._units(turn)), 1):
            if not relief.lacking:
                break
            self._left -= number % UNITS_PER_PLAN == 0
            relief.add(unit)
        return not relief.lacking and self.on_nodes(turn, allowed, relief)

    def yielding(self, leaf: Branch, rank: float) -> Ints | int:
        """What gangs of a queue have at least that may be stopped for one of this rank; 0: there are none."""
        return self._all().yielding(leaf, rank) if self._policies.preemption else 0

    def _carry_out(self, turn: Turn, plan: Plan) -> None:
        job = turn.gang.job
        self.places[job.id] = plan.layout
        self._leaving += plan.stopped
        self._reservations.promise(turn.gang, plan.layout, plan.stopped, plan.shed)
        amounts = self._amounts(plan.layout)
        kept = sum(map(self._amounts, plan.moved.values()), amounts)
        self.spare = bool((sum((unit.amounts for unit in plan.units), -kept) > 0).any())
        self._tree.promise(turn.leaf, amounts)
        if self._tree.fixes and is_fixed(job):
            self._tree.fix(turn.leaf, amounts)
        self._nominate(job, plan.layout)
        for unit in plan.shed:
            self._tree.leave(self._tree.branches[unit.gang.job.spec.queue], unit.amounts)
        for held in plan.stopped:
            moved = plan.moved.get(held.job.id)
            self._tree.leave(self._tree.branches[held.job.spec.queue], held.amounts, held.least)
            reason = f"{'stopped' if moved is None else 'moved'} to make room for '{job.name}'"
            self.evictions.append(Eviction(job_id=held.job.id, beneficiary=job.id, reason=reason))
            if moved is not None:
                self._keep(held, moved)
                self._nominate(held.job, moved)
        shrinks = _shrinks(plan, job)
        self.shrinks += shrinks
        givers = [held.job.id for held in plan.stopped] + [order.job_id for order in shrinks]
        self._givers.setdefault(job.id, []).extend(givers)
        self._asked.update(givers)
        if givers and self._tree.divided:
            self._all().take(givers)

    def keep_places(self) -> None:
        """Keep the new places of gangs that were moved and are still on their way out of the old ones."""
        for nomination in self.owed:
            held = self._reservations.leaving.get(nomination.job_id)
            if held is not None and held.job.requeue and held.job.spec.queue in self._tree.branches:
                layout = Attempt(held.demand, self._home(held), self._reservations.clearing()).fit()
                if layout is not None:
                    self._keep(held, layout)

    def _keep(self, held: Held, layout: Layout) -> None:
        self._reservations.keep(held.job.id, layout)
        self._tree.promise(self._tree.branches[held.job.spec.queue], self._amounts(layout))

    def _amounts(self, layout: Layout) -> Ints:
        """What a gang will use of its queue in this place, GPU types included."""
        measure = self._tree.measure
        return sum((measure.of_rows(seats.need.row, list(seats.each())) for seats in layout), measure.of_amounts({}))

    def _home(self, held: Held) -> Bools | None:
        """Nodes that a gang may be moved to: where queues limit the GPUs of a type, those of the types that it has."""
        if not self._tree.typed:
            return None
        types = self._tree.measure.gpu_types
        return np.isin(types, types[[row for role in held.roles for row in role.rows]])

    def _nominate(self, job: Job, layout: Layout) -> None:
        if job.id in self._nominated:
            return
        self._nominated.add(job.id)
        known = next((each for each in self.owed if each.job_id == job.id), None)
        until = Timestamp(self._snapshot.now + NOMINATION_SECONDS) if known is None else known.until
        names = self._snapshot.table.names
        nodes = tuple(sorted({names[row] for seats in layout for row in seats.rows}))
        self.nominations.append(Nomination(job_id=job.id, until=until, nodes=nodes))

    def _all(self) -> Pool:
        if self._pool is None:
            self._pool = Pool(self._snapshot, self._tree, self._policies)
        return self._pool

    def _units(self, turn: Turn, relieved: Ints | int = 0) -> Iterator[Iterator[Unit]]:
        """Who could make room: first so that every queue keeps its share, and if that fails whoever has more now.

        A gang that the share of its queue covers asks other queues first: one of its own queue that made way for it
        would be covered, too, and take back from them what this one did not.
        """
        wanted = self._reservations.affinity.wanted(turn.gang)
        for others_only in (True, False) if self._is_covered(turn) else (False,):
            for hard in (False, True):
                yield self._all().for_turn(
                    turn, self._asked, wanted, hard=hard, others_only=others_only, relieved=relieved
                )

    def _is_covered(self, turn: Turn) -> bool:
        """Whether the share of its queue is enough for a gang although nobody of that queue makes way."""
        wants = self._tree.wants(turn.gang.demand)
        return self._tree.divided and any(self._tree.covers(turn.leaf.path, each) for each in wants)

    def _movable(self, turn: Turn) -> list[Unit]:
        """Who may be moved and is welcome everywhere: where others keep it away, it might find no other place."""
        units = self._all().movable(turn, self._asked | self._reservations.affinity.wanted(turn.gang))
        return [unit for unit in units if self._reservations.affinity.allowed(unit.gang) is None]


def _shrinks(plan: Plan, beneficiary: Job) -> list[Shrink]:
    """Surplus that a plan takes from gangs that go on running, one order per gang."""
    removed: dict[JobId, list[ReplicaId]] = {}
    for unit in plan.shed:
        replicas = [replica for role in unit.roles for replica in role.replicas]
        removed.setdefault(unit.gang.job.id, []).extend(replicas)
    reason = f"surplus given up for '{beneficiary.name}'"
    return [
        Shrink(job_id=job_id, removed=tuple(sorted(replicas)), beneficiary=beneficiary.id, reason=reason)
        for job_id, replicas in removed.items()
    ]
