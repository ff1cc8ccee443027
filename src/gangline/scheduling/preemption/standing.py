"""How important gangs that run are, and until when: worked out again only once the job or its rank has changed."""

from typing import NamedTuple

from gangline.model import Job, JobId, Timestamp
from gangline.scheduling.plugins.interface import ChangingOrder, JobOrder
from gangline.scheduling.snapshot import Snapshot

NEVER = float("inf")

MARGIN_SECONDS = 0.001
"""What is known is forgotten a little early, so that rounding does not make a cycle differ from one without memory."""


class Standing(NamedTuple):
    """The rank of one record of a job from ``since`` on, and when it changes by time alone."""

    job: Job
    rank: float
    since: Timestamp
    until: float


class Standings:
    """What one order makes of gangs that run; kept from cycle to cycle with what they hold."""

    def __init__(self, snapshot: Snapshot, order: JobOrder) -> None:
        self._now = snapshot.now
        self._order = order
        self._changing = order if isinstance(order, ChangingOrder) else None
        memo = snapshot.holdings.standings
        self._known: dict[JobId, Standing] = memo.setdefault(order, {}) if self._changing else {}

    def of(self, job: Job) -> Standing:
        """How important a job is now."""
        known = self._known.get(job.id)
        if known is not None and known.job is job and known.since <= self._now < known.until - MARGIN_SECONDS:
            return known
        found = self._known[job.id] = self.worked_out(job)
        return found

    def worked_out(self, job: Job) -> Standing:
        """The same of a job that exists for this question only."""
        until = self._changing.changes_at(job, self._now) if self._changing else None
        return Standing(job, self._order.rank(job, self._now), self._now, NEVER if until is None else until)
