"""Everything that waits or runs, read once for all who look at it.

Several pages need every unfinished job, and each open tab asks for its page every second. Reading them is repeated at
most as often as it is worth: where it takes long because much waits, what is shown is a little older.
"""

import asyncio
from weakref import WeakKeyDictionary

from aiohttp import web

from gangline.api.rest.context import context_of
from gangline.model import Job
from gangline.storage.interface import Store

_LEAST_SECONDS = 0.3
_WORTH = 5.0
"""For how many times as long as it took to read them they are kept."""


class _Seen:
    """What one store had a moment ago."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.jobs: list[Job] = []
        self.good_until: float | None = None


class UnfinishedJobs:
    """The unfinished jobs of one service, as they were a moment ago.

    Over a cluster everybody asks with a store of their own, which shows what they may see: nobody is shown another's.
    """

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[Store, _Seen] = WeakKeyDictionary()

    async def read(self, request: web.Request) -> list[Job]:
        """Return those of every tenant that whoever asks may act for."""
        context = context_of(request)
        seen = self._seen.setdefault(context.store, _Seen())
        async with seen.turn:
            began = context.clock.now()
            if seen.good_until is None or began >= seen.good_until:
                seen.jobs = [job async for job in context.store.unfinished()]
                ended = context.clock.now()
                seen.good_until = ended + max(_LEAST_SECONDS, _WORTH * (ended - began))
        tenants = context.caller.tenants
        return [job for job in seen.jobs if tenants is None or job.spec.tenant in tenants]


UNFINISHED: web.AppKey[UnfinishedJobs] = web.AppKey("unfinished", UnfinishedJobs)


async def unfinished_jobs(request: web.Request) -> list[Job]:
    """Return every unfinished job that whoever asks may see, as it was a moment ago."""
    return await request.app[UNFINISHED].read(request)
