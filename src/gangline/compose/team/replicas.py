"""Several services on one PostgreSQL and one home: all of them answer, and one at a time leads.

Who leads holds an advisory lock of the database, which ends with its connection however the process ends. What one
replica records, another may have to act on or tell its clients of: they hear of it by NOTIFY. Nothing depends on a
message that is lost: whoever loses the connection that brings them stops leading, and begins anew from the records.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from gangline.compose.leading import Leading
from gangline.controller.feed import ChangeFeed
from gangline.errors import GanglineError, StorageError
from gangline.model import Explanation, JobId
from gangline.operations import ControllerLink, RecordLink

try:
    import psycopg
except ImportError as error:
    raise StorageError("replicas need PostgreSQL: pip install 'gangline[postgres]'") from error

_LEADER_LOCK = 7_263_548_019_453
"""Any number that no other program in the same database uses for its advisory locks."""
_CHANNEL = "gangline"
_PAUSE_SECONDS = 1.0
_CHECK_SECONDS = 2.0
_ANSWER_SECONDS = 10.0
_ELSEWHERE = Explanation(sentences=("Another replica of the service leads and knows why; ask again there.",))
_log = logging.getLogger(__name__)

JOB, KIND, WATCHED = "job", "kind", "watched"
"""What messages are about: a job that somebody changed, records of a kind, and a job that watchers should look at."""


class Replicas:
    """This service among its likes: what it tells them, what it hears of them, and whether it leads."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._outgoing: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._deaf = asyncio.Event()
        """Set when messages may have been missed."""
        self.feed = ChangeFeed()
        self.leading: Leading | None = None

    @property
    def jobs(self) -> "SharedJobs":
        """How operations reach the controller, wherever it runs."""
        return SharedJobs(self)

    @property
    def records(self) -> "SharedRecords":
        """How operations reach the driver of records, wherever it runs."""
        return SharedRecords(self)

    def tell(self, about: str, name: str) -> None:
        """Send a message to all replicas, this one included."""
        self._outgoing.put_nowait((about, name))

    def pass_on(self, job_id: JobId) -> None:
        """Tell all who watch jobs that one has changed."""
        self.tell(WATCHED, job_id)

    def _hear(self, text: str) -> None:
        about, _, name = text.partition(" ")
        if about == WATCHED:
            self.feed.publish(JobId(name))
        elif self.leading is not None and about == JOB:
            self.leading.controller.changed(JobId(name))
        elif self.leading is not None and about == KIND:
            self.leading.records.changed(name)

    async def listen(self) -> None:
        """Hear messages until cancelled."""
        while True:
            with suppress(psycopg.Error):
                async with await self._connect() as connection:
                    await connection.execute(f"LISTEN {_CHANNEL}".encode())
                    self._deaf.set()
                    async for message in connection.notifies():
                        self._hear(message.payload)
            self._deaf.set()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def speak(self) -> None:
        """Send messages until cancelled; what could not be sent is sent again."""
        message: tuple[str, str] | None = None
        while True:
            with suppress(psycopg.Error):
                async with await self._connect() as connection:
                    while True:
                        message = message or await self._outgoing.get()
                        await connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, " ".join(message)))
                        message = None
            await asyncio.sleep(_PAUSE_SECONDS)

    async def lead(self, term: Callable[[], Awaitable[None]]) -> None:
        """Carry out terms as leader, whenever nobody else leads, until cancelled."""
        while True:
            try:
                async with await self._connect() as connection:
                    await self._acquire(connection)
                    await self._serve_term(connection, term)
            except (psycopg.Error, GanglineError, TimeoutError) as error:
                _log.warning("this replica does not lead: %s", error)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _acquire(self, connection: "psycopg.AsyncConnection[tuple[bool]]") -> None:
        while True:
            found = await connection.execute("SELECT pg_try_advisory_lock(%s)", (_LEADER_LOCK,))
            row = await found.fetchone()
            if row is not None and row[0]:
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _serve_term(
        self, connection: "psycopg.AsyncConnection[tuple[bool]]", term: Callable[[], Awaitable[None]]
    ) -> None:
        """Lead as long as the lock is held and no message is missed."""
        _log.info("this replica leads")
        self._deaf.clear()
        leading = asyncio.ensure_future(term())
        missed = asyncio.create_task(self._deaf.wait())
        try:
            while not (leading.done() or missed.done()):
                await asyncio.wait({leading, missed}, timeout=_CHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await connection.execute("SELECT 1")
        finally:
            for task in (leading, missed):
                task.cancel()
            ended, _ = await asyncio.gather(leading, missed, return_exceptions=True)
        if isinstance(ended, Exception):
            _log.error("a term as leader ended: %s", ended)

    async def _connect(self) -> "psycopg.AsyncConnection[tuple[bool]]":
        connect = psycopg.AsyncConnection[tuple[bool]].connect
        return await connect(self._address, autocommit=True, connect_timeout=10, application_name="gangline")


class SharedJobs:
    """The ControllerLink of a replica."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def changed(self, job_id: JobId) -> None:
        """Say that a job's record changed, to whoever leads."""
        self._replicas.tell(JOB, job_id)

    def explanation(self, job_id: JobId) -> Explanation | None:
        """Return why a job waits, if this replica leads; else who knows."""
        leading = self._replicas.leading
        return _ELSEWHERE if leading is None else leading.controller.explanation(job_id)

    def watch(self) -> AsyncIterator[JobId]:
        """Return every job that changes from this call on."""
        return self._replicas.feed.watch()


class SharedRecords:
    """The RecordLink of a replica."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def changed(self, kind: str) -> None:
        """Say that records of a kind changed, to whoever leads."""
        self._replicas.tell(KIND, kind)


_conforms: tuple[type[ControllerLink], type[RecordLink]] = (SharedJobs, SharedRecords)
