"""The SQL store: the contract's methods, each one hop to a thread that owns a connection."""

from collections.abc import AsyncIterator, Sequence

from gangline.model import Job, JobId, JobPage, JournalRecord, Metric, Queue, Tenant, Timestamp
from gangline.model.queue import ROOT_QUEUE
from gangline.model.sweep import Sweep
from gangline.storage.interface import JobQuery, Store
from gangline.storage.metrics import MetricPosition, start_of
from gangline.storage.sql import jobs as job_rows
from gangline.storage.sql import metrics as metric_rows
from gangline.storage.sql import queues as queue_rows
from gangline.storage.sql import sweeps as sweep_rows
from gangline.storage.sql.database import Database, Session
from gangline.storage.sql.migrations import migrate
from gangline.storage.sql.threads import SessionThreads

_STREAM_CHUNK = 500


class SqlStore:
    """Keeps everything in a SQL database. Several processes may share one."""

    def __init__(self, threads: SessionThreads) -> None:
        self._threads = threads

    @classmethod
    async def open(cls, database: Database) -> "SqlStore":
        """Connect and bring the schema up to date."""
        threads = SessionThreads(database)
        try:
            await threads.write(_prepare, database)
        except BaseException:
            await threads.close()
            raise
        threads.tidy()
        return cls(threads)

    async def create(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Keep a new job; see Store."""
        return await self._threads.write(job_rows.create, job, records)

    async def save(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Replace a job; see Store."""
        return await self._threads.insist(job_rows.save, job, records)

    async def get(self, job_id: JobId) -> Job:
        """Return a job; see Store."""
        return await self._threads.read(job_rows.get, job_id)

    async def find(self, tenant: Tenant, name: str) -> Job:
        """Return a job by its name; see Store."""
        return await self._threads.read(job_rows.find, tenant, name)

    async def list(self, query: JobQuery) -> JobPage:
        """Return one page; see Store."""
        return await self._threads.read(job_rows.page, query)

    async def unfinished(self) -> AsyncIterator[Job]:
        """Return the jobs a controller must know, read in chunks; see Store."""
        last: JobId | None = None
        while True:
            chunk, last = await self._threads.read(job_rows.unfinished_after, last, _STREAM_CHUNK)
            for job in chunk:
                yield job
            if last is None:
                return

    async def remove(self, job_id: JobId) -> None:
        """Remove a job; see Store."""
        await self._threads.insist(job_rows.remove, job_id)
        self._threads.tidy()

    async def journal(self, job_id: JobId, *, after: int = 0, limit: int = 1000) -> Sequence[JournalRecord]:
        """Return the job's records; see Store."""
        return await self._threads.read(job_rows.journal, job_id, after, limit)

    async def add_metrics(self, metrics: Sequence[Metric]) -> None:
        """Append metrics; see Store."""
        await self._threads.write(metric_rows.add, metrics)

    async def metrics(
        self,
        job_id: JobId,
        *,
        name: str | None = None,
        since: Timestamp | None = None,
        after: MetricPosition | None = None,
        limit: int = 10_000,
    ) -> Sequence[Metric]:
        """Return the job's metrics; see Store."""
        return await self._threads.read(metric_rows.read, job_id, start_of(since, after), name, limit)

    async def has_all_metrics(self, job_id: JobId) -> bool:
        """Return True: nothing is given up; see Store."""
        return True

    async def latest_metrics(self, job_ids: Sequence[JobId]) -> Sequence[Metric]:
        """Return the newest values; see Store."""
        return await self._threads.read(metric_rows.latest, job_ids)

    async def queues(self) -> Sequence[Queue]:
        """Return all queues; see Store."""
        return await self._threads.read(queue_rows.read)

    async def save_queue(self, queue: Queue) -> None:
        """Keep a queue; see Store."""
        await self._threads.write(queue_rows.save, queue)

    async def create_sweep(self, sweep: Sweep) -> Sweep:
        """Keep a new sweep; see Store."""
        return await self._threads.write(sweep_rows.create, sweep)

    async def save_sweep(self, sweep: Sweep) -> Sweep:
        """Replace a sweep; see Store."""
        return await self._threads.insist(sweep_rows.save, sweep)

    async def sweeps(self, tenant: Tenant | None = None) -> Sequence[Sweep]:
        """Return sweeps; see Store."""
        return await self._threads.read(sweep_rows.read, tenant)

    async def remove_sweep(self, tenant: Tenant, name: str) -> None:
        """Remove a sweep; see Store."""
        await self._threads.insist(sweep_rows.remove, tenant, name)
        self._threads.tidy()

    async def close(self) -> None:
        """Finish what was begun, then end threads and connections."""
        await self._threads.close()


def _prepare(session: Session, database: Database) -> None:
    migrate(session, database)
    queue_rows.add_missing(session, ROOT_QUEUE)


_conforms: type[Store] = SqlStore
