"""Where room for a gang is sought: what is free once those who leave are gone, less every place that is kept.

The floor owns what it shows and keeps it up to date; whoever plans may let more go in it and undoes that again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from gangline.model import JobId
from gangline.scheduling.gangs.holdings import Holdings
from gangline.scheduling.nodes.draft import Draft
from gangline.scheduling.placement.placer import Placer
from gangline.scheduling.preemption.victims import Unit

Mark = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Clearing:
    """One or two views of what is free, and in ``placer`` what both have.

    ``later`` is the view of the first in line, who counts on those in ``gone`` to have left in any case.
    """

    placer: Placer
    soon: Draft
    holdings: Holdings
    later: Draft | None = None
    gone: Collection[JobId] = ()

    def mark(self) -> Mark:
        """A point to come back to with ``undo``."""
        return tuple(draft.mark() for draft in self._drafts())

    def undo(self, mark: Mark) -> None:
        """Forget everything that was done since the mark."""
        for draft, each in zip(self._drafts(), mark, strict=True):
            draft.undo(each)

    def release(self, units: Sequence[Unit]) -> None:
        """Let units go. Nothing may be placed yet, or it is forgotten on these nodes."""
        self.holdings.release(self.soon, [role for unit in units for role in unit.roles])
        if self.later is not None:
            fresh = [role for unit in units if unit.gang.job.id not in self.gone for role in unit.roles]
            self.holdings.release(self.later, fresh)
            self._show(units)

    def retake(self, unit: Unit) -> None:
        """Let a unit have again what it had."""
        drafts = [self.soon]
        if self.later is not None and unit.gang.job.id not in self.gone:
            drafts.append(self.later)
        for draft in drafts:
            for role in unit.roles:
                draft.retake(self.holdings.need(role.shape), role.rows, role.slots)
        self._show([unit])

    def _show(self, units: Sequence[Unit]) -> None:
        if self.later is not None:
            rows = {row for unit in units for role in unit.roles for row in role.rows}
            self.placer.draft.show(np.array(sorted(rows), dtype=np.int64), self.soon, self.later)

    def _drafts(self) -> tuple[Draft, ...]:
        return (self.soon,) if self.later is None else (self.soon, self.later, self.placer.draft)
