"""The contract of a store: jobs and records with guarded writes, an append-only journal of events, and metrics.

``gangline.testing.store_suite`` is the proof that a store keeps this contract. A store validates nothing and
decides nothing. All methods may be called concurrently from one event loop.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status, View
from gangline.model import Job, JobId, JobPage, JournalRecord, Metric, Phase, QueueName, Tenant, Timestamp
from gangline.model.record import Page, Record, Summary
from gangline.storage.metrics import MetricPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Which jobs to list, newest first. Every given condition must hold.

    ``after`` is the cursor that the page before returned. ``text`` is part of the name, in capitals or not.
    ``created_since`` includes its instant, ``finished_before`` does not.
    """

    tenant: Tenant | None = None
    queue: QueueName | None = None
    phases: frozenset[Phase] | None = None
    labels: tuple[tuple[str, str], ...] = ()
    text: str | None = None
    created_since: Timestamp | None = None
    finished_before: Timestamp | None = None
    limit: int = 100
    after: str | None = None


class Records(Protocol[Spec, Status]):
    """Keeps the records of one kind."""

    async def create(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Keep a new record and return it with its version.

        Raises ConflictError if the id is known or if the tenant has a record of that name.
        """
        ...

    async def save(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Replace a record and return it with its new version; jobs that belong to it are kept for themselves.

        Raises StaleVersionError if ``record.version`` is not the kept one, NotFoundError if the record is gone.
        """
        ...

    async def find(self, tenant: Tenant | None, name: str) -> Record[Spec, Status] | None:
        """Return the tenant's record of that name, if there is one."""
        ...

    async def find_all(self, tenant: Tenant | None, names: Sequence[str]) -> Sequence[Record[Spec, Status]]:
        """Return the tenant's records of these names, in this order; those that do not exist are left out."""
        ...

    async def list(
        self, tenant: Tenant | None = None, *, limit: int | None = None, after: str | None = None
    ) -> Page[Record[Spec, Status]]:
        """Return records of all tenants or of one, newest first (creation time, then id), behind a cursor.

        One that cannot be read hides no other; the page that it would be on, or the first, has its name.
        Raises InvalidInputError if ``after`` is not a cursor.
        """
        ...

    async def unsettled(self) -> Sequence[Record[Spec, Status]]:
        """Return every record for which something may still be done, newest first; few others may be among them."""
        ...

    async def summaries(self, tenant: Tenant) -> Sequence[Summary]:
        """Return the summary of every record of a tenant that is not being deleted, in any order."""
        ...

    async def remove(self, record: Record[Spec, Status]) -> None:
        """Remove a record and none of its jobs; one that is gone already is not an error."""
        ...


class Store(Protocol):
    """Keeps jobs, journal, metrics, and the records of every other kind."""

    async def create(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Keep a new job and return it with its version.

        Raises ConflictError if the id is known or if the tenant has a job of that name that is not being deleted.
        """
        ...

    async def save(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Replace a job and append to its journal in one atomic step; return it with its new version.

        Raises StaleVersionError if ``job.version`` is not the kept one, NotFoundError if the job is gone.
        """
        ...

    async def get(self, job_id: JobId) -> Job:
        """Return a job; raises NotFoundError."""
        ...

    async def find(self, tenant: Tenant, name: str) -> Job:
        """Return the tenant's job of that name; raises NotFoundError with the nearest name as a hint.

        A job that is being deleted is found only if no other has the name; then, the newest.
        """
        ...

    async def list(self, query: JobQuery) -> JobPage:
        """Return one page of jobs, newest first (creation time, then id).

        Raises InvalidInputError if ``query.after`` is not a cursor.
        """
        ...

    def unfinished(self) -> AsyncIterator[Job]:
        """Return every job that is not in a final phase, or still holds machines, or is being deleted, or has a ttl."""
        ...

    async def remove(self, job_id: JobId) -> None:
        """Remove a job with its journal and metrics; a job that is gone already is not an error."""
        ...

    async def journal(
        self, job_id: JobId, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> Sequence[JournalRecord]:
        """Return the job's first ``limit`` records with a number above ``after``, oldest first.

        ``newest`` asks for the last ones instead, in the same order.
        """
        ...

    async def add_metrics(self, metrics: Sequence[Metric]) -> None:
        """Append metrics; repeating the same metric (replica, name, step, time) keeps the first.

        Metrics of a job that is not kept (any more) are dropped: news may arrive late.
        """
        ...

    async def metrics(
        self,
        job_id: JobId,
        *,
        name: str | None = None,
        since: Timestamp | None = None,
        after: MetricPosition | None = None,
        limit: int = 10_000,
    ) -> Sequence[Metric]:
        """Return the job's oldest ``limit`` metrics behind a position, oldest first; fewer mean that these are all."""
        ...

    async def has_all_metrics(self, job_id: JobId) -> bool:
        """Whether no older metrics of the job were given up for newer ones; the newest of each series never are."""
        ...

    async def latest_metrics(self, job_ids: Sequence[JobId]) -> Sequence[Metric]:
        """Return the newest value (by time, then step) of every metric of every replica of these jobs.

        They are ordered by job, replica and name.
        """
        ...

    def records(self, kind: Kind[Spec, Status, View]) -> Records[Spec, Status]:
        """Return the keeper of one kind's records."""
        ...

    async def close(self) -> None:
        """Release what the store holds; it is not used afterwards."""
        ...
