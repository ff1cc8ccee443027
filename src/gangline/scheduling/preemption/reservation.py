"""The places that are kept during one cycle, and what may go ahead of them (backfill).

Three views of the free amounts are kept: *now*; *soon*, when all are gone who leave or are being stopped, less the
places promised to gangs for which they are; and *later*, when the first in line will start, less its place too. A gang
that has promised to end before that is placed in what the first two have in common, every other one in what all have.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gangline.model import JobId, NodeName, QueueName, Timestamp
from gangline.scheduling.affinity.between_gangs import InterGangAffinity
from gangline.scheduling.cycle_memory import Reservation
from gangline.scheduling.demand.shapes import Demand, RoleDemand
from gangline.scheduling.gangs.forecast import ends_by, waiting_since
from gangline.scheduling.gangs.holdings import Held, Waiting
from gangline.scheduling.nodes.domains import Seated, both
from gangline.scheduling.nodes.draft import Draft
from gangline.scheduling.nodes.table import Bools, Ints
from gangline.scheduling.placement.joint_fit import Effort
from gangline.scheduling.placement.layout import Layout, Seats, book
from gangline.scheduling.placement.placer import Needs, Placer, Shortfall
from gangline.scheduling.policies import Policies
from gangline.scheduling.preemption.clearing import Clearing
from gangline.scheduling.preemption.departures import Departure, departures, ends, vacate
from gangline.scheduling.preemption.victims import Unit
from gangline.scheduling.queues.ordering import Turn
from gangline.scheduling.snapshot import Snapshot

NO_ROWS: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Found:
    """When the first in line will fit, where, who is gone by then, and what is left."""

    at: Timestamp
    draft: Draft
    layout: Layout
    gone: set[JobId]


class Reservations:
    """Where gangs are placed during one cycle."""

    def __init__(self, snapshot: Snapshot, policies: Policies) -> None:
        self.snapshot = snapshot
        self.policies = policies
        known = snapshot.memory.needs
        self.needs = known if known and known.serve(snapshot.table, policies) else Needs(snapshot.table, policies)
        self.needs.effort = Effort()
        self.now = Placer(snapshot.draft(), self.needs, policies)
        self.affinity = InterGangAffinity(snapshot)
        self.leaving: dict[JobId, Held] = {held.job.id: held for held in snapshot.holdings.releasing}
        """Gangs that are on their way out, or will be once the cycle is over."""
        self.reserved: Turn | None = None
        self.at: Timestamp | None = None
        """When the first in line will start."""
        self._place: tuple[NodeName, ...] = ()
        self._promised: list[JobId] = []
        self._started: list[tuple[Waiting, Layout]] = []
        self._by_queue: dict[QueueName, list[tuple[Waiting, Layout]]] = {}
        self._soon: Placer | None = None
        self._later: Draft | None = None
        self._beside: Placer | None = None
        self._open: Placer | None = None
        self._cleared: Placer | None = None
        self._closed: Bools | None = None
        self._by_end: list[Departure] | None = None
        self._gone: set[JobId] = set()
        """Gangs whose machines count as free later."""

    @property
    def first(self) -> JobId | None:
        """The first for whom a place is kept."""
        return self.reserved.gang.job.id if self.reserved else next(iter(self._promised), None)

    @property
    def undivided(self) -> bool:
        """Whether no place is kept for anybody, so that there is but one view of what is free."""
        return self._soon is None and self._later is None and self._closed is None

    @property
    def open(self) -> Placer:
        """Where a gang is placed that has promised nothing: beside all places that are kept."""
        return self._open or self._beside or self.now

    def place(self, gang: Waiting, allowed: Bools | None = None) -> Layout | Shortfall:
        """Give a gang its place if it fits and does not delay the first in line."""
        if self._soon is None and self._later is None:
            return self.now.place(gang.demand, allowed)
        in_time = self.at is not None and ends_by(gang, self.snapshot.now, self.at)
        placer = (self._beside or self.now) if in_time else self.open
        found = placer.place(gang.demand, self.still_open(allowed))
        return found if isinstance(found, Shortfall) else self._settle(found, placer, in_time=in_time)

    def extend(
        self, role: RoleDemand, count: int, demand: Demand, allowed: Bools | None, seated: Seated
    ) -> Seats | None:
        """Give a gang up to ``count`` more replicas of a role out of what nobody waits for."""
        placer = self.open
        seats = placer.extend(role, count, demand, self.still_open(allowed), seated)
        if seats is None or (self._soon is None and self._later is None):
            return seats
        return self._settle((seats,), placer, in_time=False)[0]

    def still_open(self, allowed: Bools | None) -> Bools | None:
        """Of the allowed nodes, those that the first in line has not closed to everybody behind it."""
        if self._closed is None:
            return allowed
        return ~self._closed if allowed is None else allowed & ~self._closed

    @property
    def guarded(self) -> bool:
        """Whether the first in line has closed nodes to everybody behind it."""
        return self._closed is not None

    def clearing(self, *, reserved: bool = True) -> Clearing:
        """Where room is sought for somebody behind the first in line; or, not ``reserved``, as if that one were not."""
        if self._soon is None:
            soon = self.now.draft.copy()
            self._release(soon, self.leaving.values())
            if self._later is not None:
                self._release(self._later, [held for name, held in self.leaving.items() if name not in self._gone])
            self._soon = Placer(soon, self.needs, self.policies)
        holdings = self.snapshot.holdings
        if self._later is None or not reserved:
            return Clearing(self._soon, self._soon.draft, holdings)
        if self._cleared is None:
            self._cleared = self._common(self._soon.draft, self._later)
        return Clearing(self._cleared, self._soon.draft, holdings, self._later, self._gone)

    def promise(self, gang: Waiting, layout: Layout, stopped: Sequence[Held], shed: Sequence[Unit] = ()) -> None:
        """Keep the place that a gang will have once these, too, are gone, from now until it is there."""
        soon = self.clearing().soon
        self.leaving |= {held.job.id: held for held in stopped}
        roles = [(held.job.id, role) for held in stopped for role in held.roles]
        roles += [(unit.gang.job.id, role) for unit in shed for role in unit.roles]
        self.snapshot.holdings.release(soon, [role for _, role in roles])
        if self._later is not None:
            self.snapshot.holdings.release(self._later, [role for owner, role in roles if owner not in self._gone])
        self._sync(np.array(sorted({row for _, role in roles for row in role.rows}), dtype=np.int64))
        self._guard(gang, layout)
        self.keep(gang.job.id, layout)

    def keep(self, job_id: JobId, layout: Layout) -> None:
        """Keep a place out of what is free, or will be when all are gone who leave."""
        soon = self.clearing().soon
        self._promised.append(job_id)
        book(soon, layout)
        if self._later is not None:
            book(self._later, layout)
        if self._beside is None:
            self._beside = self._common(self.now.draft, soon)
        self._sync(_rows(layout))

    def would_fit(self, demand: Demand, allowed: Bools | None, needs: Needs | None = None) -> bool:
        """Whether a gang would get a place if it might use these nodes (and ``needs`` held of its shapes)."""
        return self.shortfall(demand, allowed, needs) is None

    def shortfall(self, demand: Demand, allowed: Bools | None, needs: Needs | None = None) -> Shortfall | None:
        """What a gang would be short of if it might use these nodes; None if it would get a place."""
        placer = self.open if needs is None else Placer(self.open.draft, needs, self.policies)
        mark = placer.draft.mark()
        found = placer.place(demand, self.still_open(allowed))
        placer.draft.undo(mark)
        return found if isinstance(found, Shortfall) else None

    def begin(self, gang: Waiting, layout: Layout) -> None:
        """A gang starts in this cycle, and will be gone some day."""
        self._started.append((gang, layout))
        self._by_queue.setdefault(gang.job.spec.queue, []).append((gang, layout))

    def reserve(self, turn: Turn, typed: Bools | None = None) -> Timestamp | None:
        """Find out when the first gang in line will fit, and keep that place; None when it never will.

        ``typed`` has the nodes whose GPU type its queue may use. The place that an earlier cycle found is kept as long
        as it will be free by the time that was told then, even if another one seems to be free before: that is a guess.
        Once patience is over it is kept in any case, and nothing new goes to its nodes: whoever is there ends some day.
        """
        leaving = self._departures()
        if self._soon is not None:
            leaving = [each for each in leaving if each.jobs[0] not in self.leaving]
        known = self.snapshot.memory.reservation
        found = None
        if known is not None and known.job_id == turn.gang.job.id:
            found = self._earliest(leaving, turn.gang, both(typed, np.isin(self.snapshot.table.names, known.nodes)))
            if found is not None and found.at > known.at and not self._has_waited_enough(turn.gang):
                found = None
        found = found or self._earliest(leaving, turn.gang, typed)
        if found is None:
            return None
        if not self.is_due(turn.gang):
            return found.at
        self.reserved, self.at, self._later, self._gone = turn, found.at, found.draft, found.gone
        self._place = tuple(sorted({self.snapshot.table.names[row] for seats in found.layout for row in seats.rows}))
        self._guard(turn.gang, found.layout)
        self._open, self._cleared = self._common((self._beside or self.now).draft, self._later), None
        return self.at

    def is_due(self, gang: Waiting) -> bool:
        """Whether a place is kept yet: not before the gang has waited for a while."""
        waited = self.snapshot.now - waiting_since(gang.job)
        return self.policies.in_order or waited >= min(
            self.policies.reserve_after_seconds, self.policies.patience_seconds
        )

    def _earliest(self, leaving: Sequence[Departure], gang: Waiting, allowed: Bools | None) -> "_Found | None":
        """The first moment at which a gang fits. The search doubles its reach before it halves it: the gang usually
        fits long before everybody is gone."""
        low, high = 0, 1
        while self._place_after(leaving[:high], gang, allowed) is None:
            if high >= len(leaving):
                return None
            low, high = high + 1, min(2 * high, len(leaving))
        high = min(high, len(leaving))
        while low < high:
            middle = (low + high) // 2
            if self._place_after(leaving[:middle], gang, allowed) is None:
                low = middle + 1
            else:
                high = middle
        return self._place_after(leaving[:high], gang, allowed)

    @property
    def reservation(self) -> Reservation | None:
        """What the next cycle should know of the place of the first in line."""
        if self.reserved is None or self.at is None:
            return None
        return Reservation(job_id=self.reserved.gang.job.id, at=self.at, nodes=self._place)

    def cancel(self) -> None:
        """Give up the place of the first in line."""
        self.reserved = self.at = self._later = self._open = self._cleared = self._closed = None
        self._gone = set()

    def by_end(self) -> list[Departure]:
        """Everybody who holds machines, those who will be gone first first."""
        if self._by_end is None:
            self._by_end = ends(self.snapshot.held.values(), self.snapshot.now)
        return self._by_end

    def departing(self, queues: Collection[QueueName]) -> Sequence[Departure]:
        """All jobs of some queues that run or start now, as if they ended."""
        held = [each for each in self.snapshot.held.values() if each.job.spec.queue in queues]
        started = [pair for name in sorted(queues) for pair in self._by_queue.get(name, ())]
        return departures(ends(held, self.snapshot.now), started, self.snapshot.now)

    def _departures(self) -> Sequence[Departure]:
        return departures(self.by_end(), self._started, self.snapshot.now)

    def _place_after(self, gone: Sequence[Departure], gang: Waiting, allowed: Bools | None) -> "_Found | None":
        """What is free once some are gone and the gang has its place; None if it does not fit even then."""
        draft = (self._soon or self.now).draft.copy()
        vacate(draft, self.snapshot.holdings, gone)
        absent = {job_id for each in gone for job_id in each.jobs}
        suits = self.affinity.allowed(gang, absent)
        layout = Placer(draft, self.needs, self.policies).place(gang.demand, both(suits, allowed))
        at = gone[-1].at if gone else self.snapshot.now
        return None if isinstance(layout, Shortfall) else _Found(at, draft, layout, absent)

    def _release(self, draft: Draft, gone: Iterable[Held]) -> None:
        self.snapshot.holdings.release(draft, [role for held in gone for role in held.roles])

    def _guard(self, gang: Waiting, layout: Layout) -> None:
        """The bound on waiting: after a while nothing new goes to the nodes of the gang's place until it has started.

        Where gangs start strictly in order, nothing new goes to any node that it could use.
        """
        if not self.policies.in_order and not self._has_waited_enough(gang):
            return
        closed = np.zeros(len(self.snapshot.table), dtype=np.bool_) if self._closed is None else self._closed
        if self.policies.in_order:
            for role in gang.demand.roles:
                closed |= self.needs.of(role.shape).allowed
        closed[_rows(layout)] = True
        self._closed = closed

    def _has_waited_enough(self, gang: Waiting) -> bool:
        return self.snapshot.now - waiting_since(gang.job) >= self.policies.patience_seconds

    def _common(self, *drafts: Draft) -> Placer:
        """Where there is only what all of these have."""
        draft = drafts[0].copy()
        draft.show(np.arange(len(draft.table), dtype=np.int64), *drafts)
        draft.commit()
        return Placer(draft, self.needs, self.policies)

    def _sync(self, rows: Ints) -> None:
        """Bring the views that follow from others up to date on some rows."""
        now, soon, later = self.now.draft, self._soon.draft if self._soon else None, self._later
        for placer, sources in (
            (self._beside, (now, soon)),
            (self._open, (now, soon if self._beside else None, later)),
            (self._cleared, (soon, later)),
        ):
            if placer is not None:
                placer.draft.show(rows, *(source for source in sources if source is not None))
                placer.draft.commit()
        for draft in (soon, later):
            if draft is not None:
                draft.commit()

    def _settle(self, layout: Layout, placer: Placer, *, in_time: bool) -> Layout:
        """Book seats that one view has taken in the others, too. Which GPUs are shared is what *now* says."""
        if placer is not self.now:
            layout = book(self.now.draft, layout)
        if self._soon is not None:
            book(self._soon.draft, layout)
        if self._later is not None and not in_time:
            book(self._later, layout)
        self._sync(_rows(layout))
        return layout


def _rows(layout: Layout) -> Ints:
    return np.unique(np.concatenate([seats.rows for seats in layout])) if layout else NO_ROWS
