"""Gangs whose size the scheduler chooses (``policy: {replicas: auto}``): chooses it, and brings them to it.

Everybody's minimum has been settled by the line before; what is chosen here is who gets how much beyond. A choice holds
for a while (``ROUND_SECONDS``) unless somebody comes or goes. Who has too much gives it up first; who has too little
grows once there is room for all that it is to get, so that every gang changes once.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd

import numpy as np

from gangline.allocation.sizes import JOINING_SECONDS, RESTART_SECONDS, Candidate
from gangline.model import Framework, Job, JobId, Phase, ReplicaId, ReplicaState, RoleName, Timestamp
from gangline.model.jobs.spec import SERVICE_ROLES, Sizing
from gangline.scheduling.cycle_memory import SizePlan
from gangline.scheduling.decision import Eviction, Grow, Shrink
from gangline.scheduling.demand.shapes import Demand, RoleDemand, Shape
from gangline.scheduling.gangs.holdings import Held, Waiting, age_of
from gangline.scheduling.nodes.draft import Need
from gangline.scheduling.placement.layout import Layout
from gangline.scheduling.placement.placer import Shortfall
from gangline.scheduling.preemption.reservation import Reservations
from gangline.scheduling.queues.quota import QueueTree
from gangline.scheduling.surplus import Claimant, Surplus

ROUND_SECONDS = 60.0
"""How long a choice of sizes holds while nobody comes or goes."""
LOOK_SECONDS = 5.0
"""How often a gang is looked at that has not been measured at its present size."""
PATIENCE_SECONDS = 60.0
"""How long a gang that could start waits for the place of its size to be given up; then it starts with its minimum."""
WORTH_MOVING = 1.1
"""A gang is stopped and started elsewhere if it is so many times as fast there as where it could grow."""


def sized_role(job: Job, demand: Demand) -> RoleDemand | None:
    """The role whose replicas the scheduler counts out; None if the user does. A user's scale is a word of his own."""
    if job.spec.policy.replicas is not Sizing.AUTO or job.scale:
        return None
    open_to = [role for role in demand.roles if role.most > role.least and role.name not in SERVICE_ROLES]
    return open_to[0] if len(open_to) == 1 and open_to[0].role == open_to[0].name else None


@dataclass(slots=True)
class _Sized:
    """One gang that takes part."""

    gang: Waiting
    role: RoleDemand
    need: Need
    held: Held | None = None
    layout: Layout = ()
    present: int = 0
    free: bool = True

    @property
    def id(self) -> JobId:
        return self.gang.job.id


@dataclass(slots=True)
class Outcome:
    """What the choice of sizes comes to in this cycle."""

    plan: SizePlan | None = None
    shrinks: list[Shrink] = field(default_factory=list)
    grows: list[Grow] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    postponed: list[JobId] = field(default_factory=list)
    """Gangs that could start but wait for the place of their size."""

    @property
    def gives_up(self) -> bool:
        """Whether somebody gives something up, so that there is more room in a moment."""
        return bool(self.shrinks or self.evictions)


class SizeChooser:
    """One cycle's sizes."""

    def __init__(
        self, reservations: Reservations, tree: QueueTree, surplus: Surplus, started: dict[JobId, Layout]
    ) -> None:
        self._reservations = reservations
        self._tree = tree
        self._surplus = surplus
        self._started = started
        self._snapshot = reservations.snapshot
        self._now = reservations.snapshot.now
        self._policy = reservations.policies.sizes

    def decide(self, starting: Collection[Waiting], busy: Collection[JobId]) -> Outcome:
        """Choose, and say what follows now. Layouts of starting gangs are replaced in place."""
        members = [*self._running(busy), *self._starting(starting)]
        if not members:
            return Outcome()
        outcome = Outcome(plan=self._plan(members, busy))
        assert outcome.plan is not None
        targets = outcome.plan.sizes
        for each in members:
            if each.held is not None and each.free and each.present > targets.get(each.id, each.present):
                outcome.shrinks.append(self._shrink(each, targets[each.id]))
        for each in members:
            wanted = targets.get(each.id, each.present)
            if each.held is None:
                self._start(each, wanted, outcome)
            elif each.free and each.present < wanted:
                self._grow(each, wanted, outcome)
        return outcome

    # Who takes part ------------------------------------------------------------------------------------------

    def _running(self, busy: Collection[JobId]) -> Iterator[_Sized]:
        for held in self._snapshot.holdings.resizable:
            role = sized_role(held.job, held.demand)
            if role is None or held.job.spec.queue not in self._tree.branches:
                continue
            gang = Waiting(job=held.job, demand=held.demand, age=age_of(held.job))
            settled = held.job.phase is Phase.PROCESSING and all(
                status.state is not ReplicaState.PENDING for status in held.job.replicas
            )
            yield _Sized(
                gang=gang,
                role=role,
                need=self._reservations.needs.of(role.shape),
                held=held,
                present=len(held.present(role.role)),
                free=settled and held.job.id not in busy,
            )

    def _starting(self, starting: Collection[Waiting]) -> Iterator[_Sized]:
        for gang in starting:
            role = sized_role(gang.job, gang.demand)
            if role is not None:
                need = self._reservations.needs.of(role.shape)
                yield _Sized(gang=gang, role=role, need=need, layout=self._started[gang.job.id])

    # The choice ----------------------------------------------------------------------------------------------

    def _plan(self, members: Sequence[_Sized], busy: Collection[JobId]) -> SizePlan:
        known = self._snapshot.memory.sizes
        going = {
            held.job.id
            for held in self._snapshot.holdings.releasing
            if known is not None and held.job.requeue and held.job.id in known.sizes
        }
        held = self._snapshot.held
        present = frozenset((each.id, _tried(each.gang.job)) for each in members)
        present |= frozenset((job_id, _tried(held[job_id].job)) for job_id in going)
        if known is not None and known.members == present and self._now - known.at < ROUND_SECONDS:
            return known
        sizes: dict[JobId, int] = {job_id: known.sizes[job_id] for job_id in going} if known is not None else {}
        by_kind: dict[bool, list[_Sized]] = defaultdict(list)
        for each in members:
            by_kind[each.role.shape.whole_gpus > 0].append(each)
        for gpus, group in by_kind.items():
            sizes |= self._choose(group, gpus=gpus)
        since = self._now if known is None else known.since
        return SizePlan(at=self._now, since=since, members=present, sizes=sizes)

    def _choose(self, group: Sequence[_Sized], *, gpus: bool) -> Mapping[JobId, int]:
        """Choose among gangs that compete for the same resource; the most important ones first."""
        amounts = [_amount(each.role.shape, gpus=gpus) for each in group]
        unit = gcd(*amounts) or 1
        units = {each.id: max(amount // unit, 1) for each, amount in zip(group, amounts, strict=True)}
        draft = self._reservations.open.draft
        needs = {id(each.need): (each.need, units[each.id]) for each in group}
        capacity = max(int(draft.counts(need).sum()) * size for need, size in needs.values())
        # A gang that starts has its minimum already.
        capacity += sum((each.present if each.held is not None else each.role.least) * units[each.id] for each in group)
        sizes: dict[JobId, int] = {}
        floor = sum((each.role.least if each.free else each.present) * units[each.id] for each in group)
        for priority in sorted({each.gang.job.spec.priority for each in group}, reverse=True):
            equals = [each for each in group if each.gang.job.spec.priority == priority]
            least = sum((each.role.least if each.free else each.present) * units[each.id] for each in equals)
            floor -= least
            candidates = [self._candidate(each, units[each.id]) for each in equals]
            chosen = self._policy.sizes(candidates, max(capacity - floor, least))
            sizes |= {each.id: chosen.get(each.id, max(each.present, each.role.least)) for each in equals}
            capacity -= sum(sizes[each.id] * units[each.id] for each in equals)
        return sizes

    def _candidate(self, each: _Sized, units: int) -> Candidate:
        job = each.gang.job
        leaf = self._tree.branches[job.spec.queue]
        has = each.present if each.held is not None else each.role.least
        most = max(min(each.role.most, has + self._tree.headroom(leaf, each.need.row)), has)
        if each.held is not None:
            most = int(min(most, self._most_unheard(each)))
        servers = sum(status.id.role == "ps" for status in job.replicas) or sum(
            role.replicas for role in job.spec.roles if role.name == "ps"
        )
        return Candidate(
            name=job.id,
            least=each.role.least,
            most=most,
            limit=each.role.most,
            present=each.present,
            units=units,
            per_node=self._per_node(each.need),
            servers=servers,
            record=job.speed,
            changes=job.attempt + job.incarnations,
            age_seconds=max(self._now - (job.started_at or self._now), 0.0),
            free=each.free,
            restart_seconds=JOINING_SECONDS if job.spec.framework is Framework.PARAMETER_SERVER else RESTART_SECONDS,
        )

    def _most_unheard(self, each: _Sized) -> float:
        """The most for a gang that tells nothing any more: what it told before counts no longer, so it has its least.

        One that was started or changed a moment ago may still tell something, and keeps what it has until then.
        """
        job, plan = each.gang.job, self._snapshot.memory.sizes
        if job.speed is None or plan is None:
            return math.inf
        heard, patience = max(job.speed.measured_at or 0.0, plan.since), job.speed.patience
        if self._now - heard < patience:
            return math.inf
        changed = max((status.started_at or 0.0 for status in job.replicas), default=0.0)
        return each.present if self._now - changed < patience else each.role.least

    def _per_node(self, need: Need) -> int:
        table = self._snapshot.table
        rooms = [table.capacity[:, column] // amount for column, amount in zip(need.columns, need.amounts, strict=True)]
        return int(np.where(need.allowed, np.min(rooms, axis=0), 0).max(initial=1)) if rooms else 1

    # What follows --------------------------------------------------------------------------------------------

    def _shrink(self, each: _Sized, target: int) -> Shrink:
        """Let those go first that are alone on their node; the first of a role stays, it often leads the others."""
        assert each.held is not None
        role = each.held.role(each.role.role)
        beside = Counter(role.rows)
        members = sorted(
            zip(role.indexes, role.rows, strict=True), key=lambda at: (at[0] == 0, beside[at[1]], at[1], -at[0])
        )
        removed = tuple(ReplicaId(each.role.name, index) for index, _ in members[: each.present - target])
        reason = f"{target} replicas are what it makes best use of beside others"
        if self._most_unheard(each) <= target:
            reason = "it has not reported its progress for a long time"
        return Shrink(job_id=each.id, removed=removed, beneficiary=None, reason=reason)

    def _grow(self, each: _Sized, target: int, outcome: Outcome) -> None:
        assert each.held is not None
        if self._room(each) < target - each.present:
            if outcome.gives_up:
                return  # those give up room for it; the next cycle sees it
            target = each.present + self._room(each)
            if target <= each.present:
                return
        if self._should_move(each, target):
            reason = f"it goes on with {target} replicas that lie on fewer nodes"
            outcome.evictions.append(Eviction(job_id=each.id, beneficiary=None, reason=reason))
            return
        amounts = each.held.amounts
        claimant = Claimant(self._surplus.turn_of(each.gang), each.held, (), amounts)
        claimant.gained = list(self._surplus.seats(claimant.turn, each.role, target - each.present, claimant.seated))
        if claimant.gained:
            outcome.grows.append(self._surplus.grow(claimant))

    def _room(self, each: _Sized) -> int:
        return int(self._reservations.open.draft.counts(each.need).sum())

    def _should_move(self, each: _Sized, target: int) -> bool:
        """Whether it would be much faster elsewhere than where it could grow."""
        assert each.held is not None
        record, demand = each.gang.job.speed, each.gang.demand
        if record is None or not demand.plain or not each.gang.job.spec.policy.preemptible:
            return False
        placer = self._reservations.open
        draft = placer.draft
        rows = each.held.role(each.role.role).rows
        mark = draft.mark()
        seats = placer.extend(each.role, target - each.present, demand, None, {each.role.role: list(rows)})
        here = len({*rows, *(seats.each() if seats is not None else ())})
        draft.undo(mark)
        if here <= -(-target // self._per_node(each.need)):
            return False
        mark = draft.mark()
        draft.release(each.need, rows)
        found = placer.place(_of_size(demand, target))
        there = here if isinstance(found, Shortfall) else len({row for part in found for row in part.each()})
        draft.undo(mark)
        if there >= here:
            return False
        candidate = self._candidate(each, 1)
        curve = candidate.curve
        return (
            curve is not None
            and curve.at(target, nodes=there).speed >= WORTH_MOVING * curve.at(target, nodes=here).speed
        )

    def _start(self, each: _Sized, target: int, outcome: Outcome) -> None:
        """Give a gang that starts its size at once, on as few nodes as it can have; or wait a moment for its place."""
        turn = self._surplus.turn_of(each.gang)
        more = min(target - each.role.least, self._tree.headroom(turn.leaf, each.need.row))
        if more <= 0:
            return
        lone = self._reservations.undivided and each.gang.demand.plain and not self._tree.typed and not each.need.part
        if not lone:
            seated: dict[RoleName, list[int]] = {role.role: [] for role in each.gang.demand.roles}
            for seats in each.layout:
                seated[seats.role.role] += seats.each()
            gained = self._surplus.seats(turn, each.role, more, seated)
            self._started[each.id] = (*each.layout, *gained)
            return
        placer = self._reservations.now
        rows = [row for seats in each.layout for row in seats.each()]
        placer.draft.release(each.need, rows)
        room = int(placer.draft.counts(each.need).sum())
        assert outcome.plan is not None
        if room < each.role.least + more and outcome.gives_up and self._now - outcome.plan.at < PATIENCE_SECONDS:
            outcome.postponed.append(each.id)
            return
        count = min(each.role.least + more, room)
        found = placer.place(_of_size(each.gang.demand, count))
        assert not isinstance(found, Shortfall)  # there is room for as many
        self._tree.book(turn.leaf, self._tree.measure.of_count(each.need.row, count - each.role.least))
        self._started[each.id] = tuple(seats._replace(role=each.role) for seats in found)


def _of_size(demand: Demand, count: int) -> Demand:
    """A gang of one role with a fixed number of replicas."""
    return replace(demand, roles=(replace(demand.roles[0], least=count, wanted=count, extra=0),))


def _tried(job: Job) -> int:
    return 0 if job.speed is None else job.speed.largest_tried


def next_choice(outcome: Outcome, now: Timestamp) -> Timestamp | None:
    """When sizes are looked at again though nothing else happens: soon while a gang has yet to show its new size."""
    if outcome.plan is None:
        return None
    unseen = any(tried < outcome.plan.sizes.get(job_id, 0) for job_id, tried in outcome.plan.members)
    return Timestamp(min(outcome.plan.at + ROUND_SECONDS, now + LOOK_SECONDS if unseen else math.inf))


def _amount(shape: Shape, *, gpus: bool) -> int:
    return shape.whole_gpus if gpus else max(shape.amount("cpu_millis"), 1)
