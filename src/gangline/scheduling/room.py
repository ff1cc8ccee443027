"""Making room within a cycle: keeps a place for a gang that does not fit yet, and says who stops for it."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from gangline.model import Job, JobId, ReplicaId, Timestamp
from gangline.scheduling.decision import Eviction, Shrink
from gangline.scheduling.holdings import Held
from gangline.scheduling.line import Turn
from gangline.scheduling.memory import Nomination
from gangline.scheduling.placement import Placer
from gangline.scheduling.preemption import Attempt, Plan
from gangline.scheduling.quota import Branch, QueueTree
from gangline.scheduling.reservation import Floor
from gangline.scheduling.table import Bools, Ints
from gangline.scheduling.terminating import is_terminating
from gangline.scheduling.victims import Pool, Unit

FEW = 8
"""So many of those who could make room are looked at first. Nobody behind them costs less than the last of them."""

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
        self._asked: set[JobId] = set()
        """Who gives something up already and is not asked again; with whom for in ``_givers``."""
        self._givers: dict[JobId, list[JobId]] = {}
        self._nominated: set[JobId] = set()

    @cached_property
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
        return self._asked | {shrink.job_id for shrink in self.shrinks}

    def givers(self, job_id: JobId) -> tuple[JobId, ...]:
        """Whose machines a gang waits for: those stopped or shrunk for it, else those that are leaving anyway."""
        return tuple(self._givers.get(job_id, ())) or tuple(dict.fromkeys(held.owner for held in self._leaving))

    def only_terminating(self, job_id: JobId) -> bool:
        """Whether all that a gang waits for has ended, and only its nodes have not released it yet."""
        return not self._givers.get(job_id) and all(is_terminating(held.job.id) for held in self._leaving)

    def on_nodes(self, turn: Turn, allowed: Bools | None, forced: tuple[Unit, ...] = ()) -> bool:
        """Keep a place for the gang out of what is being, or can be, given up. False when there is none.

        It may use ``allowed`` nodes; ``forced`` units are given up in any case.
        """
        given = Plan(forced, ())
        leaving = [*self._leaving, *given.stopped]
        placer = Placer(self._floor.room(leaving, given.shed), self._floor.needs, self._policies)
        attempt = Attempt(turn.gang.demand, self._floor.still_open(allowed), self._snapshot.holdings, placer)
        layout = attempt.fit() if leaving or forced else None
        plan = self._plan(turn, attempt, given) if layout is None else Plan(forced, layout)
        if plan is None or not self._floor.can_promise(plan.layout, [*self._leaving, *plan.stopped], plan.shed):
            return False
        self._carry_out(turn, plan)
        return True

    def _plan(self, turn: Turn, attempt: Attempt, given: Plan) -> Plan | None:
        """What to give up besides."""
        stopped, known = {held.job.id for held in given.stopped}, set(map(id, given.units))
        plan, tried = None, -1
        for units in self._units(turn):
            others = (unit for unit in units if id(unit) not in known and unit.gang.job.id not in stopped)
            few = list(islice(others, FEW))
            plan = attempt.stopping(few) if len(few) > tried else None
            if len(few) == FEW and (plan is None or plan.weight > few[-1].weight):
                # Something dearer one by one may be cheaper together.
                few += others
                plan = attempt.stopping(few) if len(few) > tried else None
            if plan is not None:
                return Plan((*given.units, *plan.units), plan.layout)
            tried = len(few)
        if self._policies.defragmentation and self._floor.first is None and attempt.enough_in_total():
            plan = attempt.moving(self._movable(turn))
        return None if plan is None else Plan((*given.units, *plan.units), plan.layout, plan.moves)

    def in_queue(self, turn: Turn, amounts: Ints, allowed: Bools | None) -> bool:
        """A queue above the gang is at its ceiling: let others below that one make way. False when that fails."""
        for units in self._units(turn):
            relief = _Relief(self._tree, turn, amounts)
            for unit in units:
                if not relief.lacking:
                    break
                relief.add(unit)
            if not relief.lacking and self.on_nodes(turn, allowed, relief.needed()):
                return True
        return False

    def _carry_out(self, turn: Turn, plan: Plan) -> None:
        job = turn.gang.job
        self._leaving += plan.stopped
        self._floor.promise(turn.gang, plan.layout, self._leaving, plan.shed)
        self._tree.promise(turn.leaf, self._tree.measure.of_amounts(turn.gang.demand.total()))
        self._nominate(job)
        for unit in plan.shed:
            self._tree.leave(self._tree.branches[unit.gang.job.spec.queue], unit.amounts)
        for held in plan.stopped:
            # Who is moved comes back.
            least = 0 if plan.moves else held.least
            self._tree.leave(self._tree.branches[held.job.spec.queue], held.amounts, least)
            reason = f"{'moved' if plan.moves else 'stopped'} to make room for '{job.name}'"
            self.evictions.append(Eviction(job_id=held.job.id, beneficiary=job.id, reason=reason))
            if plan.moves:
                self._nominate(held.job)
        shrinks = _shrinks(plan, job)
        self.shrinks += shrinks
        givers = [held.job.id for held in plan.stopped] + [order.job_id for order in shrinks]
        self._givers.setdefault(job.id, []).extend(givers)
        self._asked.update(givers)

    def _nominate(self, job: Job) -> None:
        if job.id in self._nominated:
            return
        self._nominated.add(job.id)
        known = next((each for each in self.owed if each.job_id == job.id), None)
        until = Timestamp(self._snapshot.now + NOMINATION_SECONDS)
        self.nominations.append(known or Nomination(job_id=job.id, until=until))

    def _all(self) -> Pool:
        if self._pool is None:
            self._pool = Pool(self._snapshot, self._tree, self._policies)
        return self._pool

    def _units(self, turn: Turn) -> Iterator[Iterator[Unit]]:
        """Who could make room: first so that every queue keeps its share, and if that fails whoever has more now."""
        for hard in (False, True):
            yield self._all().for_turn(turn, self._asked, self._floor.neighbours.wanted(turn.gang), hard=hard)

    def _movable(self, turn: Turn) -> list[Unit]:
        """Who may be moved and is welcome everywhere: where others keep it away, it might find no other place."""
        units = self._all().movable(turn, self._asked | self._floor.neighbours.wanted(turn.gang))
        return [unit for unit in units if self._floor.neighbours.allowed(unit.gang) is None]


class _Relief:
    """What is given up so that a gang passes no ceiling on its path, and whether that is enough."""

    def __init__(self, tree: QueueTree, turn: Turn, amounts: Ints) -> None:
        self._tree = tree
        self._turn = turn
        self._amounts = amounts
        self._units: list[Unit] = []
        self.lacking = self._over(())

    def add(self, unit: Unit) -> None:
        """Give up a unit if it counts against the ceiling that is in the way."""
        if self.lacking is not None and self.lacking in self._path(unit):
            self._units.append(unit)
            self.lacking = self._over(self._units)

    def needed(self) -> tuple[Unit, ...]:
        """What must be given up after all: without the dearest units that turned out not to matter."""
        for unit in sorted(self._units, key=lambda each: -each.weight):
            others = [each for each in self._units if each is not unit]
            if self._over(others) is None:
                self._units = others
        return tuple(self._units)

    def _over(self, units: Sequence[Unit]) -> Branch | None:
        given: dict[int, Ints] = {}
        for unit in units:
            for branch in self._path(unit):
                given[id(branch)] = given.get(id(branch), 0) + unit.amounts
        found = self._tree.over_ceiling(self._turn.leaf, self._amounts, given)
        return None if found is None else found[0]

    def _path(self, unit: Unit) -> tuple[Branch, ...]:
        return self._tree.branches[unit.gang.job.spec.queue].path


def _shrinks(plan: Plan, beneficiary: Job) -> list[Shrink]:
    """Surplus that a plan takes from gangs that go on running, one order per gang."""
    removed: dict[JobId, list[ReplicaId]] = {}
    for unit in plan.shed:
        replicas = [ReplicaId(role.role, index) for role in unit.roles for index in role.indexes]
        removed.setdefault(unit.gang.job.id, []).extend(replicas)
    reason = f"surplus given up for '{beneficiary.name}'"
    return [
        Shrink(job_id=job_id, removed=tuple(sorted(replicas)), beneficiary=beneficiary.id, reason=reason)
        for job_id, replicas in removed.items()
    ]
