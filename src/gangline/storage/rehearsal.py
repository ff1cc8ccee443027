"""A store that forgets: what is written to it is seen by whoever holds it, and the store behind it is left as it is.

A dry run is an operation on such a store, so that it is refused for the very reasons for which it would be refused.
Lists and journals show what is really kept.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, Generic

from gangline.errors import ConflictError, NotFoundError, StaleVersionError
from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status, View
from gangline.model import Job, JobId, JobPage, JournalRecord, Metric, Tenant, Timestamp
from gangline.model.record import Page, Record, Summary
from gangline.storage.interface import JobQuery, Records, Store
from gangline.storage.listing import name_taken
from gangline.storage.metrics import MetricPosition


class RehearsalRecords(Generic[Spec, Status]):
    """Records of one kind, and what was written over them."""

    def __init__(self, behind: Records[Spec, Status], kind: str) -> None:
        self._behind = behind
        self._kind = kind
        self._written: dict[tuple[Tenant | None, str], Record[Spec, Status] | None] = {}

    async def create(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Write a new record; see Records."""
        if await self.find(record.tenant, record.name) is not None:
            raise name_taken(self._kind, record)
        return self._write(replace(record, version=1))

    async def save(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Write over a record; see Records."""
        kept = await self.find(record.tenant, record.name)
        if kept is None or kept.id != record.id:
            raise NotFoundError(self._kind, record.name)
        if kept.version != record.version:
            raise StaleVersionError(self._kind, record.name, expected=record.version, found=kept.version)
        return self._write(replace(record, version=record.version + 1))

    def _write(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        self._written[record.tenant, record.name] = record
        return record

    async def find(self, tenant: Tenant | None, name: str) -> Record[Spec, Status] | None:
        """Return what was written, else what is kept; see Records."""
        if (tenant, name) in self._written:
            return self._written[tenant, name]
        return await self._behind.find(tenant, name)

    async def find_all(self, tenant: Tenant | None, names: Sequence[str]) -> Sequence[Record[Spec, Status]]:
        """Return several records; see Records."""
        found = [await self.find(tenant, name) for name in names]
        return tuple(record for record in found if record is not None)

    async def list(
        self, tenant: Tenant | None = None, *, limit: int | None = None, after: str | None = None
    ) -> Page[Record[Spec, Status]]:
        """Return what is kept; see Records."""
        return await self._behind.list(tenant, limit=limit, after=after)

    async def unsettled(self) -> Sequence[Record[Spec, Status]]:
        """Return what is kept; see Records."""
        return await self._behind.unsettled()

    async def summaries(self, tenant: Tenant) -> Sequence[Summary]:
        """Return what is kept; see Records."""
        return await self._behind.summaries(tenant)

    async def remove(self, record: Record[Spec, Status]) -> None:
        """Forget a record here alone; see Records."""
        self._written[record.tenant, record.name] = None


class RehearsalStore:
    """A store, and what was written over it."""

    def __init__(self, behind: Store) -> None:
        self._behind = behind
        self._jobs: dict[JobId, Job | None] = {}
        self._records: dict[str, RehearsalRecords[Any, Any]] = {}

    async def create(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Write a new job; see Store."""
        if await self._known(job.id) is not None:
            raise ConflictError(f"there is a job with the id '{job.id}' already")
        try:
            named = await self.find(job.spec.tenant, job.name)
        except NotFoundError:
            named = None
        if named is not None and not named.deleting:
            raise ConflictError(f"tenant '{job.spec.tenant}' has a job named '{job.name}' already")
        return self._write(replace(job, version=1))

    async def save(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Write over a job; see Store."""
        kept = await self.get(job.id)
        if kept.version != job.version:
            raise StaleVersionError("job", job.id, expected=job.version, found=kept.version)
        return self._write(replace(job, version=job.version + 1))

    def _write(self, job: Job) -> Job:
        self._jobs[job.id] = job
        return job

    async def _known(self, job_id: JobId) -> Job | None:
        try:
            return await self.get(job_id)
        except NotFoundError:
            return None

    async def get(self, job_id: JobId) -> Job:
        """Return what was written, else what is kept; see Store."""
        if job_id not in self._jobs:
            return await self._behind.get(job_id)
        job = self._jobs[job_id]
        if job is None:
            raise NotFoundError("job", job_id)
        return job

    async def find(self, tenant: Tenant, name: str) -> Job:
        """Return a job by its name; see Store."""
        for job in self._jobs.values():
            if job is not None and (job.spec.tenant, job.name) == (tenant, name):
                return job
        return await self.get((await self._behind.find(tenant, name)).id)

    async def list(self, query: JobQuery) -> JobPage:
        """Return what is kept; see Store."""
        return await self._behind.list(query)

    async def unfinished(self) -> AsyncIterator[Job]:
        """Return what is kept; see Store."""
        async for job in self._behind.unfinished():
            yield job

    async def remove(self, job_id: JobId) -> None:
        """Forget a job here alone; see Store."""
        self._jobs[job_id] = None

    async def journal(
        self, job_id: JobId, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> Sequence[JournalRecord]:
        """Return what is kept; see Store."""
        return await self._behind.journal(job_id, after=after, limit=limit, newest=newest)

    async def add_metrics(self, metrics: Sequence[Metric]) -> None:
        """Forget them; see Store."""

    async def metrics(
        self,
        job_id: JobId,
        *,
        name: str | None = None,
        since: Timestamp | None = None,
        after: MetricPosition | None = None,
        limit: int = 10_000,
    ) -> Sequence[Metric]:
        """Return what is kept; see Store."""
        return await self._behind.metrics(job_id, name=name, since=since, after=after, limit=limit)

    async def has_all_metrics(self, job_id: JobId) -> bool:
        """Tell what the store behind it tells; see Store."""
        return await self._behind.has_all_metrics(job_id)

    async def latest_metrics(self, job_ids: Sequence[JobId]) -> Sequence[Metric]:
        """Return what is kept; see Store."""
        return await self._behind.latest_metrics(job_ids)

    def records(self, kind: Kind[Spec, Status, View]) -> RehearsalRecords[Spec, Status]:
        """Return the keeper of one kind; see Store."""
        return self._records.setdefault(kind.name, RehearsalRecords(self._behind.records(kind), kind.name))

    async def close(self) -> None:
        """The store behind it is not ours to close; see Store."""


_conforms: type[Store] = RehearsalStore
