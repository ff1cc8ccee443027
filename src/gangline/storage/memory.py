"""The store that forgets when its process ends: for simulations, tests and trying things out."""

import bisect
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Generic

from gangline.errors import ConflictError, NotFoundError, StaleVersionError
from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status, View
from gangline.model import Job, JobId, JobPage, JournalRecord, Metric, Tenant, Timestamp
from gangline.model.record import Page, Record, Summary
from gangline.storage.interface import JobQuery, Store
from gangline.storage.listing import (
    HINT_CANDIDATES,
    Position,
    cursor_to_position,
    id_taken,
    is_unfinished,
    matches,
    name_taken,
    page_of_records,
    position_of,
    position_to_cursor,
    summaries_of,
    unknown_name,
)
from gangline.storage.metrics import MetricKey, MetricPosition, SeriesKey, age_of, key_of, page_of, series_of, start_of


class MemoryRecords(Generic[Spec, Status]):
    """Keeps the records of one kind in a dictionary."""

    def __init__(self, kind: Kind[Spec, Status, View]) -> None:
        self._kind = kind.name
        self._whole_kind: Kind[Spec, Status, Any] = kind
        self._kept: dict[tuple[Tenant | None, str], Record[Spec, Status]] = {}

    async def create(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Keep a new record; see Records."""
        if any(kept.id == record.id for kept in self._kept.values()):
            raise id_taken(self._kind, record)
        if (record.tenant, record.name) in self._kept:
            raise name_taken(self._kind, record)
        self._kept[record.tenant, record.name] = created = replace(record, version=1)
        return created

    async def save(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Replace a record; see Records."""
        kept = self._kept.get((record.tenant, record.name))
        if kept is None or kept.id != record.id:
            raise NotFoundError(self._kind, record.name)
        if kept.version != record.version:
            raise StaleVersionError(self._kind, record.name, expected=record.version, found=kept.version)
        self._kept[record.tenant, record.name] = saved = replace(record, version=record.version + 1)
        return saved

    async def find(self, tenant: Tenant | None, name: str) -> Record[Spec, Status] | None:
        """Return a record by its name; see Records."""
        return self._kept.get((tenant, name))

    async def find_all(self, tenant: Tenant | None, names: Sequence[str]) -> Sequence[Record[Spec, Status]]:
        """Return several records; see Records."""
        found = [await self.find(tenant, name) for name in names]
        return tuple(record for record in found if record is not None)

    async def list(
        self, tenant: Tenant | None = None, *, limit: int | None = None, after: str | None = None
    ) -> Page[Record[Spec, Status]]:
        """Return one page; see Records."""
        found = (record for record in self._kept.values() if tenant in (None, record.tenant))
        return page_of_records(found, limit, after)

    async def unsettled(self) -> Sequence[Record[Spec, Status]]:
        """Return what something may be done for; see Records."""
        found = page_of_records(self._kept.values(), None, None).items
        return tuple(record for record in found if not record.settled)

    async def summaries(self, tenant: Tenant) -> Sequence[Summary]:
        """Return all summaries; see Records."""
        return summaries_of(self._whole_kind, (await self.list(tenant)).items)

    async def remove(self, record: Record[Spec, Status]) -> None:
        """Remove a record; see Records."""
        self._kept.pop((record.tenant, record.name), None)


class MemoryStore:
    """Keeps everything in dictionaries. Its methods never wait, so each is atomic on its event loop."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, Job] = {}
        self._positions: list[Position] = []
        self._unfinished: dict[JobId, None] = {}
        self._named: dict[tuple[Tenant, str], JobId] = {}
        self._journals: dict[JobId, list[JournalRecord]] = {}
        self._last_record = 0
        self._metrics: dict[JobId, dict[MetricKey, Metric]] = {}
        self._latest: dict[JobId, dict[SeriesKey, Metric]] = {}
        self._records: dict[str, MemoryRecords[Any, Any]] = {}

    async def create(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Keep a new job; see Store."""
        if job.id in self._jobs:
            raise ConflictError(f"there is a job with the id '{job.id}' already")
        if (job.spec.tenant, job.name) in self._named:
            raise ConflictError(f"tenant '{job.spec.tenant}' has a job named '{job.name}' already")
        self._journals[job.id] = []
        self._metrics[job.id] = {}
        self._latest[job.id] = {}
        bisect.insort(self._positions, position_of(job))
        return self._keep(replace(job, version=1), records)

    async def save(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Replace a job; see Store."""
        kept = self._jobs.get(job.id)
        if kept is None:
            raise NotFoundError("job", job.id)
        if kept.version != job.version:
            raise StaleVersionError("job", job.id, expected=job.version, found=kept.version)
        return self._keep(replace(job, version=job.version + 1), records)

    def _keep(self, job: Job, records: Sequence[JournalRecord]) -> Job:
        self._jobs[job.id] = job
        name = (job.spec.tenant, job.name)
        if not job.deleting:
            self._named[name] = job.id
        elif self._named.get(name) == job.id:
            del self._named[name]
        if is_unfinished(job):
            self._unfinished[job.id] = None
        else:
            self._unfinished.pop(job.id, None)
        for record in records:
            self._last_record += 1
            self._journals[job.id].append(replace(record, number=self._last_record))
        return job

    async def get(self, job_id: JobId) -> Job:
        """Return a job; see Store."""
        job = self._jobs.get(job_id)
        if job is None:
            raise NotFoundError("job", job_id)
        return job

    async def find(self, tenant: Tenant, name: str) -> Job:
        """Return a job by its name; see Store."""
        if (tenant, name) in self._named:
            return self._jobs[self._named[tenant, name]]
        newest_first = (self._jobs[JobId(position.id)] for position in reversed(self._positions))
        of_tenant = [job for job in newest_first if job.spec.tenant == tenant]
        deleted = next((job for job in of_tenant if job.name == name), None)
        if deleted is None:
            raise unknown_name(name, (job.name for job in of_tenant[:HINT_CANDIDATES]))
        return deleted

    async def list(self, query: JobQuery) -> JobPage:
        """Return one page; see Store."""
        end = len(self._positions)
        if query.after is not None:
            end = bisect.bisect_left(self._positions, cursor_to_position(query.after))
        newest_first = (self._jobs[JobId(self._positions[index].id)] for index in range(end - 1, -1, -1))
        found = tuple(islice((job for job in newest_first if matches(job, query)), query.limit + 1))
        jobs = found[: query.limit]
        return JobPage(jobs=jobs, next=position_to_cursor(position_of(jobs[-1])) if len(found) > len(jobs) else None)

    async def unfinished(self) -> AsyncIterator[Job]:
        """Return the jobs a controller must know; see Store."""
        for job_id in tuple(self._unfinished):
            if job_id in self._unfinished:
                yield self._jobs[job_id]

    async def remove(self, job_id: JobId) -> None:
        """Remove a job; see Store."""
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        del self._positions[bisect.bisect_left(self._positions, position_of(job))]
        self._unfinished.pop(job_id, None)
        if self._named.get((job.spec.tenant, job.name)) == job_id:
            del self._named[job.spec.tenant, job.name]
        del self._journals[job_id], self._metrics[job_id], self._latest[job_id]

    async def journal(
        self, job_id: JobId, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> Sequence[JournalRecord]:
        """Return the job's records; see Store."""
        found = tuple(record for record in self._journals.get(job_id, []) if record.number > after)
        return found[-limit:] if newest else found[:limit]

    async def add_metrics(self, metrics: Sequence[Metric]) -> None:
        """Append metrics; see Store."""
        for metric in metrics:
            if metric.job_id not in self._jobs:
                continue
            self._metrics[metric.job_id].setdefault(key_of(metric), metric)
            latest = self._latest[metric.job_id]
            if age_of(metric) > age_of(latest.setdefault(series_of(metric), metric)):
                latest[series_of(metric)] = metric

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
        kept = self._metrics.get(job_id, {}).values()
        return page_of(kept, start_of(since, after), name=name, limit=limit)

    async def has_all_metrics(self, job_id: JobId) -> bool:
        """Return True: nothing is given up; see Store."""
        return True

    async def latest_metrics(self, job_ids: Sequence[JobId]) -> Sequence[Metric]:
        """Return the newest values; see Store."""
        found = (self._latest[job_id] for job_id in sorted(set(job_ids)) if job_id in self._latest)
        return tuple(latest[series] for latest in found for series in sorted(latest))

    def records(self, kind: Kind[Spec, Status, View]) -> "MemoryRecords[Spec, Status]":
        """Return the keeper of one kind; see Store."""
        return self._records.setdefault(kind.name, MemoryRecords(kind))

    async def close(self) -> None:
        """Nothing is held; see Store."""


_conforms: type[Store] = MemoryStore
