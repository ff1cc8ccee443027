"""Everything that waits or runs, read once for all who look at it.

Several pages need every unfinished job, and each open tab asks for its page every second. Reading them is repeated at
most as often as it is worth: where it takes long because much waits, what is shown is a little older.
"""

import asyncio

from aiohttp import web

from gangline.api.rest.context import context_of
from gangline.model import Job

_LEAST_SECONDS = 0.3
_WORTH = 5.0
"""For how many times as long as it took to read them they are kept."""


class UnfinishedJobs:
    """The unfinished jobs of one service, as they were a moment ago."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._jobs: list[Job] = []
        self._good_until: float | None = None

    async def read(self, request: web.Request) -> list[Job]:
        """Return those of every tenant that whoever asks may act for."""
        context = context_of(request)
        async with self._turn:
            began = context.clock.now()
            if self._good_until is None or began >= self._good_until:
                self._jobs = [job async for job in context.store.unfinished()]
                ended = context.clock.now()
                self._good_until = ended + max(_LEAST_SECONDS, _WORTH * (ended - began))
        tenants = context.caller.tenants
        return [job for job in self._jobs if tenants is None or job.spec.tenant in tenants]


UNFINISHED: web.AppKey[UnfinishedJobs] = web.AppKey("unfinished", UnfinishedJobs)


async def unfinished_jobs(request: web.Request) -> list[Job]:
    """Return every unfinished job that whoever asks may see, as it was a moment ago."""
    return await request.app[UNFINISHED].read(request)
