"""Placements that are not on record yet, because the engine's own objects are a record of them.

Where a store is across a network, a write per placement is a good part of what a small job costs, and soon its start is
written anyway. So the start of a gang that its engine would find again (see ``PlacementRecorder``) is carried out first
and saved
with the next change of its job, or a little later by itself. A controller that dies in between is told by the engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from gangline.engines.interface import Engine, PlacementRecorder
from gangline.lifecycle import Event
from gangline.lifecycle.events import GangFound, GangPlaced
from gangline.model import Job, JobId, Timestamp

HELD_BACK_SECONDS = 2.0
"""How long a placement may be without a record: most gangs of one replica have started by then."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A placement that was carried out: the job as it is on record, and what makes of it what it is."""

    base: Job
    found: GangFound
    due: Timestamp


class Drafts:
    """Every such placement of one controller, the oldest first."""

    def __init__(self, engine: Engine) -> None:
        self._recorder = engine if isinstance(engine, PlacementRecorder) else None
        self._drafts: dict[JobId, Draft] = {}

    def __contains__(self, job_id: object) -> bool:
        """Whether a job's placement is not on record yet."""
        return job_id in self._drafts

    def get(self, job_id: JobId) -> Draft | None:
        """Return the placement of a job that is not on record yet, if there is one."""
        return self._drafts.get(job_id)

    def saved(self, job_id: JobId) -> None:
        """Forget a placement that is on record, or whose job is gone."""
        self._drafts.pop(job_id, None)

    def may_wait(self, before: Job, after: Job, events: Sequence[Event]) -> bool:
        """Whether a change need not be saved now; it is remembered then."""
        if self._recorder is None or len(events) != 1 or after.attempt != before.attempt + 1:
            return False
        (event,) = events
        if not isinstance(event, GangPlaced) or not self._recorder.records_placement(after.gang()):
            return False
        found = GangFound(job_id=after.id, at=event.at, attempt=after.attempt, placement=event.placement)
        self._drafts[after.id] = Draft(before, found, Timestamp(event.at + HELD_BACK_SECONDS))
        return True

    def due(self, now: Timestamp) -> Sequence[GangFound]:
        """Return what should be on record by now; hearing it again has it saved. Asked again later if it is not."""
        late = list(takewhile(lambda draft: draft.due <= now, self._drafts.values()))
        for draft in late:
            del self._drafts[draft.base.id]
            self._drafts[draft.base.id] = replace(draft, due=Timestamp(now + HELD_BACK_SECONDS))
        return [draft.found for draft in late]

    @property
    def next(self) -> Timestamp | None:
        """When the next one should be."""
        return next((draft.due for draft in self._drafts.values()), None)
