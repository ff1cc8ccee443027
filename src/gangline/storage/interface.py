"""The contract of a store: jobs and sweeps with guarded writes, an append-only journal of events, and metrics.

``gangline.testing.store_suite`` is the proof that a store keeps this contract. A store validates nothing and
decides nothing. All methods may be called concurrently from one event loop.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from gangline.model import Job, JobId, JobPage, JournalRecord, Metric, Phase, Queue, QueueName, Tenant, Timestamp
from gangline.model.sweep import Sweep
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


class Store(Protocol):
    """Keeps jobs, journal, metrics, queues and sweeps."""

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

        A job that is being deleted is found only if no other bears the name; then, the newest.
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
        """Remove a job with its journal and metrics; a job that is gone already is no error."""
        ...

    async def journal(self, job_id: JobId, *, after: int = 0, limit: int = 1000) -> Sequence[JournalRecord]:
        """Return the job's records with a number above ``after``, oldest first."""
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

    async def queues(self) -> Sequence[Queue]:
        """Return all queues by name. A new store has the queue ``default``."""
        ...

    async def save_queue(self, queue: Queue) -> None:
        """Keep a queue, replacing the one of that name."""
        ...

    async def create_sweep(self, sweep: Sweep) -> Sweep:
        """Keep a new sweep and return it with its version.

        Raises ConflictError if the id is known or if the tenant has a sweep of that name.
        """
        ...

    async def save_sweep(self, sweep: Sweep) -> Sweep:
        """Replace a sweep and return it with its new version; its trials are jobs of their own.

        Raises StaleVersionError if ``sweep.version`` is not the kept one, NotFoundError if the sweep is gone.
        """
        ...

    async def sweeps(self, tenant: Tenant | None = None) -> Sequence[Sweep]:
        """Return all sweeps, or those of one tenant, newest first (creation time, then id)."""
        ...

    async def remove_sweep(self, tenant: Tenant, name: str) -> None:
        """Remove a sweep and none of its trials; a sweep that is gone already is no error."""
        ...

    async def close(self) -> None:
        """Release what the store holds; it is not used afterwards."""
        ...
