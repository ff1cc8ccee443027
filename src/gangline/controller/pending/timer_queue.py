"""When to look at which job again: a heap of moments. What is due then is asked of the job itself."""

import heapq
from itertools import count

from gangline.lifecycle import Event, timers
from gangline.model import Job, JobId, Timestamp


class TimerQueue:
    """Remembers moments; a moment whose job has moved on meanwhile simply finds nothing due."""

    def __init__(self) -> None:
        self._moments: list[tuple[Timestamp, int, JobId | None]] = []
        self._known: dict[JobId, frozenset[Timestamp]] = {}
        self._numbers = count()

    def note(self, job: Job) -> None:
        """Remember the moments that matter to this job."""
        moments = frozenset(timer.at for timer in timers(job))
        for at in moments - self._known.get(job.id, frozenset()):
            heapq.heappush(self._moments, (at, next(self._numbers), job.id))
        if moments:
            self._known[job.id] = moments
        else:
            self._known.pop(job.id, None)

    def wake(self, at: Timestamp) -> None:
        """Remember a moment at which the scheduler should look again."""
        heapq.heappush(self._moments, (at, next(self._numbers), None))

    @property
    def next(self) -> Timestamp | None:
        """The next moment at which something may be due."""
        return self._moments[0][0] if self._moments else None

    def due(self, now: Timestamp) -> list[JobId | None]:
        """Take and return what has come due: jobs to look at; None stands for the scheduler."""
        found: list[JobId | None] = []
        while self._moments and self._moments[0][0] <= now:
            at, _, job_id = heapq.heappop(self._moments)
            found.append(job_id)
            if job_id is not None and job_id in self._known:
                self._known[job_id] -= {at}
        return found


def due_events(job: Job, now: Timestamp) -> tuple[Event, ...]:
    """Return the events of a job's timers that have come due."""
    return tuple(timer.event for timer in timers(job) if timer.at <= now)
