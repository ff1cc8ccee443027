"""What belongs to records, as their plans see it: read once, and then only what is known to have changed.

What is remembered only saves time. It is made from the store, is forgotten when anything goes wrong, and a job of which
no change was announced is found when all of it is read again.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from gangline.errors import NotFoundError
from gangline.kinds import AnyKind, Owned
from gangline.model import Job, JobId, Metric, Phase, Timestamp
from gangline.model.record import Record, RecordId, owner_of
from gangline.storage.interface import Store
from gangline.storage.metrics import MetricPosition, order_of
from gangline.storage.owned import pages_of_jobs, pages_of_reports, read_history

AnyRecord = Record[Any, Any]

_TRUSTED_SECONDS = 300.0
"""After this time everything is read again, in case a change was not announced."""


@dataclass
class _Reports:
    """What one running job reported of a metric that is followed."""

    kept: list[Metric] = field(default_factory=list)
    read: int = 0
    """How many there were, of which some were not kept."""
    last: MetricPosition | None = None


@dataclass
class _Known:
    """The jobs of one record, or what the kind's digest made of those that have ended, and what they reported."""

    read_at: Timestamp
    """When all of them were read."""
    jobs: dict[JobId, Job] = field(default_factory=dict)
    ended: dict[JobId, Any] = field(default_factory=dict)
    past: Any = None
    """What the kind's gather made of those; None if that has to be done again."""
    metrics: dict[JobId, tuple[Metric, ...]] = field(default_factory=dict)
    reports: dict[tuple[JobId, str], _Reports] = field(default_factory=dict)
    changed: set[JobId] = field(default_factory=set)
    spec: Any = None
    """The record's, as it was read first: each turn reads it again, and digests would keep parts of every one."""

    def forget(self, job_id: JobId) -> None:
        self.jobs.pop(job_id, None)
        self.metrics.pop(job_id, None)
        if job_id in self.ended:
            del self.ended[job_id]
            self.past = None

    def sharing(self, record: AnyRecord) -> AnyRecord:
        """Return the record with the very spec that it had before, unless that has changed."""
        if self.spec is None or self.spec != record.spec:
            self.spec = record.spec
        return replace(record, spec=self.spec)


class OwnedJobs:
    """Reads the jobs of records."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[RecordId, _Known] = {}

    def changed(self, job_id: JobId) -> None:
        """Read this job again before the next plan of its record."""
        known = self._known.get(owner_of(job_id))
        if known is not None:
            known.changed.add(job_id)

    def forget(self, record_id: RecordId | None = None) -> None:
        """Read everything of a record, or of all, again."""
        if record_id is None:
            self._known.clear()
        else:
            self._known.pop(record_id, None)

    def keep_only(self, record_ids: Set[RecordId]) -> None:
        """Forget every other record."""
        self._known = {each: known for each, known in self._known.items() if each in record_ids}

    async def read(self, kind: AnyKind, record: AnyRecord, now: Timestamp) -> Owned:
        """Return what belongs to a record, jobs in the order in which they were made."""
        try:
            return await self._read(kind, record, now)
        except Exception:
            self.forget(record.id)  # what was read halfway is not known
            raise

    async def _read(self, kind: AnyKind, record: AnyRecord, now: Timestamp) -> Owned:
        known = self._known.get(record.id)
        if known is None or now - known.read_at > _TRUSTED_SECONDS:
            known = self._known[record.id] = _Known(now)  # before reading: what changes meanwhile is read again
            async for page in pages_of_jobs(self._store, kind, record):
                await self._learn(kind, record, known, page)
        else:
            running = [job for job in known.jobs.values() if not job.finished and job.id not in known.changed]
            await self._learn(kind, record, known, [*running, *await self._read_changed(known)])
        jobs = tuple(sorted(known.jobs.values(), key=lambda job: (job.created_at, job.id)))
        return Owned(
            jobs=jobs,
            ended=tuple(known.ended.values()) if kind.gather is None else (),
            past=known.past,
            metrics=tuple(metric for job in jobs for metric in known.metrics.get(job.id, ())),
            history=await self._read_history(kind, record, known, jobs),
        )

    async def _read_history(
        self, kind: AnyKind, record: AnyRecord, known: _Known, jobs: Sequence[Job]
    ) -> tuple[Metric, ...]:
        """Return what the kind follows: of running jobs only what is new is read, and only what it needs is kept."""
        if kind.sift is None:
            return await read_history(self._store, kind, record, jobs)
        before, known.reports = known.reports, {}
        for job in jobs:
            for metric in kind.follows(record.spec) if job.phase is Phase.PROCESSING else ():
                found = known.reports[job.id, metric] = before.get((job.id, metric)) or _Reports()
                async for page in pages_of_reports(self._store, job, metric, found.last):
                    found.last = order_of(page[-1])
                    new = [
                        replace(each, step=n) if each.step is None else each
                        for n, each in enumerate(page, found.read + 1)
                    ]
                    found.read += len(page)
                    found.kept = list(kind.sift(record, job, [*found.kept, *new]))
        return tuple(metric for found in known.reports.values() for metric in found.kept)

    async def _read_changed(self, known: _Known) -> list[Job]:
        changed, known.changed = known.changed, set()
        found = list[Job]()
        for job_id in changed:
            try:
                found.append(await self._store.get(job_id))
            except NotFoundError:
                known.forget(job_id)
        return found

    async def _learn(self, kind: AnyKind, record: AnyRecord, known: _Known, jobs: Sequence[Job]) -> None:
        """Read what jobs reported, and keep of those that have ended no more than the plan needs."""
        found: Sequence[Metric] = ()
        if jobs and kind.reads_metrics(record.spec):
            found = await self._store.latest_metrics([job.id for job in jobs])
        metrics = {job_id: tuple(mine) for job_id, mine in groupby(found, key=lambda metric: metric.job_id)}
        new = list[Any]()
        shared = known.sharing(record) if any(job.finished for job in jobs) else record
        for job in jobs:
            if job.finished and kind.digest is not None:
                digest = kind.digest(shared, job, metrics.get(job.id, ()))
                if job.id in known.ended and known.ended[job.id] == digest:
                    continue  # what changed since its end is nothing that the plan asks for
                known.forget(job.id)
                known.ended[job.id] = digest
                new.append(digest)
            else:
                known.forget(job.id)
                known.jobs[job.id] = job
                known.metrics[job.id] = metrics.get(job.id, ())
        if kind.gather is not None:
            again = known.past is None
            known.past = kind.gather(record, known.past, tuple(known.ended.values()) if again else new)
