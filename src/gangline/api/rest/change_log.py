"""Which jobs changed lately, in order, so that a client that was cut off hears only of what it missed.

One follower serves all who watch lists of jobs as server-sent events. Its numbers mean something to this process alone:
a client that comes back after a restart, to another replica or too late is told to begin anew (``reset``).
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from itertools import islice

from aiohttp import web

from gangline import operations
from gangline.api.rest.answers import StreamEvent
from gangline.model import JobId, Tenant
from gangline.operations import ControllerLink, OperationContext
from gangline.storage.interface import JobQuery
from gangline.wire import Change

MOST_CHANGES = 10_000
_PAUSE_SECONDS = 1.0
_log = logging.getLogger(__name__)


class TooOldError(Exception):
    """What changed since then is not known any more."""


class ChangeLog:
    """The last changes, each with a number."""

    def __init__(self, most: int = MOST_CHANGES) -> None:
        self._epoch = secrets.token_hex(4)
        self._changes: deque[JobId] = deque(maxlen=most)
        self._news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self.position = 0

    def follow(self, link: ControllerLink) -> None:
        """Begin to listen."""
        # Changes count from this call, and not from when the task is first run.
        self._following = asyncio.create_task(self._listen(link, link.watch()), name="changes of jobs")

    async def _listen(self, link: ControllerLink, changes: AsyncIterator[JobId]) -> None:
        while True:
            try:
                async for job_id in changes:
                    self.note(job_id)
            except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
                _log.exception("changes of jobs are not heard of; listening again")
            await asyncio.sleep(_PAUSE_SECONDS)
            changes = link.watch()
            self._epoch = secrets.token_hex(4)  # something may have been missed

    def note(self, job_id: JobId) -> None:
        """Count a change."""
        self.position += 1
        self._changes.append(job_id)
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def close(self) -> None:
        """Listen no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    def id_of(self, position: int) -> str:
        """Return what a client says to go on from a position."""
        return f"{self._epoch}.{position}"

    def position_of(self, event_id: str) -> int:
        """Return the position of an id; raises TooOldError if it is not one of this process, or none at all."""
        epoch, _, number = event_id.partition(".")
        if epoch != self._epoch or not (number.isascii() and number.isdigit()) or int(number) > self.position:
            raise TooOldError
        return int(number)

    def since(self, position: int) -> Sequence[JobId]:
        """Return what changed after a position, oldest first; raises TooOldError."""
        missed = self.position - position
        if missed > len(self._changes):
            raise TooOldError
        return tuple(islice(self._changes, len(self._changes) - missed, None))

    async def wait(self, position: int) -> None:
        """Wait for a change after a position."""
        while self.position == position:
            await self._news.wait()


class ChangeLogs:
    """One log for each link that is watched: where everybody sees a cluster with their own eyes, there are many."""

    def __init__(self) -> None:
        self._logs: dict[ControllerLink, ChangeLog] = {}

    def of(self, link: ControllerLink) -> ChangeLog:
        """Return the log of a link, which is followed from now on."""
        if link not in self._logs:
            self._logs[link] = ChangeLog()
            self._logs[link].follow(link)
        return self._logs[link]

    async def forget(self, link: ControllerLink) -> None:
        """Follow a link no more."""
        if (log := self._logs.pop(link, None)) is not None:
            await log.close()

    async def close(self) -> None:
        """Listen no more."""
        await asyncio.gather(*(self.forget(link) for link in list(self._logs)))


CHANGES: web.AppKey[ChangeLogs] = web.AppKey("changes", ChangeLogs)


async def job_events(
    context: OperationContext, tenant: Tenant | None, query: JobQuery, log: ChangeLog, last: str | None
) -> AsyncGenerator[StreamEvent, None]:
    """Return the jobs of a query and every change to come; after a gap, what changed in it.

    What comes before a ``bookmark`` has no id: a client that is cut off in the middle of it has it all again.
    """
    position = log.position
    changes = await _missed(context, tenant, query, log, last)
    if changes is None and last is not None:
        yield StreamEvent(kind="reset")
    while True:
        page = await operations.list_jobs(context, tenant, query)
        shown = {job.id for job in page.jobs}
        for change in changes or [Change(job_id=job.id, job=job) for job in reversed(page.jobs)]:
            shown.add(change.job_id)
            yield StreamEvent(data=change)
        yield StreamEvent(kind="bookmark", id=log.id_of(position))
        try:
            while True:
                await log.wait(position)
                for job_id in log.since(position):
                    position += 1
                    if (found := await operations.change_of(context, tenant, query, shown, job_id)) is not None:
                        yield StreamEvent(data=found, id=log.id_of(position))
        except TooOldError:  # this client reads too slowly
            position, changes = log.position, None
            yield StreamEvent(kind="reset")


async def _missed(
    context: OperationContext, tenant: Tenant | None, query: JobQuery, log: ChangeLog, last: str | None
) -> Sequence[Change] | None:
    """Return what changed after an id; None if the client must begin anew, as when a job that it may know is gone."""
    if last is None:
        return None
    try:
        missed = dict.fromkeys(log.since(log.position_of(last)))
    except TooOldError:
        return None
    changes = [await operations.change_of(context, tenant, query, set(missed), job_id) for job_id in missed]
    if any(change is not None and change.job is None for change in changes):
        return None
    return [change for change in changes if change is not None]
