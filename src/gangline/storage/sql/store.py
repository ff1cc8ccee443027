"""The SQL store: the contract's methods, each one hop to a thread that owns a connection."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status, View
from gangline.model import Job, JobId, JobPage, JournalRecord, Metric, Tenant, Timestamp
from gangline.model.team.accounting import Use
from gangline.storage.interface import JobQuery, Store
from gangline.storage.metrics import MetricPosition, start_of
from gangline.storage.sql import jobs as job_rows
from gangline.storage.sql import metrics as metric_rows
from gangline.storage.sql.answers import SqlAnswers
from gangline.storage.sql.audit import SqlAudit
from gangline.storage.sql.database import Database
from gangline.storage.sql.migrations import migrate
from gangline.storage.sql.records import SqlRecords
from gangline.storage.sql.threads import Observe, SessionThreads

_STREAM_CHUNK = 500


class SqlStore:
    """Keeps everything in a SQL database. Several processes may share one."""

    def __init__(self, threads: SessionThreads) -> None:
        self._threads = threads
        self._records: dict[str, SqlRecords[Any, Any]] = {}

    @classmethod
    async def open(cls, database: Database) -> "SqlStore":
        """Connect and bring the schema up to date."""
        threads = SessionThreads(database)
        try:
            await threads.write(migrate, database)
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
        return await self._threads.retry(job_rows.save, job, records)

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
        await self._threads.retry(job_rows.remove, job_id)
        self._threads.tidy()

    async def journal(
        self, job_id: JobId, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> Sequence[JournalRecord]:
        """Return the job's records; see Store."""
        return await self._threads.read(job_rows.journal, job_id, after, limit, newest=newest)

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

    def records(self, kind: Kind[Spec, Status, View]) -> SqlRecords[Spec, Status]:
        """Return the keeper of one kind; see Store."""
        return self._records.setdefault(kind.name, SqlRecords(self._threads, kind))

    def observe(self, heard: Observe) -> None:
        """Tell somebody from now on how long everything takes."""
        self._threads.observe = heard

    @property
    def audit(self) -> SqlAudit:
        """The audit record, which the same database keeps."""
        return SqlAudit(self._threads)

    @property
    def answers(self) -> SqlAnswers:
        """What was answered to requests with a key, which the same database keeps."""
        return SqlAnswers(self._threads)

    async def past_use(self, tenant: Tenant | None, since: Timestamp) -> Sequence[Use]:
        """Return what deleted jobs of a tenant, or of all, had used that ended after a moment."""
        return await self._threads.read(job_rows.past_use, tenant, since)

    async def close(self) -> None:
        """Finish what was begun, then end threads and connections."""
        await self._threads.close()


_conforms: type[Store] = SqlStore
