"""The place of the gang that is first in line, and what may go ahead of it (backfill).

Three views of the free amounts are kept: *now*; *later*, when the first gang will start, less its place; and *both*,
what is free now and not needed then. A gang that has promised to end in time is placed in the first view, every
other one in the third.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from gangline.model import JobId, Timestamp
from gangline.scheduling.domains import Seated, both
from gangline.scheduling.draft import Draft
from gangline.scheduling.forecast import ends_by, expected_end, waiting_since
from gangline.scheduling.holdings import Held, Waiting
from gangline.scheduling.joint import Effort
from gangline.scheduling.layout import Layout, Seats, book, is_roomy
from gangline.scheduling.neighbours import Neighbours
from gangline.scheduling.placement import Needs, Placer, Shortfall
from gangline.scheduling.policies import Policies
from gangline.scheduling.shapes import Demand, RoleDemand
from gangline.scheduling.snapshot import Snapshot
from gangline.scheduling.table import Bools
from gangline.scheduling.victims import Unit


@dataclass(frozen=True, slots=True)
class _After:
    """What is free once some are gone, and how many changes of the draft it was made from that one had seen."""

    draft: Draft
    seen: int
    gone: tuple[Held, ...]

    def leads_to(self, now: Draft, leaving: Sequence[Held]) -> bool:
        """Whether only more have to go."""
        last = len(self.gone)
        return (
            self.seen == len(now.changed) and len(leaving) >= last and (not last or leaving[last - 1] is self.gone[-1])
        )


class Floor:
    """Where gangs are placed during one cycle."""

    def __init__(self, snapshot: Snapshot, policies: Policies) -> None:
        self.snapshot = snapshot
        self.policies = policies
        known = snapshot.memory.needs
        self.needs = known if known and known.serve(snapshot.table, policies) else Needs(snapshot.table, policies)
        self.needs.effort = Effort()
        self.now = Placer(snapshot.draft(), self.needs, policies)
        self.neighbours = Neighbours(snapshot)
        self.first: JobId | None = None
        self.at: Timestamp | None = None
        self._later: Draft | None = None
        self._both: Placer | None = None
        self._closed: Bools | None = None
        self._by_end: list[Held] | None = None
        self._after: _After | None = None
        self._gone: set[JobId] = set()
        """Gangs whose machines count as free later."""
        self._cleared = 0
        """How many of those who leave have been dealt with there."""

    def place(self, gang: Waiting, allowed: Bools | None = None) -> Layout | Shortfall:
        """Give a gang its place if it fits and does not delay the first in line."""
        if self._both is None:
            return self.now.place(gang.demand, allowed)
        allowed = self.still_open(allowed)
        in_time = self.at is not None and ends_by(gang, self.snapshot.now, self.at)
        found = (self.now if in_time else self._both).place(gang.demand, allowed)
        if isinstance(found, Shortfall):
            return found
        return self._settle(found, in_time=in_time)

    def extend(
        self, role: RoleDemand, count: int, demand: Demand, allowed: Bools | None, seated: Seated
    ) -> Seats | None:
        """Give a gang up to ``count`` more replicas of a role out of what nobody waits for."""
        seats = self.open.extend(role, count, demand, self.still_open(allowed), seated)
        if seats is not None and self._both is not None:
            return self._settle((seats,), in_time=False)[0]
        return seats

    def still_open(self, allowed: Bools | None) -> Bools | None:
        """Of the allowed nodes, those that the first in line has not closed to everybody behind it."""
        if self._closed is None:
            return allowed
        return ~self._closed if allowed is None else allowed & ~self._closed

    @property
    def guarded(self) -> bool:
        """Whether the first in line has closed every node that it could use."""
        return self._closed is not None

    def room(self, leaving: Sequence[Held], shed: Sequence[Unit] = ()) -> Draft:
        """What would be free for someone behind the first in line once these gangs, and this surplus, are gone."""
        draft = self._emptied(leaving)
        self._shed(draft, shed)
        if self._later is not None:
            later = self._later.copy()
            self._clear(later, leaving, shed)
            draft.narrow(later)
        return draft

    def _emptied(self, leaving: Sequence[Held]) -> Draft:
        """What would be free once these are gone. They only become more, so the last answer is carried on."""
        now = self.now.draft
        if self._after is None or not self._after.leads_to(now, leaving):
            self._after = _After(now.copy(), len(now.changed), ())
        known = self._after
        self._release(known.draft, leaving[len(known.gone) :])
        self._after = _After(known.draft, known.seen, tuple(leaving))
        return known.draft.copy()

    def can_promise(self, layout: Layout, leaving: Sequence[Held], shed: Sequence[Unit] = ()) -> bool:
        """Whether a place is not the one of the first in line, who may count on just these to be gone."""
        if self._later is None:
            return True
        later = self._later.copy()
        self._clear(later, leaving, shed)
        return is_roomy(later, layout)

    def promise(self, gang: Waiting, layout: Layout, leaving: Sequence[Held], shed: Sequence[Unit] = ()) -> None:
        """Keep the place that a gang will have once all these are gone, from now until it is there."""
        later = self._later
        if later is None:
            later = self._open(gang, self.now.draft.copy(), self.snapshot.now)
        self._clear(later, leaving, shed)
        self._gone.update(held.job.id for held in leaving[self._cleared :])
        self._cleared = len(leaving)
        book(later, layout)
        self._refresh()

    @property
    def open(self) -> Placer:
        """Where a gang is placed that has promised nothing: beside the place of the first in line."""
        return self._both or self.now

    def would_fit(self, demand: Demand, allowed: Bools | None, needs: Needs | None = None) -> bool:
        """Whether a gang would get a place if it might use these nodes (and ``needs`` held of its shapes)."""
        placer = self.open if needs is None else Placer(self.open.draft, needs, self.policies)
        mark = placer.draft.mark()
        found = placer.place(demand, self.still_open(allowed))
        placer.draft.undo(mark)
        return not isinstance(found, Shortfall)

    def reserve(self, gang: Waiting, typed: Bools | None = None) -> Timestamp | None:
        """Find out when the first gang in line will fit, and keep that place; None when it never will.

        ``typed`` has the nodes whose GPU type its queue may use. The search doubles its reach before it halves it: the
        gang usually fits long before everybody is gone.
        """
        leaving = self.by_end()
        low, high = 0, 1
        while isinstance(self._place_after(leaving[:high], gang, typed)[1], Shortfall):
            if high >= len(leaving):
                return None
            low, high = high + 1, min(2 * high, len(leaving))
        high = min(high, len(leaving))
        while low < high:
            middle = (low + high) // 2
            if isinstance(self._place_after(leaving[:middle], gang, typed)[1], Shortfall):
                low = middle + 1
            else:
                high = middle
        at = self._end(leaving[high - 1]) if high else self.snapshot.now
        draft, _ = self._place_after(leaving[:high], gang, typed)
        self._open(gang, draft, at)
        self._gone, self._cleared = {held.job.id for held in leaving[:high]}, 0
        self._refresh()
        return at

    def releasing(self) -> list[Held]:
        """Gangs that are on their way out already and still hold something."""
        return [held for held in self.snapshot.holdings.releasing if any(role.rows for role in held.roles)]

    def by_end(self) -> list[Held]:
        """Everybody who holds machines, those who will be gone first first."""
        if self._by_end is None:
            now = self.snapshot.now
            ends = [(expected_end(held, now), held.job.id, held) for held in self.snapshot.held.values()]
            ends.sort(key=itemgetter(0, 1))
            self._by_end = [held for _, _, held in ends]
        return self._by_end

    def _end(self, held: Held) -> Timestamp:
        return expected_end(held, self.snapshot.now)

    def _place_after(
        self, gone: Sequence[Held], gang: Waiting, typed: Bools | None
    ) -> tuple[Draft, Layout | Shortfall]:
        """What is free once some are gone and the gang, if it fits then, has its place."""
        draft = self.now.draft.copy()
        self._release(draft, gone)
        suits = self.neighbours.allowed(gang, {held.job.id for held in gone})
        return draft, Placer(draft, self.needs, self.policies).place(gang.demand, both(suits, typed))

    def _release(self, draft: Draft, gone: Sequence[Held]) -> None:
        self.snapshot.holdings.release(draft, [role for held in gone for role in held.roles])

    def _clear(self, later: Draft, leaving: Sequence[Held], shed: Sequence[Unit]) -> None:
        """Free what is given up of what is not free later anyway. Those who leave only become more."""
        self._release(later, [held for held in leaving[self._cleared :] if held.job.id not in self._gone])
        self._shed(later, [unit for unit in shed if unit.gang.job.id not in self._gone])

    def _shed(self, draft: Draft, units: Sequence[Unit]) -> None:
        self.snapshot.holdings.release(draft, [role for unit in units for role in unit.roles])

    def _open(self, gang: Waiting, later: Draft, at: Timestamp) -> Draft:
        self.first, self.at, self._later = gang.job.id, at, later
        # The bound on waiting: from here on nothing new goes where the gang could, until it has started.
        if self.snapshot.now - waiting_since(gang.job) >= self.policies.patience_seconds:
            closed = np.zeros(len(self.snapshot.table), dtype=np.bool_)
            for role in gang.demand.roles:
                closed |= self.needs.of(role.shape).allowed
            self._closed = closed
        return later

    def _refresh(self) -> None:
        assert self._later is not None
        both = self.now.draft.copy()
        both.narrow(self._later)
        self._both = Placer(both, self.needs, self.policies)

    def _settle(self, layout: Layout, *, in_time: bool) -> Layout:
        """Book seats that one view has taken in the others, too. Which GPUs are shared is what *now* says."""
        assert self._later is not None
        assert self._both is not None
        if not in_time:
            layout = book(self.now.draft, layout)
            book(self._later, layout)
        both = self._both.draft
        for seats in layout:
            both.free[seats.rows] = self.now.draft.free[seats.rows]
            both.shared[seats.rows] = self.now.draft.shared[seats.rows]
            both.narrow(self._later, seats.rows)
        return layout
