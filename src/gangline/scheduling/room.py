"""Making room within a cycle: keeps a place for a gang that does not fit yet, and says who stops for it."""

from gangline.model import Job, JobId, ReplicaId, Timestamp
from gangline.scheduling.decision import Eviction, Shrink
from gangline.scheduling.holdings import Held
from gangline.scheduling.line import Turn
from gangline.scheduling.memory import Nomination
from gangline.scheduling.placement import Placer
from gangline.scheduling.preemption import Attempt, Plan
from gangline.scheduling.quota import QueueTree
from gangline.scheduling.reservation import Floor
from gangline.scheduling.table import Bools, Ints
from gangline.scheduling.victims import Pool, Unit

NOMINATION_SECONDS = 900.0
"""How long a gang for which others were stopped goes before everybody else; they have that long to stop."""


class Room:
    """Plans and promises of one cycle. ``shrinks``, ``evictions`` and ``nominations`` are its outcome."""

    def __init__(self, floor: Floor, tree: QueueTree) -> None:
        self.shrinks: list[Shrink] = []
        self.evictions: list[Eviction] = []
        self.nominations: list[Nomination] = []
        self._floor = floor
        self._tree = tree
        self._snapshot = floor.snapshot
        self._policies = floor.policies
        self._pool: Pool | None = None
        self._leaving: list[Held] = floor.releasing()

    def owed(self) -> list[Nomination]:
        """Earlier nominations that still count: not expired, and the job waits or is on its way back to waiting."""
        waiting, held = self._snapshot.waiting, self._snapshot.held
        return [
            nomination
            for nomination in self._snapshot.memory.nominations
            if nomination.until > self._snapshot.now and (nomination.job_id in waiting or nomination.job_id in held)
        ]

    def wakes(self) -> list[Timestamp]:
        """When gangs that were too young to be stopped for somebody will no longer be."""
        return [] if self._pool is None else self._pool.wakes

    def busy(self) -> set[JobId]:
        """Jobs that are already asked to give something up."""
        return {eviction.job_id for eviction in self.evictions} | {shrink.job_id for shrink in self.shrinks}

    def givers(self, job_id: JobId) -> tuple[JobId, ...]:
        """Whose machines a gang waits for: those stopped or shrunk for it, else those that are leaving anyway."""
        orders: list[Eviction | Shrink] = [*self.evictions, *self.shrinks]
        asked = tuple(order.job_id for order in orders if order.beneficiary == job_id)
        return asked or tuple(held.job.id for held in self._leaving)

    def on_nodes(self, turn: Turn, allowed: Bools | None, forced: tuple[Unit, ...] = ()) -> bool:
        """Keep a place for the gang out of what is being, or can be, given up. False when there is none.

        It may use ``allowed`` nodes; ``forced`` units are given up in any case.
        """
        leaving = [*self._leaving, *(unit.gang for unit in forced)]
        placer = Placer(self._floor.room(leaving), self._floor.needs, self._policies)
        attempt = Attempt(turn.gang.demand, self._floor.still_open(allowed), self._snapshot.holdings, placer)
        layout = attempt.fit() if leaving else None
        if layout is not None:
            self._carry_out(turn, Plan(forced, layout))
            return True
        plan = attempt.stopping([unit for unit in self._units(turn) if unit not in forced])
        if plan is None and self._policies.defragmentation and self._floor.first is None and attempt.enough_in_total():
            plan = attempt.moving(self._all().movable(turn, self.busy()))
        if plan is None:
            return False
        self._carry_out(turn, Plan((*forced, *plan.units), plan.layout, plan.moves))
        return True

    def in_queue(self, turn: Turn, amounts: Ints, allowed: Bools | None) -> bool:
        """The queue is at its ceiling: let less important gangs of the same queue make way. False when that fails."""
        relief = turn.leaf.leaving.copy()
        if self._tree.over_ceiling(turn.leaf, amounts, relief=relief) is None:
            return True
        forced: list[Unit] = []
        for unit in self._units(turn):
            if unit.whole and unit.gang.job.spec.queue == turn.leaf.queue.name:
                forced.append(unit)
                relief += unit.amounts
                if self._tree.over_ceiling(turn.leaf, amounts, relief=relief) is None:
                    return self.on_nodes(turn, allowed, tuple(forced))
        return False

    def _carry_out(self, turn: Turn, plan: Plan) -> None:
        job = turn.gang.job
        self._leaving += plan.stopped
        self._floor.promise(turn.gang, plan.layout, self._leaving)
        self._tree.promise(turn.leaf, self._tree.measure.of_amounts(turn.gang.demand.total()))
        self._nominate(job)
        for unit in plan.units:
            self._tree.leave(self._tree.branches[unit.gang.job.spec.queue], unit.amounts)
        for held in plan.stopped:
            reason = f"{'moved' if plan.moves else 'stopped'} to make room for '{job.name}'"
            self.evictions.append(Eviction(job_id=held.job.id, beneficiary=job.id, reason=reason))
            if plan.moves:
                self._nominate(held.job)
        self.shrinks += _shrinks(plan, job)

    def _nominate(self, job: Job) -> None:
        if any(nomination.job_id == job.id for nomination in self.nominations):
            return
        known = next((each for each in self.owed() if each.job_id == job.id), None)
        until = Timestamp(self._snapshot.now + NOMINATION_SECONDS)
        self.nominations.append(known or Nomination(job_id=job.id, until=until))

    def _all(self) -> Pool:
        if self._pool is None:
            self._pool = Pool(self._snapshot, self._tree, self._policies)
        return self._pool

    def _units(self, turn: Turn) -> list[Unit]:
        return self._all().for_turn(turn, self.busy())


def _shrinks(plan: Plan, beneficiary: Job) -> list[Shrink]:
    """Surplus that a plan takes from gangs that go on running, one order per gang."""
    stopped = {held.job.id for held in plan.stopped}
    removed: dict[JobId, list[ReplicaId]] = {}
    for unit in plan.units:
        if not unit.whole and unit.gang.job.id not in stopped:
            replicas = [ReplicaId(role.role, index) for role in unit.roles for index in role.indexes]
            removed.setdefault(unit.gang.job.id, []).extend(replicas)
    reason = f"surplus given up for '{beneficiary.name}'"
    return [
        Shrink(job_id=job_id, removed=tuple(sorted(replicas)), beneficiary=beneficiary.id, reason=reason)
        for job_id, replicas in removed.items()
    ]
