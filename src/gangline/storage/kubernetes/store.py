"""The store that is the cluster: a job object is the record of its job, its status the whole lifecycle.

Nothing else needs a backup, and ``kubectl`` shows what Gangline knows. A tenant is a namespace, so the cluster's own
access rules say who sees what. Guarded writes rest on the object's ``resourceVersion``.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

from gangline.errors import ConflictError, NotFoundError, StaleVersionError, StorageError
from gangline.kube import (
    AlreadyExistsError,
    ApiError,
    InvalidError,
    KubeClient,
    KubeError,
    OwnerReference,
)
from gangline.kube import ConflictError as KubeConflictError
from gangline.kube import NotFoundError as KubeNotFoundError
from gangline.model import Clock, Job, JobId, Metric, Queue, Tenant, Timestamp
from gangline.model.queue import ROOT_QUEUE
from gangline.model.sweep import Sweep
from gangline.storage.interface import JobPage, JobQuery, Record, Store
from gangline.storage.kubernetes.announcer import Announcer
from gangline.storage.kubernetes.definitions import JOBS, QUEUES
from gangline.storage.kubernetes.following import Listener, follow
from gangline.storage.kubernetes.metrics import MetricKeeper
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.wire import (
    FINALIZER,
    NAME,
    Kept,
    appended,
    job_to_object,
    job_to_status,
    object_to_queue,
    queue_to_object,
    spec_to_plain,
)
from gangline.storage.listing import (
    HINT_CANDIDATES,
    cursor_to_position,
    is_unfinished,
    matches,
    position_of,
    position_to_cursor,
    unknown_name,
)

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0
_MOST_NAMESAKES = 100


class KubernetesStore:
    """Keeps jobs and queues as custom resources.

    ``prefix`` stands before every tenant's namespace and every queue's name. With ``namespace`` only that one is looked
    at, which is all that most users may do.
    """

    def __init__(
        self, client: KubeClient, *, prefix: str = "", namespace: str | None = None, announces: bool = True
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._objects = JobObjects(client, prefix=prefix, namespace=namespace)
        self._announcer = Announcer(client) if announces else None
        self._metrics = MetricKeeper(client, self._metrics_place)

    # Jobs ----------------------------------------------------------------------------------------------------

    async def create(self, job: Job, records: Sequence[Record] = ()) -> Job:
        """Keep a new job; see Store."""
        if await self._objects.find(job.id) is not None:
            raise ConflictError(f"there is a job with the id '{job.id}' already")
        namespace = self._objects.namespace_of(job.spec.tenant)
        for name in await self._free_names(job, namespace):
            body = job_to_object(job, records, namespace=namespace, name=name)
            try:
                kept = self._objects.read(await self._client.create(JOBS, body))
            except AlreadyExistsError:
                await self._check_is_no_namesake(job, namespace, name)
            except ApiError as error:
                raise _refusal(job, error) from error
            else:
                self._announce(kept, records)
                return kept.job
        raise ConflictError(f"too many jobs named '{job.name}' are being deleted; try again later")

    async def _free_names(self, job: Job, namespace: str) -> Iterator[str]:
        """Return the names to try for the object: the job's own, unless a namesake that is being deleted holds it."""
        aliased = await self._client.list(JOBS, namespace=namespace, labels={NAME: job.name})
        for item in aliased.items or ():
            self._refuse_namesake(job, self._objects.read(item))
        return (job.name if number == 1 else f"{job.name[:58]}-{number}" for number in range(1, _MOST_NAMESAKES))

    async def _check_is_no_namesake(self, job: Job, namespace: str, name: str) -> None:
        with contextlib.suppress(KubeNotFoundError):  # gone meanwhile: the next name is as good
            self._refuse_namesake(job, self._objects.read(await self._client.get(JOBS, name, namespace=namespace)))

    def _refuse_namesake(self, job: Job, other: Kept) -> None:
        if other.job.name == job.name and not (other.job.deleting or other.being_deleted):
            raise ConflictError(f"tenant '{job.spec.tenant}' has a job named '{job.name}' already")

    async def save(self, job: Job, records: Sequence[Record] = ()) -> Job:
        """Replace a job; see Store."""
        kept = self._objects.known.get(job.id)
        if kept is None or kept.job.version != job.version:
            kept = await self._objects.fetch(job.id)
        if kept.job.version != job.version:
            raise StaleVersionError("job", job.id, expected=job.version, found=kept.job.version)
        journal = appended(kept.journal, records)
        try:
            version = await self._save_spec(kept, job)
            patch = {"metadata": {"resourceVersion": version}, "status": job_to_status(job, journal)}
            answer = await self._client.patch(JOBS, kept.name, patch, namespace=kept.namespace, subresource="status")
        except KubeConflictError as error:
            found = await self._objects.fetch(job.id)
            raise StaleVersionError("job", job.id, expected=job.version, found=found.job.version) from error
        except KubeNotFoundError as error:
            self._objects.known.pop(job.id, None)
            raise NotFoundError("job", job.id) from error
        except KubeError as error:
            raise StorageError(f"job '{job.name}' cannot be saved: {error}") from error
        saved = replace(
            kept,
            job=replace(job, version=int(answer.metadata.resource_version)),
            journal=journal,
            finalizers=tuple(answer.metadata.finalizers),
        )
        self._objects.known[job.id] = saved
        self._announce(saved, records)
        return saved.job

    async def _save_spec(self, kept: Kept, job: Job) -> str:
        """Write what stands outside the status, if it changed: rarely, and then under the same guard."""
        patch: dict[str, object] = {}
        metadata: dict[str, object] = {"resourceVersion": str(job.version)}
        if FINALIZER not in kept.finalizers and not kept.being_deleted:
            metadata["finalizers"] = [*kept.finalizers, FINALIZER]
        if job.spec != kept.job.spec:
            old = dict.fromkeys(kept.job.spec.labels)
            metadata["labels"] = {**old, **job.spec.labels}
            patch["spec"] = spec_to_plain(job.spec)
        if len(metadata) == 1 and not patch:
            return str(job.version)
        answer = await self._client.patch(JOBS, kept.name, {"metadata": metadata, **patch}, namespace=kept.namespace)
        return answer.metadata.resource_version

    async def get(self, job_id: JobId) -> Job:
        """Return a job; see Store."""
        return (await self._objects.fetch(job_id)).job

    async def find(self, tenant: Tenant, name: str) -> Job:
        """Return a job by its name; see Store."""
        jobs = sorted((kept.job for kept in await self._objects.all(tenant)), key=position_of, reverse=True)
        bearing = [job for job in jobs if job.name == name]
        if not bearing:
            raise unknown_name(name, (job.name for job in jobs[:HINT_CANDIDATES]))
        return next((job for job in bearing if not job.deleting), bearing[0])

    async def list(self, query: JobQuery) -> JobPage:
        """Return one page; see Store."""
        before = cursor_to_position(query.after) if query.after is not None else None
        jobs = sorted((kept.job for kept in await self._objects.all(query.tenant)), key=position_of, reverse=True)
        found = [job for job in jobs if matches(job, query) and (before is None or position_of(job) < before)]
        page = tuple(found[: query.limit])
        return JobPage(jobs=page, next=position_to_cursor(position_of(page[-1])) if len(found) > len(page) else None)

    async def unfinished(self) -> AsyncIterator[Job]:
        """Return the jobs a controller must know; see Store."""
        for kept in await self._objects.all(None):
            if is_unfinished(kept.job):
                yield kept.job

    async def remove(self, job_id: JobId) -> None:
        """Remove a job; see Store."""
        try:
            kept = await self._objects.fetch(job_id)
        except NotFoundError:
            return
        rest = [name for name in kept.finalizers if name != FINALIZER]
        try:
            if len(rest) < len(kept.finalizers):
                patch = {"metadata": {"finalizers": rest or None}}
                await self._client.patch(JOBS, kept.name, patch, namespace=kept.namespace)
            await self._client.delete(JOBS, kept.name, namespace=kept.namespace, uid=kept.uid)
        except (KubeNotFoundError, KubeConflictError):
            pass  # it was being deleted already and went with its finalizer
        except KubeError as error:
            raise StorageError(f"job '{job_id}' cannot be removed: {error}") from error
        self._metrics.forget(job_id)
        self._objects.known.pop(job_id, None)

    async def journal(self, job_id: JobId, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Return the job's records; see Store."""
        try:
            kept = await self._objects.fetch(job_id)
        except NotFoundError:
            return ()
        return tuple(record for record in kept.journal if record.number > after)[:limit]

    # Metrics and queues ----------------------------------------------------------------------------------------

    async def add_metrics(self, metrics: Sequence[Metric]) -> None:
        """Append metrics; see Store."""
        for job_id in {metric.job_id for metric in metrics} - self._objects.known.keys():
            await self._objects.find(job_id)
        await self._metrics.add(metrics)

    async def metrics(
        self, job_id: JobId, *, name: str | None = None, since: Timestamp | None = None, limit: int = 10_000
    ) -> Sequence[Metric]:
        """Return the job's metrics; see Store."""
        if job_id not in self._objects.known:
            await self._objects.find(job_id)
        wanted = [
            metric
            for metric in await self._metrics.of(job_id)
            if (name is None or metric.name == name) and (since is None or metric.at >= since)
        ]
        return tuple(wanted[max(0, len(wanted) - limit) :])

    async def latest_metrics(self, job_ids: Sequence[JobId]) -> Sequence[Metric]:
        """Return the newest values; see Store."""
        for job_id in set(job_ids) - self._objects.known.keys():
            await self._objects.find(job_id)
        return await self._metrics.latest(job_ids)

    async def queues(self) -> Sequence[Queue]:
        """Return all queues; see Store."""
        try:
            found = await self._client.list(QUEUES)
        except KubeError as error:
            raise StorageError(f"the queues cannot be read: {error}") from error
        names = [
            (item.metadata.name.removeprefix(self._prefix), item)
            for item in found.items or ()
            if self._objects.is_ours(item.metadata.name)
        ]
        queues = {name: object_to_queue(item, name=name) for name, item in names}
        queues.setdefault(ROOT_QUEUE.name, ROOT_QUEUE)
        return tuple(queues[name] for name in sorted(queues))

    async def save_queue(self, queue: Queue) -> None:
        """Keep a queue; see Store."""
        body = queue_to_object(queue, name=f"{self._prefix}{queue.name}")
        try:
            await self._client.apply(QUEUES, body, force=True)
        except KubeError as error:
            raise StorageError(f"queue '{queue.name}' cannot be saved: {error}") from error

    async def create_sweep(self, sweep: Sweep) -> Sweep:
        """Refuse: a sweep has no custom resource."""
        raise StorageError("sweeps are not kept on Kubernetes yet")

    async def save_sweep(self, sweep: Sweep) -> Sweep:
        """Refuse, as there is no sweep that could be replaced."""
        raise NotFoundError("sweep", sweep.name)

    async def sweeps(self, tenant: Tenant | None = None) -> Sequence[Sweep]:
        """Return none, for none is kept."""
        return ()

    async def remove_sweep(self, tenant: Tenant, name: str) -> None:
        """Do nothing: a sweep that is gone is no error."""

    async def close(self) -> None:
        """Write what is left; see Store."""
        await self._metrics.close()
        if self._announcer is not None:
            await self._announcer.close()

    async def owner_of(self, job_id: JobId) -> OwnerReference | None:
        """Return what everything of this job belongs to; the Kubernetes engine asks."""
        kept = self._objects.known.get(job_id) or await self._objects.find(job_id)
        return _owner(kept) if kept is not None else None

    async def follow(self, listener: Listener, clock: Clock) -> None:
        """Tell a listener of every change that was not made here: jobs applied, changed or deleted by hand."""
        await follow(self._client, self._objects, listener, clock)

    def _metrics_place(self, job_id: JobId) -> tuple[str, str, OwnerReference] | None:
        kept = self._objects.known.get(job_id)
        return (kept.namespace, f"{kept.name}-metrics", _owner(kept)) if kept is not None else None

    def _announce(self, kept: Kept, records: Sequence[Record]) -> None:
        if self._announcer is not None:
            self._announcer.announce(kept, records)


def _owner(kept: Kept) -> OwnerReference:
    return OwnerReference(api_version=JOBS.api_version, kind=JOBS.kind, name=kept.name, uid=kept.uid)


def _refusal(job: Job, error: ApiError) -> Exception:
    if isinstance(error, KubeNotFoundError):
        return NotFoundError("tenant", job.spec.tenant, hint="a tenant is a namespace of the cluster; create it first")
    if isinstance(error, InvalidError):
        return ConflictError(f"the cluster refuses job '{job.name}': {error.message}")
    return StorageError(f"job '{job.name}' cannot be kept: {error.message}")


_conforms: type[Store] = KubernetesStore
