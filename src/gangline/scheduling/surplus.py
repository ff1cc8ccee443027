"""What is left over once everybody has their minimum: elastic gangs grow into it, and shrink when asked to."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import zip_longest

import numpy as np

from gangline.model import JobId, NodeName, Phase, QueueName, ReplicaId, RoleName, Timestamp
from gangline.scheduling.decision import Grow, Shrink
from gangline.scheduling.demand.shapes import Demand, RoleDemand
from gangline.scheduling.gangs.holdings import Held, Waiting, age_of
from gangline.scheduling.nodes.devices import CLOSED
from gangline.scheduling.nodes.domains import Seated, both, for_role
from gangline.scheduling.nodes.draft import MANY
from gangline.scheduling.nodes.table import GPU, Bools, Ints
from gangline.scheduling.placement.layout import Layout, Seats
from gangline.scheduling.preemption.reservation import Reservations
from gangline.scheduling.queues.ordering import Turn, WaitingLine
from gangline.scheduling.queues.quota import QueueTree, is_fixed
from gangline.scheduling.snapshot import Snapshot


def scale_down(snapshot: Snapshot, busy: Collection[JobId]) -> Iterator[Shrink]:
    """Take from every gang what it has beyond what its user wants, the highest indexes first."""
    for gang in snapshot.holdings.resizable:
        job_id = gang.job.id
        if job_id in busy:
            continue
        removed = tuple(
            ReplicaId(role.name, index)
            for role in gang.demand.roles
            for index in sorted(gang.role(role.role).indexes, reverse=True)[: _beyond(gang, role)]
        )
        if removed:
            yield Shrink(job_id=job_id, removed=removed, beneficiary=None, reason="scaled down by its user")


SETTLING_SECONDS = 60.0
"""For this long a gang that made room for another does not grow beyond what it wants again: every change of size costs
its training time, and where short jobs come one after the other it would do nothing else."""


class Claimant:
    """An elastic gang that takes part: what it has, and what it gets; ``settling`` if it made room a moment ago."""

    def __init__(self, turn: Turn, held: Held | None, layout: Layout, amounts: Ints, *, settling: bool = False) -> None:
        self.turn = turn
        self.settling = settling
        self.held = held
        self.amounts = amounts
        self.gained: list[Seats] = []
        self.seated: dict[RoleName, list[int]] = {role.role: [] for role in turn.gang.demand.roles}
        for seats in layout:
            self.seated[seats.role.role] += seats.each()
        for role in held.roles if held is not None else ():
            self.seated[role.role] += role.rows
        self.count = {
            name: len(rows) if held is None else len(held.present(name)) for name, rows in self.seated.items()
        }
        self.full: set[RoleName] = set()
        """Roles for which there is no room."""
        spec = turn.gang.job.spec
        importance = {role.name: spec.priority_of(role) for role in spec.roles}
        self._roles = sorted(turn.gang.demand.roles, key=lambda role: -importance[role.name])

    def lacking(self, role: RoleDemand, *, beyond: bool) -> int:
        """How many more replicas of a role it wants, or (``beyond``) can use. A role of a running gang may be rigid.

        What a gang can do without comes once it runs: a cluster's quota may refuse it, and that must not make it fail.
        """
        if beyond and (self.settling or self.held is None or self.held.job.phase is not Phase.PROCESSING):
            return 0
        if self.held is not None and not self.held.job.spec.role(role.name).elastic:
            return 0
        return max((role.most if beyond else role.wanted) - self.count[role.role], 0)

    def next_role(self, *, beyond: bool) -> RoleDemand | None:
        """The role that gets the next replica: the most important; of its groups, the one that has fewest."""
        open_to = [role for role in self._roles if role.role not in self.full and self.lacking(role, beyond=beyond)]
        if not open_to or open_to[0].role == open_to[0].name:
            return open_to[0] if open_to else None
        groups = (role for role in open_to if role.name == open_to[0].name)
        return min(groups, key=lambda role: self.count[role.role])


def settling_of(snapshot: Snapshot) -> dict[JobId, Timestamp]:
    """The gangs that made room for others a moment ago, and when that was."""
    known = snapshot.memory.shrunk.items()
    return {job_id: at for job_id, at in known if snapshot.now - at < SETTLING_SECONDS and job_id in snapshot.held}


class Surplus:
    """Hands out what is left to gangs that start now and to gangs that run.

    One replica at a time: to the queue whose turn it is, there to the most important gangs, of those to whoever has
    least. First everybody gets what it wants; what is left then goes to those who can use more.
    """

    def __init__(self, reservations: Reservations, tree: QueueTree, started: dict[JobId, Layout]) -> None:
        self._reservations = reservations
        self._tree = tree
        self._snapshot = reservations.snapshot
        self._started = started
        self._settling = settling_of(self._snapshot)
        self.claimants: dict[JobId, Claimant] = {}

    def hand_out(self, starting: Collection[Waiting], busy: Collection[JobId]) -> tuple[Grow, ...]:
        """Extend the layouts of starting gangs in place; return how running ones grow."""
        for gang in starting:
            layout = self._started[gang.job.id]
            self._let_in(gang, None, layout, self._tree.measure.of_amounts(gang.demand.total()))
        for held in self._snapshot.holdings.resizable:
            if held.job.id not in busy and held.job.spec.queue in self._tree.branches:
                self._let_in(Waiting(job=held.job, demand=held.demand, age=age_of(held.job)), held, (), held.amounts)
        for beyond in (False, True):
            self._share(beyond=beyond)
        for job_id, claimant in self.claimants.items():
            if claimant.held is None:
                self._started[job_id] = (*self._started[job_id], *claimant.gained)
        growing = [each for each in self.claimants.values() if each.held is not None and each.gained]
        return tuple(self.grow(each) for each in growing)

    def turn_of(self, gang: Waiting) -> Turn:
        """The gang as its queue has it."""
        rank = self._reservations.policies.job_order.rank(gang.job, self._snapshot.now)
        return Turn(gang, self._tree.branches[gang.job.spec.queue], rank)

    def _let_in(self, gang: Waiting, held: Held | None, layout: Layout, amounts: Ints) -> None:
        settling = gang.job.id in self._settling
        self.claimants[gang.job.id] = Claimant(self.turn_of(gang), held, layout, amounts, settling=settling)

    def _share(self, *, beyond: bool) -> None:
        by_queue: dict[QueueName, list[Claimant]] = defaultdict(list)
        for claimant in self.claimants.values():
            if claimant.next_role(beyond=beyond) is not None:
                by_queue[claimant.turn.leaf.queue.name].append(claimant)
        line = WaitingLine(self._tree, self._reservations.policies, self._snapshot.now)
        alone = len(by_queue) == 1
        line.follow({name: self._in_turn(each, beyond=beyond, alone=alone) for name, each in by_queue.items()})
        for turn in line:
            line.served(turn.leaf)

    def _in_turn(self, members: Sequence[Claimant], *, beyond: bool, alone: bool) -> Iterator[Turn]:
        """Let the gangs of a queue grow, whoever has least first; a queue that is ``alone`` in larger steps."""
        key, now = self._reservations.policies.job_order.key, self._snapshot.now
        ages = [(*key(each.turn.gang.job, now), *each.turn.gang.age) for each in members]
        heap = [(each.turn.rank, self._tree.part(each.amounts), ages[n], n) for n, each in enumerate(members)]
        heapify(heap)
        while heap:
            rank, part, age, number = heappop(heap)
            claimant = members[number]
            # Whose turn it is among the queues is settled before it gets anything.
            yield claimant.turn
            count = 1
            if alone:
                step = self._step(claimant, beyond=beyond)
                rivals = heap and heap[0][0] == rank
                count = max(int((heap[0][1] - part) / step), 1) if rivals and step else 1 if rivals else MANY
            if self._extend(claimant, count, beyond=beyond):
                heappush(heap, (rank, self._tree.part(claimant.amounts), age, number))

    def _step(self, claimant: Claimant, *, beyond: bool) -> float:
        role = claimant.next_role(beyond=beyond)
        if role is None:
            return 0.0
        return self._tree.part(self._tree.measure.of_count(self._reservations.needs.of(role.shape).row, 1))

    def _extend(self, claimant: Claimant, count: int, *, beyond: bool) -> bool:
        """Give a gang up to ``count`` more replicas of the next role that has room; False when none has."""
        while (role := claimant.next_role(beyond=beyond)) is not None:
            row = self._reservations.needs.of(role.shape).row
            some = min(count, claimant.lacking(role, beyond=beyond))
            found = list(self.seats(claimant.turn, role, some, claimant.seated))
            if found:
                claimant.gained += found
                got = sum(int(seats.counts.sum()) for seats in found)
                claimant.count[role.role] += got
                claimant.amounts = claimant.amounts + self._tree.measure.of_count(row, got)
                return True
            claimant.full.add(role.role)
        return False

    def grow(self, claimant: Claimant) -> Grow:
        """Number the replicas that a running gang gets."""
        gang = claimant.held
        assert gang is not None
        added: dict[ReplicaId, NodeName] = {}
        slots: dict[ReplicaId, int] = {}
        free = {role.role: self._free_indexes(gang, role) for role in gang.demand.roles}
        for seats in claimant.gained:
            for row, slot in zip_longest(seats.each(), seats.slots, fillvalue=CLOSED):
                replica = ReplicaId(seats.role.name, next(free[seats.role.role]))
                added[replica] = self._snapshot.table.names[row]
                if slot != CLOSED:
                    slots[replica] = slot
        return Grow(job_id=gang.job.id, added=added, gpu_slots=slots)

    def _free_indexes(self, gang: Held, role: RoleDemand) -> Iterator[int]:
        present = gang.present(role.role)
        return (index for index in range(role.first, role.first + role.most) if index not in present)

    def seats(self, turn: Turn, role: RoleDemand, count: int, seated: dict[RoleName, list[int]]) -> Iterator[Seats]:
        """Seats for up to ``count`` more, beside the gang's replicas first; ``seated`` learns of them."""
        inside = self.may_grow_on(turn, role, seated)
        beside = np.zeros(len(self._snapshot.table), dtype=np.bool_)
        beside[[row for rows in seated.values() for row in rows]] = True
        for allowed in (beside if inside is None else beside & inside, inside):
            # Where GPUs are counted by type, every replica may be the last that its type is open to.
            for _ in range(count if self._tree.typed else min(count, 1)):
                seats = self._extend_once(turn, role, 1 if self._tree.typed else count, allowed, seated)
                if seats is None:
                    break
                count -= int(seats.counts.sum())
                yield seats

    def _extend_once(
        self, turn: Turn, role: RoleDemand, count: int, allowed: Bools | None, seated: dict[RoleName, list[int]]
    ) -> Seats | None:
        """Seats for up to ``count`` more on some nodes, as far as the queues above allow."""
        row = self._reservations.needs.of(role.shape).row
        fixed = self._tree.fixes and is_fixed(turn.gang.job)
        count = min(count, self._tree.headroom(turn.leaf, row, fixed=fixed))
        mask = both(allowed, self._tree.open_types(turn.leaf, turn.gang.job, int(row[GPU])))
        seats = self._reservations.extend(role, count, turn.gang.demand, mask, seated) if count > 0 else None
        if seats is not None:
            amounts = self._tree.book_seats(turn.leaf, row, list(seats.each()))
            if fixed:
                self._tree.fix(turn.leaf, amounts)
            seated[role.role] += seats.each()
            self._reservations.affinity.settle(turn.gang, (seats,))
        return seats

    def may_grow_on(self, turn: Turn, role: RoleDemand, seated: Seated) -> Bools | None:
        """Nodes on which a gang may have more replicas of a role, whatever is free there."""
        return both(self._inside(turn.gang.demand, role, seated), self._suited(turn, role))

    def _suited(self, turn: Turn, role: RoleDemand) -> Bools | None:
        """Nodes whose replicas suit the gang's."""
        return for_role(self._reservations.affinity.allowed(turn.gang), turn.gang.demand, role)

    def _inside(self, demand: Demand, role: RoleDemand, seated: Seated) -> Bools | None:
        """Who must lie in one domain with others of the gang grows there or not at all."""
        groups = [group for group in demand.together if group.required and role.role in group.roles]
        mask: Bools | None = None
        for group in groups:
            rows = [row for name in group.roles for row in seated.get(name, ())]
            domains = self._snapshot.table.level(group.level)
            mask = both(mask, np.asarray(domains.ids == domains.ids[rows[0]])) if rows else mask
        return mask


def _beyond(gang: Held, role: RoleDemand) -> int:
    return max(len(gang.role(role.role).indexes) - role.most, 0)
