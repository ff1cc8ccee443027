"""One scheduling cycle: from a snapshot to a decision.

1. Count what every queue uses and asks for.  2. Let the line pass: each gang gets its whole minimum, or room is made
for it, or it is told why not; the first that must wait gets a reservation that the rest respect.  3. Hand out what
is left to elastic gangs.  Nothing outside this module sees a cycle half done.
"""

from collections import Counter
from dataclasses import replace

from gangline.model import JobId, QueueName, Timestamp
from gangline.scheduling.decision import Decision, Start
from gangline.scheduling.domains import both
from gangline.scheduling.explanation import Constraint, Explanation
from gangline.scheduling.forecast import ends_by
from gangline.scheduling.holdings import Held, Waiting
from gangline.scheduling.layout import Layout, placement_of, slots_of
from gangline.scheduling.line import Line, Turn
from gangline.scheduling.memory import Memory
from gangline.scheduling.placement import Shortfall
from gangline.scheduling.policies import DEFAULT_POLICIES, Policies
from gangline.scheduling.quota import Branch, QueueTree
from gangline.scheduling.reasons import HOLDERS_SHOWN, Reasons
from gangline.scheduling.reservation import Floor
from gangline.scheduling.room import Room
from gangline.scheduling.shapes import Demand
from gangline.scheduling.snapshot import Snapshot
from gangline.scheduling.surplus import Surplus, scale_down
from gangline.scheduling.table import GPU, Bools, Ints
from gangline.scheduling.usage import remember_usage

HOPELESS = frozenset({Constraint.NODES, Constraint.TOO_LARGE})
"""No stopping and no waiting helps against these."""


def decide(snapshot: Snapshot, policies: Policies = DEFAULT_POLICIES) -> Decision:
    """Decide what starts, grows, shrinks and stops now, and explain the rest."""
    if _nothing_to_do(snapshot, policies):
        return Decision(memory=replace(snapshot.memory, holdings=snapshot.holdings))
    cycle = _Cycle(snapshot, policies)
    cycle.count()
    cycle.serve()
    return cycle.conclude()


def _nothing_to_do(snapshot: Snapshot, policies: Policies) -> bool:
    """Nobody waits, nobody can change size, nobody's use must be remembered: most cycles of a quiet cluster."""
    idle = not snapshot.waiting and not snapshot.holdings.resizable
    return idle and policies.usage_half_life_seconds is None


class _Cycle:
    """The state of one cycle. Made, run and dropped by ``decide``."""

    def __init__(self, snapshot: Snapshot, policies: Policies) -> None:
        self.snapshot = snapshot
        self.policies = policies
        self.measure = snapshot.holdings.measure
        self.tree = QueueTree(snapshot.queues, self.measure)
        self.floor = Floor(snapshot, policies)
        self.room = Room(self.floor, self.tree)
        self.reasons = Reasons(self.floor)
        self.line = Line(self.tree, policies, snapshot.now, lambda gang: self._need(gang.demand))
        self.layouts: dict[JobId, Layout] = {}
        self.explanations: dict[JobId, Explanation] = {}
        self.wake: list[Timestamp] = []
        self.usage: dict[QueueName, float] = {}
        self._amounts: dict[int, Ints] = {}
        self._answers: dict[tuple[object, ...], Explanation] = {}
        self._shorts: dict[tuple[object, ...], Explanation] = {}

    def count(self) -> None:
        """Book what is used, count what is asked for, divide the cluster among the queues, form the line."""
        branches, holdings = self.tree.branches, self.snapshot.holdings
        for name, used in holdings.used.items():
            if name in branches:
                self.tree.book(branches[name], used)
                self.tree.hold(branches[name], holdings.least[name])
        for held in holdings.releasing:
            if held.job.spec.queue in branches:
                self._count_leaving(held, branches[held.job.spec.queue])
        half_life = self.policies.usage_half_life_seconds
        self.usage = remember_usage(self.tree, self.snapshot.memory, self.snapshot.now, half_life)
        ready = [gang for gang in self.snapshot.waiting.values() if self._admit(gang)]
        asked = Counter((gang.job.spec.queue, id(gang.demand)) for gang in ready)
        demands = {id(gang.demand): gang.demand for gang in ready}
        for (name, demand), times in asked.items():
            self.tree.ask(branches[name], self._need(demands[demand]) * times)
        self.tree.settle()
        self.line.fill(ready, [nomination.job_id for nomination in self.room.owed])

    def _count_leaving(self, held: Held, leaf: Branch) -> None:
        self.tree.leave(leaf, held.amounts, held.least)
        if held.job.requeue:
            # It will ask again in a moment; meanwhile nobody's share grows by what was its.
            self.tree.ask(leaf, self._need(held.demand))

    def _admit(self, gang: Waiting) -> bool:
        """Whether the gang may stand in line at all."""
        job = gang.job
        leaf = self.tree.branches.get(job.spec.queue)
        if leaf is None or leaf.children:
            constraint = Constraint.UNKNOWN_QUEUE if leaf is None else Constraint.NOT_A_LEAF
            nearest = self.tree.nearest(job.spec.queue)
            self.explanations[job.id] = Explanation(constraint=constraint, queue=job.spec.queue, nearest=nearest)
            return False
        if not all(branch.queue.admits(job.spec.tenant) for branch in leaf.path):
            self.explanations[job.id] = Explanation(constraint=Constraint.CLOSED_QUEUE, queue=job.spec.queue)
            return False
        if job.retry_at is not None and job.retry_at > self.snapshot.now:
            self.wake.append(job.retry_at)
            self.explanations[job.id] = Explanation(constraint=Constraint.BACKING_OFF, predicted_start=job.retry_at)
            return False
        return True

    def _need(self, demand: Demand) -> Ints:
        known = self._amounts.get(id(demand))
        if known is None:
            known = self._amounts[id(demand)] = self.measure.of_amounts(demand.total())
        return known

    def serve(self) -> None:
        """Let the line pass."""
        for turn in self.line:
            known = self._answers.get(self._class(turn)) if self._answers else None
            why = known or self._serve(turn)
            if why is not None:
                self.explanations[turn.gang.job.id] = why

    def _class(self, turn: Turn) -> tuple[object, ...]:
        """Gangs of one class get the same answer, so a refusal is worked out once."""
        at = self.floor.at
        in_time = at is not None and ends_by(turn.gang, self.snapshot.now, at)
        return (id(turn.gang.demand), id(turn.leaf), turn.rank, in_time, self.floor.neighbours.key(turn.gang))

    def _serve(self, turn: Turn) -> Explanation | None:
        """Start a gang, or say why not."""
        amounts = self._need(turn.gang.demand)
        over = self.tree.over_ceiling(turn.leaf, amounts) if self.tree.limited else None
        suits = self.floor.neighbours.allowed(turn.gang)
        typed = self.tree.open_types(turn.leaf, int(amounts[GPU])) if self.tree.typed else None
        allowed = both(typed, suits)
        if over is not None:
            if self.room.in_queue(turn, amounts, allowed):
                return self._making_room(turn, Explanation(constraint=Constraint.MAKING_ROOM))
            why = self._answers[self._class(turn)] = self._over(*over)
            return why
        found = self.floor.place(turn.gang, allowed)
        if isinstance(found, Shortfall):
            if typed is not None and self._reopened(turn, amounts, typed, suits):
                return self._making_room(turn, Explanation(constraint=Constraint.MAKING_ROOM))
            if typed is not None and self.floor.would_fit(turn.gang.demand, suits):
                why = self._answers[self._class(turn)] = self._over_type(turn, int(amounts[GPU]))
                return why
            return self._wait(turn, found, suits, typed)
        self._start(turn, found)
        return None

    def _reopened(self, turn: Turn, amounts: Ints, typed: Bools, suits: Bools | None) -> bool:
        """Whether others of its queue make way for it on GPUs of a type that the queue may have no more of."""
        for number in {number: None for _, number, _ in self.tree.closed_types(turn.leaf, int(amounts[GPU]))}:
            of_type = amounts.copy()
            of_type[self.measure.typed.start + number] = amounts[GPU]
            if self.room.in_queue(turn, of_type, both(typed | (self.measure.gpu_types == number), suits)):
                return True
        return False

    def _start(self, turn: Turn, layout: Layout) -> None:
        if self.tree.typed:
            for seats in layout:
                self.tree.book_seats(turn.leaf, seats.need.row, list(seats.each()))
        else:
            self.tree.book(turn.leaf, self._need(turn.gang.demand))
        if self.tree.divided:
            self.tree.hold(turn.leaf, self._need(turn.gang.demand))
        self.floor.now.draft.commit()
        self.floor.neighbours.settle(turn.gang, layout)
        self.line.served(turn.leaf)
        self.layouts[turn.gang.job.id] = layout

    def _wait(self, turn: Turn, short: Shortfall, suits: Bools | None, typed: Bools | None) -> Explanation:
        """The gang does not fit now: others are stopped for it, or it is first in line, or it must wait."""
        why = self._short(turn, short, both(suits, typed))
        if why.constraint not in HOPELESS:
            if self.room.on_nodes(turn, both(suits, typed)):
                return self._making_room(turn, why)
            why = replace(why, holders=self.reasons.holders(short))
            if self.floor.first is None and self.policies.reservation:
                at = self.floor.reserve(turn.gang, typed)
                if at is not None:
                    return replace(why, predicted_start=at)
        self._answers[self._class(turn)] = why
        return why

    def _short(self, turn: Turn, short: Shortfall, allowed: Bools | None) -> Explanation:
        """Why it does not fit: the same for all that ask for the same, until something starts."""
        alike = (self._class(turn), len(self.layouts), self.floor.first)
        known = self._shorts.get(alike)
        if known is None:
            behind = self.floor.first
            known = self._shorts[alike] = self.reasons.short(turn.gang, short, allowed, behind=behind)
        return known

    def _making_room(self, turn: Turn, why: Explanation) -> Explanation:
        givers = self.room.givers(turn.gang.job.id)[:HOLDERS_SHOWN]
        over = self.room.only_terminating(turn.gang.job.id)
        constraint = Constraint.TERMINATING if over else Constraint.MAKING_ROOM
        return replace(why, constraint=constraint, holders=givers, predicted_start=self.floor.at)

    def _over(self, branch: Branch, missing: dict[str, int]) -> Explanation:
        """The queue (or one above it) is at its ceiling."""
        owns_less = bool((branch.ceiling < self.measure.of_limit(branch.queue.limit)).any())
        return self._held_back(Constraint.QUEUE_SHARE if owns_less else Constraint.QUEUE_LIMIT, branch, missing)

    def _over_type(self, turn: Turn, gpu_millis: int) -> Explanation:
        """It would fit, but only on GPUs of a type of which its queue (or one above it) may have no more."""
        closed = list(self.tree.closed_types(turn.leaf, gpu_millis))
        names = self.snapshot.table.gpu_type.names
        missing = {f"gpu_millis.{names[number]}": short for _, number, short in reversed(closed)}
        return self._held_back(Constraint.QUEUE_LIMIT, closed[0][0], missing)

    def _held_back(self, constraint: Constraint, branch: Branch, missing: dict[str, int]) -> Explanation:
        holders = sorted({held.owner for held in self.snapshot.held.values() if self._inside(held, branch)})
        return Explanation(
            constraint=constraint,
            queue=branch.queue.name,
            missing=missing,
            holders=tuple(holders[:HOLDERS_SHOWN]),
            helps=(f"It starts when jobs of queue '{branch.queue.name}' end, or when the queue may have more.",),
        )

    def _inside(self, held: Held, branch: Branch) -> bool:
        leaf = self.tree.branches.get(held.job.spec.queue)
        return leaf is not None and any(each is branch for each in leaf.path)

    def conclude(self) -> Decision:
        """Hand out the surplus and put everything together."""
        self.room.shrinks += scale_down(self.snapshot, self.room.busy())
        waiting = self.snapshot.waiting
        starting = [waiting[job_id] for job_id in self.layouts if waiting[job_id].demand.elastic]
        grows = Surplus(self.floor, self.tree, self.layouts).hand_out(starting, self.room.busy())
        wake = (*self.wake, *(self.room.wakes() if self.explanations else ()))
        table = self.snapshot.table
        return Decision(
            starts=tuple(
                Start(job_id=job_id, placement=placement_of(layout, table), gpu_slots=slots_of(layout))
                for job_id, layout in self.layouts.items()
            ),
            grows=grows,
            shrinks=tuple(self.room.shrinks),
            evictions=tuple(self.room.evictions),
            explanations=self.explanations,
            wake_at=min((at for at in wake if at > self.snapshot.now), default=None),
            memory=self._memory(),
        )

    def _memory(self) -> Memory:
        named = {each.job_id for each in self.room.nominations} | self.layouts.keys()
        return Memory(
            nominations=(*self.room.nominations, *(each for each in self.room.owed if each.job_id not in named)),
            usage=self.usage,
            usage_at=self.snapshot.now,
            holdings=self.snapshot.holdings,
            needs=self.floor.needs,
        )
