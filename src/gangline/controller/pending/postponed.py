"""News of jobs whose record the store refused: kept in their order and tried again, without holding up other jobs.

A store that is away refuses everybody, and soon answers again. A record that cannot be read or written, because it
was damaged by hand or has grown too large, is refused for as long as it stays so; only its own job may suffer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gangline.model import Backoff, JobId, Timestamp

_BACKOFF = Backoff(first_seconds=1.0, longest_seconds=30.0)

_News = TypeVar("_News")


@dataclass(slots=True)
class _Waiting(Generic[_News]):
    until: Timestamp
    refusals: int
    news: list[_News] = field(default_factory=list)


class Postponed(Generic[_News]):
    """What waits for another try, by job; the pause before it doubles with every refusal."""

    def __init__(self) -> None:
        self._waiting: dict[JobId, _Waiting[_News]] = {}

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def holds(self, job_id: JobId, now: Timestamp) -> bool:
        """Whether nothing of this job can be saved for now."""
        waiting = self._waiting.get(job_id)
        return waiting is not None and waiting.until > now

    def refuse(self, job_id: JobId, news: Iterable[_News], now: Timestamp) -> Timestamp:
        """Keep what could not be saved; returns when it is to be tried again."""
        before = self._waiting.get(job_id)
        # Once at once: most likely the store was away for a moment.
        refusals = 0 if before is None else before.refusals + 1
        pause = _BACKOFF.pause(refusals) if refusals else 0.0
        self._waiting[job_id] = _Waiting(until=Timestamp(now + pause), refusals=refusals, news=list(news))
        return self._waiting[job_id].until

    def admit(self, job_id: JobId, news: Sequence[_News], now: Timestamp) -> Sequence[_News] | None:
        """Return all there is to handle of a job, oldest first; None while it has to wait, and the news with it."""
        waiting = self._waiting.get(job_id)
        if waiting is None:
            return news
        waiting.news += news
        return waiting.news if waiting.until <= now else None

    def forget(self, job_id: JobId) -> None:
        """Take in that a job's news was handled."""
        self._waiting.pop(job_id, None)

    def due(self, now: Timestamp) -> list[JobId]:
        """Return the jobs with news whose time has come."""
        return [job_id for job_id, waiting in self._waiting.items() if waiting.news and waiting.until <= now]
