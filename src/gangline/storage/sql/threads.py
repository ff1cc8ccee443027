"""Threads that own the connections, so that the event loop never waits for a disk or a server."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Concatenate, ParamSpec, TypeVar

from gangline.errors import StorageError, StorageFullError
from gangline.storage.sql.database import Database, Session
from gangline.storage.sql.thread_pool import ThreadPool

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_READERS = 4
_FULL_PAUSES = (0.0, 0.05, 0.2)
"""A reader may have kept the database from using its room again, and others may have taken what was set aside."""


_TIDY_PAUSE = 0.05
"""How long whoever writes has the database to itself after room was given back."""


Observe = Callable[[str, float], None]
"""Hears what was done, and how long it took from being asked for."""


class SessionThreads:
    """A few threads to write and a few to read, each with a session of its own.

    A caller that is cancelled stops waiting; what it asked for may still happen.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.observe: Observe = lambda operation, seconds: None
        self._own = threading.local()
        self._sessions: set[Session] = set()
        self._writers = ThreadPool(database.writers, "gangline-store-write")
        self._tidying: asyncio.Task[None] | None = None
        self._readers = ThreadPool(_READERS, "gangline-store-read")

    async def write(
        self,
        work: Callable[Concatenate[Session, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Do work with a session inside one transaction."""

        def transact() -> Result:
            session = self._session()
            with session.transaction():
                return work(session, *args, **kwargs)

        return await self._timed(work, self._writers, transact)

    async def retry(
        self,
        work: Callable[Concatenate[Session, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Do work that goes on with what exists, or removes it: on a full disk it is given the room set aside."""
        for pause in _FULL_PAUSES:
            try:
                return await self.write(work, *args, **kwargs)
            except StorageFullError:
                await asyncio.get_running_loop().run_in_executor(self._writers, lambda: self._session().make_room())
                await asyncio.sleep(pause)
        return await self.write(work, *args, **kwargs)

    async def read(
        self,
        work: Callable[Concatenate[Session, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Do work with a session that changes nothing."""
        return await self._timed(work, self._readers, lambda: work(self._session(), *args, **kwargs))

    async def _timed(self, work: Callable[..., object], threads: ThreadPool, act: Callable[[], Result]) -> Result:
        began = perf_counter()
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, act)
        finally:
            self.observe(work.__name__.strip("_"), perf_counter() - began)

    def tidy(self) -> None:
        """Give room that deleted rows left back to the disk, bit by bit, between what others write."""
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._tidy(), name="tidy the database")

    async def _tidy(self) -> None:
        loop = asyncio.get_running_loop()
        # A full or a busy disk is not a reason to fail: the next deletion tries again.
        with suppress(StorageError):
            while await loop.run_in_executor(self._writers, lambda: self._session().give_back()):  # noqa: ASYNC110
                await asyncio.sleep(_TIDY_PAUSE)

    async def close(self) -> None:
        """Finish what was begun, join the threads and close the sessions."""
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.gather(self._tidying, return_exceptions=True)
        await asyncio.to_thread(self._close)

    def _session(self) -> Session:
        """Return the calling thread's session, made at its first use and again when the last one was lost."""
        session: Session | None = getattr(self._own, "session", None)
        if session is None or session.broken:
            if session is not None:
                self._sessions.discard(session)
                session.close()
            session = self._own.session = self._database.connect()
            self._sessions.add(session)
        return session

    def _close(self) -> None:
        for threads in (self._writers, self._readers):
            threads.shutdown()
        for session in self._sessions:
            session.close()
