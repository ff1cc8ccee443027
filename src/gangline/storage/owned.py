"""Reading what belongs to a record out of a store, and the queues there are."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from gangline.kinds import Kind, Owned
from gangline.kinds.kind import Spec, Status, View
from gangline.kinds.queue import QUEUE
from gangline.model import (
    ACTIVE_PHASES,
    WAITING_PHASES,
    Job,
    Metric,
    Phase,
    Queue,
    QueueName,
    Resources,
    Tenant,
    Timestamp,
)
from gangline.model.kinds.queue import QueueLoad
from gangline.model.record import Record, RecordId, owner_of
from gangline.storage.interface import JobQuery, Store
from gangline.storage.listing import every
from gangline.storage.metrics import MetricPosition, order_of

_PAGE = 500
_REPORTS = 2000
"""How many reports are read at a time, and of a running job at all unless its kind sifts them."""


async def read_owned(store: Store, kind: Kind[Spec, Status, View], record: Record[Spec, Status]) -> Owned:
    """Return the jobs that belong to a record, oldest first, with what they reported if its kind looks at that."""
    if not kind.owns_jobs:
        return Owned()
    jobs = await read_jobs(store, kind, record)
    metrics = await store.latest_metrics([job.id for job in jobs]) if kind.reads_metrics(record.spec) else ()
    return Owned(jobs=jobs, metrics=tuple(metrics), history=await read_history(store, kind, record, jobs))


async def read_jobs(store: Store, kind: Kind[Spec, Status, View], record: Record[Spec, Status]) -> tuple[Job, ...]:
    """Return the jobs that belong to a record, oldest first.

    Labels are anybody's to set; the id is what makes a job belong to this very record.
    """
    pages = [page async for page in pages_of_jobs(store, kind, record)]
    return tuple(reversed([job for page in pages for job in page]))


async def pages_of_jobs(
    store: Store, kind: Kind[Spec, Status, View], record: Record[Spec, Status]
) -> AsyncGenerator[list[Job], None]:
    """Return the jobs that belong to a record, newest first and some at a time."""
    query = JobQuery(tenant=record.tenant, labels=((kind.label, record.name),), limit=_PAGE)
    while True:
        page = await store.list(query)
        yield [job for job in page.jobs if owner_of(job.id) == record.id]
        if page.next is None:
            return
        query = replace(query, after=page.next)


async def read_history(
    store: Store, kind: Kind[Spec, Status, View], record: Record[Spec, Status], jobs: Sequence[Job]
) -> tuple[Metric, ...]:
    """Return what running jobs, and others if the kind asks for them, reported of the metrics that it follows."""
    found = list[Metric]()
    for metric in kind.follows(record.spec):
        for job in jobs:
            if job.phase is Phase.PROCESSING:
                found += await store.metrics(job.id, name=metric, limit=_REPORTS)
            elif job.finished and kind.follows_ended(record, job):
                async for page in pages_of_reports(store, job, metric):
                    found += page
    return tuple(found)


async def pages_of_reports(
    store: Store, job: Job, metric: str, after: MetricPosition | None = None
) -> AsyncGenerator[Sequence[Metric], None]:
    """Return what a job reported behind a position, oldest first and some at a time."""
    while True:
        page = await store.metrics(job.id, name=metric, after=after, limit=_REPORTS)
        if page:
            after = order_of(page[-1])
            yield page
        if len(page) < _REPORTS:
            return


async def read_queue_load(store: Store, queue: QueueName, record_id: RecordId) -> QueueLoad:
    """Return what jobs of a queue that do not belong to a record hold, and how many of them wait."""
    used, waiting = Resources(), 0
    query = JobQuery(queue=queue, phases=WAITING_PHASES | ACTIVE_PHASES | {Phase.HALTING}, limit=_PAGE)
    async for job in every(store, query):
        if owner_of(job.id) == record_id:
            continue
        waiting += job.placeable
        if job.holding:
            used = sum((role.resources * role.replicas for role in job.spec.roles), used)
    return QueueLoad(used=used, waiting=waiting)


async def find_record(
    store: Store, kind: Kind[Spec, Status, View], tenant: Tenant | None, name: str
) -> Record[Spec, Status] | None:
    """Return a record by its name, if it was made or always exists."""
    found = await store.records(kind).find(tenant, name)
    if found is not None:
        return found
    return next((_unmade(kind, spec) for spec in kind.always if spec.name == name), None)


async def all_records(
    store: Store, kind: Kind[Spec, Status, View], tenant: Tenant | None = None
) -> Sequence[Record[Spec, Status]]:
    """Return every record, by name where the kind has some that always exist, else newest first."""
    made = (await store.records(kind).list(tenant)).items
    if not kind.always:
        return made
    by_name = {spec.name: _unmade(kind, spec) for spec in kind.always} | {record.name: record for record in made}
    return tuple(by_name[name] for name in sorted(by_name))


def _unmade(kind: Kind[Spec, Status, View], spec: Spec) -> Record[Spec, Status]:
    """Stand in for a record that nobody has made or changed yet: no store has a version of it."""
    return Record(id=RecordId(spec.name), spec=spec, status=kind.status(), created_at=Timestamp(0.0))


async def read_queues(store: Store) -> tuple[Queue, ...]:
    """Return all queues by name; there is always the queue ``default``."""
    return tuple(record.spec for record in await all_records(store, QUEUE))
