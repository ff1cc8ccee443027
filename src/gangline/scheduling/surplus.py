"""What is left over once everybody has their minimum: elastic gangs grow into it, and shrink when asked to."""

from collections.abc import Collection, Iterator
from itertools import zip_longest

import numpy as np

from gangline.model import JobId, NodeName, ReplicaId, RoleName
from gangline.scheduling.bonds import Together
from gangline.scheduling.decision import Grow, Shrink
from gangline.scheduling.devices import CLOSED
from gangline.scheduling.domains import Seated, both, for_role
from gangline.scheduling.holdings import Held, Waiting, age_of
from gangline.scheduling.layout import Layout, Seats
from gangline.scheduling.line import Line, Turn
from gangline.scheduling.quota import QueueTree
from gangline.scheduling.reservation import Floor
from gangline.scheduling.shapes import Demand, RoleDemand
from gangline.scheduling.snapshot import Snapshot
from gangline.scheduling.table import GPU, Bools


def scale_down(snapshot: Snapshot, busy: Collection[JobId]) -> Iterator[Shrink]:
    """Take from every gang what it has beyond what its user wants, the highest indexes first."""
    for gang in snapshot.holdings.resizable:
        job_id = gang.job.id
        if job_id in busy:
            continue
        removed = tuple(
            ReplicaId(role.role, index)
            for role in gang.demand.roles
            for index in sorted(gang.role(role.role).indexes, reverse=True)[: _beyond(gang, role)]
        )
        if removed:
            yield Shrink(job_id=job_id, removed=removed, beneficiary=None, reason="scaled down by its user")


class Surplus:
    """Hands out what is left, queue by queue as the line goes, to gangs that start now and to gangs that run."""

    def __init__(self, floor: Floor, tree: QueueTree, started: dict[JobId, Layout]) -> None:
        self._floor = floor
        self._tree = tree
        self._snapshot = floor.snapshot
        self._started = started

    def hand_out(self, starting: Collection[Waiting], busy: Collection[JobId]) -> tuple[Grow, ...]:
        """Extend the layouts of starting gangs in place; return how running ones grow."""
        running = [
            Waiting(job=gang.job, demand=gang.demand, age=age_of(gang.job))
            for gang in self._snapshot.holdings.resizable
            if gang.job.id not in busy and self._short(gang)
        ]
        if not starting and not running:
            return ()
        line = Line(self._tree, self._floor.policies, self._snapshot.now)
        line.fill([*starting, *running])
        grows = []
        for turn in line:
            if turn.gang.job.id in self._started:
                self._complete(turn)
            else:
                grow = self._grow(turn, self._snapshot.held[turn.gang.job.id])
                if grow.added:
                    grows.append(grow)
            line.served(turn.leaf)
        return tuple(grows)

    def _short(self, gang: Held) -> bool:
        """Whether a running gang has fewer replicas than it wants, and may have more."""
        return gang.job.spec.queue in self._tree.branches and any(
            role.wanted > len(gang.present(role.role)) for role in gang.demand.roles
        )

    def _complete(self, turn: Turn) -> None:
        """Bring a gang that starts now from its minimum towards what it wants."""
        layout = list(self._started[turn.gang.job.id])
        seated: dict[RoleName, list[int]] = {role.role: [] for role in turn.gang.demand.roles}
        for seats in layout:
            seated[seats.role.role] += seats.each()
        for role in turn.gang.demand.roles:
            layout.extend(self._extend(turn, role, role.wanted - role.least, seated))
        self._started[turn.gang.job.id] = tuple(layout)

    def _grow(self, turn: Turn, gang: Held) -> Grow:
        added: dict[ReplicaId, NodeName] = {}
        slots: dict[ReplicaId, int] = {}
        seated = {role.role: list(role.rows) for role in gang.roles}
        for role in turn.gang.demand.roles:
            if not gang.job.spec.role(role.role).elastic:
                continue
            present = gang.present(role.role)
            free = (index for index in range(role.wanted) if index not in present)
            for seats in self._extend(turn, role, role.wanted - len(present), seated):
                for row, slot in zip_longest(seats.each(), seats.slots, fillvalue=CLOSED):
                    replica = ReplicaId(role.role, next(free))
                    added[replica] = self._snapshot.table.names[row]
                    if slot != CLOSED:
                        slots[replica] = slot
        return Grow(job_id=gang.job.id, added=added, gpu_slots=slots)

    def _extend(self, turn: Turn, role: RoleDemand, count: int, seated: dict[RoleName, list[int]]) -> Iterator[Seats]:
        """Seats for up to ``count`` more, beside the gang's replicas first; ``seated`` learns of them."""
        inside = both(self._inside(turn.gang.demand, role, seated), self._suited(turn, role))
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
        row = self._floor.needs.of(role.shape).row
        count = min(count, self._tree.headroom(turn.leaf, row))
        mask = both(allowed, self._tree.open_types(turn.leaf, int(row[GPU])))
        seats = self._floor.extend(role, count, turn.gang.demand, mask, seated) if count > 0 else None
        if seats is not None:
            self._tree.book_seats(turn.leaf, row, list(seats.each()))
            seated[role.role] += seats.each()
            self._floor.neighbours.settle(turn.gang, (seats,))
        return seats

    def _suited(self, turn: Turn, role: RoleDemand) -> Bools | None:
        """Nodes whose replicas suit the gang's."""
        return for_role(self._floor.neighbours.allowed(turn.gang), turn.gang.demand, role)

    def _inside(self, demand: Demand, role: RoleDemand, seated: Seated) -> Bools | None:
        """Who must lie in one domain with others of the gang grows there or not at all."""
        groups = [group for group in demand.together if role.role in group.roles]
        if demand.within is not None and demand.within_required:
            groups.append(Together(demand.within, frozenset(each.role for each in demand.roles)))
        mask: Bools | None = None
        for group in groups:
            rows = [row for name in group.roles for row in seated.get(name, ())]
            domains = self._snapshot.table.level(group.level)
            mask = both(mask, np.asarray(domains.ids == domains.ids[rows[0]])) if rows else mask
        return mask


def _beyond(gang: Held, role: RoleDemand) -> int:
    return max(len(gang.role(role.role).indexes) - role.wanted, 0)
