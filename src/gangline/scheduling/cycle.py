"""One scheduling cycle: from a snapshot to a decision.

1. Count what every queue uses and asks for.  2. Let the line pass: each gang gets its whole minimum, or room is made
for it, or it is told why not; the first that must wait gets a reservation that the rest respect.  3. Hand out what
is left to elastic gangs.  Nothing outside this module sees a cycle half done.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from gangline.model import JobId, QueueName, Timestamp
from gangline.model.explanation import Constraint, Explanation, amount_text
from gangline.scheduling.balance import Balance
from gangline.scheduling.ceilings import Ceilings
from gangline.scheduling.cycle_memory import CycleMemory, PastUse, SizePlan
from gangline.scheduling.decision import Decision, Start
from gangline.scheduling.demand.shapes import Demand
from gangline.scheduling.experience import seen_before, taught, with_started
from gangline.scheduling.gangs.forecast import ends_by
from gangline.scheduling.gangs.holdings import Held, Waiting
from gangline.scheduling.nodes.domains import both
from gangline.scheduling.nodes.table import GPU, Bools, Ints
from gangline.scheduling.placement.layout import Layout, placement_of, slots_of
from gangline.scheduling.placement.placer import Shortfall
from gangline.scheduling.policies import DEFAULT_POLICIES, Policies
from gangline.scheduling.preemption.departures import departures
from gangline.scheduling.preemption.making_room import RoomMaker
from gangline.scheduling.preemption.reservation import Reservations
from gangline.scheduling.queues.ordering import Turn, WaitingLine
from gangline.scheduling.queues.quota import Branch, Excess, QueueTree, is_fixed
from gangline.scheduling.queues.usage import remember_usage
from gangline.scheduling.reasons import HOLDERS_SHOWN, Reasons, guarantees
from gangline.scheduling.sizing import Outcome as Sizes
from gangline.scheduling.sizing import SizeChooser, next_choice
from gangline.scheduling.snapshot import Snapshot
from gangline.scheduling.surplus import SETTLING_SECONDS, Surplus, scale_down, settling_of

HOPELESS = frozenset({Constraint.NODES, Constraint.TOO_LARGE})
"""No stopping and no waiting helps against these."""

NO_HEIRS: Mapping[JobId, JobId] = {}

AGAIN_SECONDS = 1.0
"""How soon the next cycle follows one that has not reached everybody."""


def decide(snapshot: Snapshot, policies: Policies = DEFAULT_POLICIES) -> Decision:
    """Decide what starts, grows, shrinks and stops now, and explain the rest."""
    if _nothing_to_do(snapshot, policies):
        return Decision(memory=replace(snapshot.memory, holdings=snapshot.holdings))
    cycle = _Cycle(snapshot, policies)
    return (_less_hasty(cycle) if cycle.hasty else cycle).conclude()


def _less_hasty(cycle: "_Cycle") -> "_Cycle":
    """Once more, without those who would be stopped in the next cycle for somebody of their own queue: they come last,
    or that one gets what others give up for them. As before if it gets no place even so, or only at others' expense."""
    lesser = frozenset(chain.from_iterable(cycle.hasty.values()))
    again = _Cycle(cycle.snapshot, cycle.policies, last=lesser)
    if cycle.hasty.keys() <= again.placed:
        return again
    heirs = {each: job_id for job_id, others in cycle.hasty.items() for each in others & cycle.room.places.keys()}
    again = _Cycle(cycle.snapshot, cycle.policies, heirs=heirs) if heirs else cycle
    return again if (cycle.placed | cycle.hasty.keys()) - lesser <= again.placed else cycle


def _nothing_to_do(snapshot: Snapshot, policies: Policies) -> bool:
    """Nobody waits, nobody can change size, nobody's use must be remembered: most cycles of a quiet cluster."""
    idle = not snapshot.waiting and not snapshot.holdings.resizable
    return idle and policies.usage_half_life_seconds is None


class _Cycle:
    """The state of one cycle. Made and dropped by ``decide``; those in ``last`` come with who is beyond their share.

    What others would give up for those in ``heirs`` goes to the one who would take it from them.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        policies: Policies,
        *,
        last: Collection[JobId] = (),
        heirs: Mapping[JobId, JobId] = NO_HEIRS,
    ) -> None:
        self.snapshot = snapshot
        self._heirs = heirs
        self.seen = seen_before(snapshot)
        self.policies = policies = taught(policies, self.seen)
        self.measure = snapshot.holdings.measure
        self.tree = QueueTree(snapshot.queues, self.measure)
        self.reservations = Reservations(snapshot, policies)
        self.room = RoomMaker(self.reservations, self.tree)
        self.reasons = Reasons(self.reservations)
        self.ceilings = Ceilings(self.tree, snapshot)
        self.line = WaitingLine(
            self.tree, policies, snapshot.now, yielding=self.room.yielding, held=snapshot.held.values(), last=last
        )
        self.layouts: dict[JobId, Layout] = {}
        self.explanations: dict[JobId, Explanation] = {}
        self.wake: list[Timestamp] = []
        self.first: tuple[Turn, Bools | None] | None = None
        """The first in line for whom a place is kept, and the nodes whose GPU type its queue may use."""
        self.predicted = False
        """Whether somebody was told when it will start."""
        self.usage: dict[QueueName, PastUse] = {}
        self.unreached: set[JobId] = set()
        self.hasty: dict[JobId, set[JobId]] = {}
        """Gangs without a place, and less important ones of their queue that have got what they could have had."""
        self._served: dict[int, list[Turn]] = defaultdict(list)
        """Who has got something in this cycle, by queue; not those who were nominated before."""
        self._answers: dict[tuple[object, ...], Explanation] = {}
        self._shorts: dict[tuple[object, ...], Explanation] = {}
        self._fits: dict[tuple[object, ...], bool] = {}
        self.count()
        self.serve()

    @property
    def placed(self) -> set[JobId]:
        """The gangs that start, or have a place in what others give up."""
        return self.layouts.keys() | self.room.places.keys()

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
        if self.tree.fixes:
            for held in holdings.held.values():
                if is_fixed(held.job) and held.job.spec.queue in branches:
                    self.tree.fix(branches[held.job.spec.queue], held.amounts)
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
            self.explanations[job.id] = Explanation(constraint=Constraint.BACKING_OFF, predicted_start_at=job.retry_at)
            return False
        return True

    def _need(self, demand: Demand) -> Ints:
        """What a gang asks for; of several GPU types that would do, the first."""
        return self.tree.wants(demand)[0]

    def serve(self) -> None:
        """Let the line pass."""
        self._pass(self.line.nominated)
        self._served.clear()
        self.room.keep_places()
        self._pass(self.line)

    def _pass(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            if turn.gang.job.id in self.room.places:
                continue
            known = self._answers.get(alike := self._class(turn)) if self._answers else None
            if known is not None and alike in self.room.passed_over:
                self.room.passed_over[alike].append(turn)
            why = known or self._serve(turn)
            if why is not None:
                self.explanations[turn.gang.job.id] = why
                if why.unreached:
                    self.unreached.add(turn.gang.job.id)

    def _class(self, turn: Turn) -> tuple[object, ...]:
        """Gangs of one class get the same answer, so a refusal is worked out once."""
        at = self.reservations.at
        in_time = at is not None and ends_by(turn.gang, self.snapshot.now, at)
        return (id(turn.gang.demand), id(turn.leaf), turn.rank, in_time, self.reservations.affinity.key(turn.gang))

    def _serve(self, turn: Turn) -> Explanation | None:
        """Start a gang, or say why not."""
        amounts = self._need(turn.gang.demand)
        if self.tree.fixes and (beyond := self.tree.beyond_guarantee(turn.leaf, turn.gang.job, amounts)) is not None:
            return self.ceilings.not_guaranteed(amounts, beyond)
        if self.tree.shares_types:
            # Which type it gets is settled below, where one that the queue may have no more of is closed to it.
            amounts = amounts.copy()
            amounts[self.measure.typed] = 0
        over = self.tree.over_ceiling(turn.leaf, amounts) if self.tree.limited else None
        suits = self.reservations.affinity.allowed(turn.gang)
        typed = self.tree.open_types(turn.leaf, turn.gang.job, int(amounts[GPU])) if self.tree.typed else None
        allowed = both(typed, suits)
        if over is not None:
            if self.room.in_queue(turn, amounts, allowed):
                return self._making_room(turn, Explanation(constraint=Constraint.MAKING_ROOM))
            why = self._answers[self._class(turn)] = replace(
                self._over(turn, amounts, allowed, over), unreached=turn.gang.job.id in self.room.unreached
            )
            return why
        home = self.room.home(turn.gang.job.id) if self.room.owed else None
        found = self.reservations.place(turn.gang, both(allowed, home))
        if home is not None and isinstance(found, Shortfall):
            found = self.reservations.place(turn.gang, allowed)
        if isinstance(found, Shortfall):
            if typed is not None and self._reopened(turn, amounts, typed, suits):
                return self._making_room(turn, Explanation(constraint=Constraint.MAKING_ROOM))
            if typed is not None:
                # What is short is told of the nodes, whatever types the queue may have.
                short = self.reservations.shortfall(turn.gang.demand, suits)
                if short is None:
                    why = self._answers[self._class(turn)] = self.ceilings.over_type(turn, int(amounts[GPU]))
                    return why
                found = short
            return self._wait(turn, found, suits, typed)
        self._start(turn, found)
        return None

    def _reopened(self, turn: Turn, amounts: Ints, typed: Bools, suits: Bools | None) -> bool:
        """Whether others of its queue make way for it on GPUs of a type that the queue may have no more of."""
        closed = self.tree.closed_types(turn.leaf, turn.gang.job, int(amounts[GPU]))
        unfixed = {each.number: not each.fixed for each in closed}
        for number in (number for number, may in unfixed.items() if may):
            of_type = self.measure.of_type(amounts, number)
            if self.room.in_queue(turn, of_type, both(typed | (self.measure.gpu_types == number), suits)):
                return True
        return False

    def _start(self, turn: Turn, layout: Layout) -> None:
        amounts = self._need(turn.gang.demand)
        if self.tree.typed:
            parts = [self.tree.book_seats(turn.leaf, seats.need.row, list(seats.each())) for seats in layout]
            amounts = sum(parts, np.zeros_like(amounts)) if self.tree.shares_types else amounts
        else:
            self.tree.book(turn.leaf, amounts)
        if self.tree.divided:
            self.tree.hold(turn.leaf, amounts)
        if self.tree.fixes and is_fixed(turn.gang.job):
            self.tree.fix(turn.leaf, amounts)
        self.reservations.now.draft.commit()
        self.reservations.affinity.settle(turn.gang, layout)
        self.line.served(turn.leaf)
        self._served[id(turn.leaf)].append(turn)
        self.reservations.begin(turn.gang, layout)
        self.layouts[turn.gang.job.id] = layout

    def _wait(self, turn: Turn, short: Shortfall, suits: Bools | None, typed: Bools | None) -> Explanation | None:
        """The gang does not fit now: others are stopped for it, or it is first in line, or it must wait."""
        if self._passes_first(turn, both(suits, typed)):
            return None
        why = self._short(turn, short, suits)
        if why.constraint not in HOPELESS:
            where = both(suits, typed)
            self._give_to_heir(turn, where)
            if self.room.on_nodes(turn, where) or (self.tree.divided and self.room.in_share(turn, where)):
                return self._making_room(turn, why)
            self._look_back(turn, where)
            helps = (*why.helps, *guarantees(turn.leaf, self._need(turn.gang.demand), self.measure))
            unreached = turn.gang.job.id in self.room.unreached
            why = replace(why, holders=self.reasons.holders(short), helps=helps, unreached=unreached)
            if self._may_reserve(turn):
                at = self.reservations.reserve(turn, typed)
                self.first = (turn, typed) if self.reservations.reserved is turn else None
                self.predicted = True
                if at is not None:
                    if self.tree.divided:
                        self.room.passed_over.setdefault(self._class(turn), deque()).append(turn)
                    return replace(why, predicted_start_at=at)
        self._answers[self._class(turn)] = why
        if self.tree.divided and why.constraint not in HOPELESS:
            self.room.passed_over.setdefault(self._class(turn), deque()).append(turn)
        return why

    def _passes_first(self, turn: Turn, where: Bools | None) -> bool:
        """Start somebody more important in the place of the first in line, who gets another."""
        if self.first is None or not self.room.may_pass_first(turn, where):
            return False
        self.reservations.cancel()
        found = self.reservations.place(turn.gang, where)
        if not isinstance(found, Shortfall):
            self._start(turn, found)
        self._reserve_again(*self.first)
        return not isinstance(found, Shortfall)

    def _give_to_heir(self, turn: Turn, where: Bools | None) -> None:
        """Let a more important gang of its queue have at once what it would take from this one in the next cycle."""
        name = self._heirs.get(turn.gang.job.id)
        if name is None or name in self.room.places:
            return
        gang = self.snapshot.waiting[name]
        heir = Turn(gang, turn.leaf, self.policies.job_order.rank(gang.job, self.snapshot.now))
        if self.room.for_heir(turn, where, heir, self._where(heir)):
            self.explanations[name] = self._making_room(heir, Explanation(constraint=Constraint.MAKING_ROOM))

    def _look_back(self, turn: Turn, where: Bools | None) -> None:
        """Find out whether less important gangs of its queue have just got what the gang could have had."""
        served = self._served[id(turn.leaf)] if self.tree.divided and self.policies.preemption else ()
        lesser = [each.gang for each in served if each.rank > turn.rank]
        if lesser:
            places = self.layouts | self.room.places
            gone = departures((), [(gang, places[gang.job.id]) for gang in lesser], self.snapshot.now)
            placer = self.reservations.clearing().placer
            if self.reasons.would_fit_without(turn.gang, where, gone, placer):
                self.hasty[turn.gang.job.id] = {gang.job.id for gang in lesser}

    def _may_reserve(self, turn: Turn) -> bool:
        """The first in line is told when it will start; the first that has waited for a while has its place kept."""
        if not self.policies.reservation or self.reservations.reserved is not None:
            return False
        return not self.predicted or self.reservations.is_due(turn.gang)

    def _short(self, turn: Turn, short: Shortfall, allowed: Bools | None) -> Explanation:
        """Why it does not fit: the same for all that ask for the same, until something starts."""
        alike = (self._class(turn), len(self.layouts), self.reservations.first)
        known = self._shorts.get(alike)
        if known is None:
            behind = self.reservations.first
            known = self._shorts[alike] = self.reasons.short(turn.gang, short, allowed, behind=behind)
        return known

    def _making_room(self, turn: Turn, why: Explanation) -> Explanation:
        self.line.served(turn.leaf, by_others=True)
        self._served[id(turn.leaf)].append(turn)
        if self.first is not None and self.reservations.reserved is None:
            self._reserve_again(*self.first)
        if self.room.spare:
            self._look_again()
        givers = self.room.givers(turn.gang.job.id)[:HOLDERS_SHOWN]
        over = self.room.only_terminating(turn.gang.job.id)
        constraint = Constraint.TERMINATING if over else Constraint.MAKING_ROOM
        return replace(why, constraint=constraint, holders=givers, predicted_start_at=self.snapshot.now)

    def _look_again(self) -> None:
        """Others give up more than the gang needs for which they are stopped: whoever stands before it comes first."""
        for turns in self.room.passed_over.values():
            while turns and self._gets_what_leaves(turns[0]):
                turns.popleft()

    def _gets_what_leaves(self, turn: Turn) -> bool:
        job = turn.gang.job
        fixed = self.tree.beyond_guarantee(turn.leaf, job, self._need(turn.gang.demand)) is not None
        if fixed or not self.room.in_what_leaves(turn, self._where(turn)):
            return False
        if self.first is not None and self.first[0] is turn:
            self.first = None
        self.explanations[job.id] = self._making_room(turn, self.explanations[job.id])
        return True

    def _where(self, turn: Turn) -> Bools | None:
        """Nodes that a gang's neighbours and its queue allow it now; None for all."""
        gpus = int(self._need(turn.gang.demand)[GPU])
        typed = self.tree.open_types(turn.leaf, turn.gang.job, gpus) if self.tree.typed else None
        return both(self.reservations.affinity.allowed(turn.gang), typed)

    def _reserve_again(self, turn: Turn, typed: Bools | None) -> None:
        """Somebody more important has got the place of the first in line: find it another."""
        name = turn.gang.job.id
        self.explanations[name] = replace(
            self.explanations[name], predicted_start_at=self.reservations.reserve(turn, typed)
        )

    def _over(self, turn: Turn, amounts: Ints, allowed: Bools | None, excess: Excess) -> Explanation:
        """The queue (or one above it) is at its ceiling."""
        branch, missing = excess.branch, excess.missing
        if excess.kept:
            return self.ceilings.kept_by_others(turn, branch, missing)
        constraint = self.tree.ceiling_of(branch, missing)
        ceilings = dict(zip(self.measure.names, branch.ceiling.tolist(), strict=True))
        asked = dict(zip(self.measure.names, amounts.tolist(), strict=True))
        beyond = [name for name in missing if asked[name] > ceilings[name]]
        if beyond:
            missing = {name: asked[name] - ceilings[name] for name in beyond}
            at_most = {name: ceilings[name] for name in beyond}
            return Explanation(constraint=constraint, queue=branch.queue.name, missing=missing, at_most=at_most)
        helps = self._against_limit(turn, amounts, allowed, branch, missing)
        return self.ceilings.held_back(constraint, branch, missing, tuple(helps))

    def _against_limit(
        self, turn: Turn, amounts: Ints, allowed: Bools | None, branch: Branch, missing: dict[str, int]
    ) -> Iterator[str]:
        """What would let a gang of a queue at its ceiling start; each has been tried out."""
        above = turn.leaf.path[turn.leaf.path.index(branch) :]
        others = self.tree.over_ceiling(turn.leaf, amounts, {id(each): branch.used for each in above})
        below = {name for name, each in self.tree.branches.items() if branch in each.path} if branch.children else None
        fits = self._would_fit(turn.gang.demand, allowed)
        if others is None:
            gone = () if fits else self.reservations.departing(below or {branch.queue.name})
            if fits or self.reasons.would_fit_without(turn.gang, allowed, gone):
                yield f"It starts when jobs of queue '{branch.queue.name}' end."
        if fits:
            more = " and ".join(amount_text(name, amount) for name, amount in missing.items())
            yield f"It would start now if the queue were allowed {more} more."

    def _would_fit(self, demand: Demand, allowed: Bools | None) -> bool:
        """Whether there is room apart from limits: the same for all that ask for the same, until something starts."""
        if allowed is not None:
            return self.reservations.would_fit(demand, allowed)
        state = (id(demand), len(self.layouts), self.reservations.first)
        if state not in self._fits:
            self._fits[state] = self.reservations.would_fit(demand, None)
        return self._fits[state]

    def conclude(self) -> Decision:
        """Hand out the surplus and put everything together."""
        self.room.shrinks += scale_down(self.snapshot, self.room.busy())
        waiting = self.snapshot.waiting
        starting = [waiting[job_id] for job_id in self.layouts if waiting[job_id].demand.elastic]
        surplus = Surplus(self.reservations, self.tree, self.layouts)
        sizes = self._choose_sizes(surplus, starting)
        sized = () if sizes.plan is None else sizes.plan.sizes
        grows = surplus.hand_out([gang for gang in starting if gang.job.id not in sized], {*self.room.busy(), *sized})
        if self.reservations.first is None and len(surplus.claimants) > 1:
            self.room.shrinks += Balance(self.reservations, self.tree, surplus).shrinks()
        if self.unreached:
            self.wake.append(Timestamp(self.snapshot.now + AGAIN_SECONDS))
        settled = (Timestamp(at + SETTLING_SECONDS) for at in settling_of(self.snapshot).values())
        choice = next_choice(sizes, self.snapshot.now)
        wake = (
            *self.wake,
            *settled,
            *(() if choice is None else (choice,)),
            *(self.room.wakes() if self.explanations else ()),
        )
        table = self.snapshot.table
        return Decision(
            starts=tuple(
                Start(job_id=job_id, placement=placement_of(layout, table), gpu_slots=slots_of(layout))
                for job_id, layout in self.layouts.items()
            ),
            grows=(*sizes.grows, *grows),
            shrinks=tuple(self.room.shrinks),
            evictions=tuple(self.room.evictions),
            explanations=self.explanations,
            wake_at=min((at for at in wake if at > self.snapshot.now), default=None),
            memory=self._memory(sizes.plan),
        )

    def _choose_sizes(self, surplus: Surplus, starting: Sequence[Waiting]) -> Sizes:
        """What gangs give up and get that leave their size to the scheduler; nothing if there are none."""
        sizes = SizeChooser(self.reservations, self.tree, surplus, self.layouts).decide(starting, self.room.busy())
        self.room.shrinks += sizes.shrinks
        self.room.evictions += sizes.evictions
        for job_id in sizes.postponed:
            del self.layouts[job_id]
            self.explanations[job_id] = Explanation(
                constraint=Constraint.MAKING_ROOM, predicted_start_at=self.snapshot.now
            )
        return sizes

    def _memory(self, sizes: SizePlan | None) -> CycleMemory:
        named = {each.job_id for each in self.room.nominations} | self.layouts.keys()
        return CycleMemory(
            nominations=(*self.room.nominations, *(each for each in self.room.owed if each.job_id not in named)),
            reservation=self.reservations.reservation,
            unreached=frozenset(self.unreached),
            usage=self.usage,
            shrunk=settling_of(self.snapshot)
            | {each.job_id: self.snapshot.now for each in self.room.shrinks if each.beneficiary is not None},
            seen=with_started(self.seen, (self.snapshot.waiting[job_id].demand for job_id in self.layouts)),
            sizes=sizes,
            holdings=self.snapshot.holdings,
            needs=self.reservations.needs,
        )
