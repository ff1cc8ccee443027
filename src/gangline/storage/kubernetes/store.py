"""The store that is the cluster: a job object is the record of its job, its status the whole lifecycle.

Nothing else needs a backup, and ``kubectl`` shows what Gangline knows. A tenant is a namespace, so the cluster's own
access rules say who sees what. Guarded writes rest on the object's ``resourceVersion``.
"""

import contextlib
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gangline.errors import ConflictError, NotFoundError, StaleVersionError, StorageError
from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status, View
from gangline.kube import (
    AlreadyExistsError,
    ApiError,
    InvalidError,
    KubeClient,
    KubeError,
    Owner,
)
from gangline.kube import ConflictError as KubeConflictError
from gangline.kube import NotFoundError as KubeNotFoundError
from gangline.model import Clock, Explanation, Job, JobId, JobPage, JournalRecord, Metric, Phase, Tenant, Timestamp
from gangline.storage.interface import JobQuery, Store
from gangline.storage.kubernetes.following.changes import follow_changes
from gangline.storage.kubernetes.following.event_recorder import EventRecorder
from gangline.storage.kubernetes.following.follower import Follower, Listener
from gangline.storage.kubernetes.metrics import MetricKeeper
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.record_objects import RecordObjects
from gangline.storage.kubernetes.records.creation import AUTHOR
from gangline.storage.kubernetes.records.explanations import explanation_change
from gangline.storage.kubernetes.records.record_kind import Plain, RecordKind, StoredJob
from gangline.storage.kubernetes.records.record_text import appended
from gangline.storage.kubernetes.records.started_spec import without_removed_roles
from gangline.storage.listing import (
    HINT_CANDIDATES,
    cursor_to_position,
    is_unfinished,
    matches,
    position_of,
    position_to_cursor,
    unknown_name,
)
from gangline.storage.metrics import MetricPosition, page_of, start_of

_log = logging.getLogger(__name__)
_MOST_SAME_NAME = 100
_STEM = 58
"""How much of a job's name stands before the number in an alias."""


class KubernetesStore:
    """Keeps jobs and records as custom resources.

    ``prefix`` stands before every tenant's namespace and every queue's name. With ``namespace`` only that one is looked
    at, which is all that most users may do. ``author`` is who submits, as the API server calls them.
    ``believes_dates``: see ``JobObjects``.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        prefix: str = "",
        namespace: str | None = None,
        announces: bool = True,
        author: str | None = None,
        believes_dates: bool = False,
    ) -> None:
        self._client = client
        self.author = author
        self._objects = JobObjects(client, prefix=prefix, namespace=namespace, believes_dates=believes_dates)
        self._event_recorder = EventRecorder(client) if announces else None
        self._metrics = MetricKeeper(client, self._metrics_place)
        self._records: dict[str, RecordObjects[Any, Any]] = {}

    # Jobs ----------------------------------------------------------------------------------------------------

    async def create(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Keep a new job; see Store."""
        # Ids are drawn at random. To ask the server for one means to search every kind of object twice.
        if job.id in self._objects.known:
            raise ConflictError(f"there is a job with the id '{job.id}' already")
        namespace = self._objects.namespace_of(job.spec.tenant)
        kind = await self._objects.kind_for(job)
        for name in await self._free_names(kind, job, namespace):
            body = self._signed(self._owned(kind.body(job, records, namespace=namespace, name=name), job))
            try:
                stored = self._objects.read(await self._client.create(kind.resource, body), kind)
                if stored is not None and not self._is_unchanged(stored, job, records):
                    stored = await self._record(stored, job, appended((), records))
            except AlreadyExistsError:
                await self._check_name_is_free(kind, job, namespace, name)
            except ApiError as error:
                raise _refusal(job, error) from error
            else:
                if stored is None:
                    raise StorageError(f"job '{job.name}' belongs to another controller")
                self._objects.wrote(job.id, over=0, version=stored.job.version)
                self._record_if_leading(stored, records)
                return stored.job
        raise ConflictError(f"too many jobs named '{job.name}' are being deleted; try again later")

    def _is_unchanged(self, stored: StoredJob, job: Job, records: Sequence[JournalRecord]) -> bool:
        """Whether a new object says all of its job: a submitter may say little, and few have more to say."""
        known = stored.job
        told, wanted = ([(each.reason, each.message) for each in journal] for journal in (stored.journal, records))
        dates = (known.created_at, known.history)
        if not self._objects.believes_dates and job.phase is known.phase:
            dates = (job.created_at, job.history)
        return told == wanted and replace(job, spec=known.spec) == replace(known, created_at=dates[0], history=dates[1])

    def _signed(self, body: Plain) -> Plain:
        """Say who submits; the admission policy sees to it that it is true."""
        if self.author is None:
            return body
        metadata = body["metadata"]
        annotations = {**metadata["annotations"], AUTHOR: self.author}
        return {**body, "metadata": {**metadata, "annotations": annotations}}

    def _owned(self, body: Plain, job: Job) -> Plain:
        """Let a job belong to the record that called for it."""
        namespace = body["metadata"]["namespace"]
        found = (records.owner_of_job(job, namespace) for records in self._records.values())
        owner = next((each for each in found if each is not None), None)
        if owner is None:
            return body
        reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}

    async def _free_names(self, kind: RecordKind, job: Job, namespace: str) -> Iterator[str]:
        """Return the names to try for the object: the job's own, unless a namesake that is being deleted holds it."""
        if kind.finalizer is None:
            return iter((job.name,))  # a deleted object is gone at once, and its pods bear its name
        for other in await self._same_name(kind, job, namespace):
            self._refuse_same_name(job, other)
        return (job.name if number == 1 else f"{job.name[:_STEM]}-{number}" for number in range(1, _MOST_SAME_NAME))

    async def _same_name(self, kind: RecordKind, job: Job, namespace: str) -> Sequence[StoredJob]:
        if self._objects.complete:
            # One that goes by its own name is met when the object is created; what is looked for is an alias.
            known, stem = self._objects.known.values(), job.name[:_STEM]
            aliases = [stored for stored in known if stored.name.startswith(stem) and stored.name != job.name]
            return [stored for stored in aliases if stored.namespace == namespace and stored.job.name == job.name]
        return await self._objects.aliased(kind, namespace, job.name)

    async def _check_name_is_free(self, kind: RecordKind, job: Job, namespace: str, name: str) -> None:
        with contextlib.suppress(KubeNotFoundError):  # gone meanwhile: the next name is as good
            item = await self._client.get(kind.resource, name, namespace=namespace)
            self._refuse_same_name(job, self._objects.read(item, kind))

    def _refuse_same_name(self, job: Job, other: StoredJob | None) -> None:
        if other is not None and other.job.name == job.name and not (other.job.deleting or other.being_deleted):
            raise ConflictError(f"tenant '{job.spec.tenant}' has a job named '{job.name}' already")

    async def save(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Replace a job; see Store."""
        if (tombstone := self._objects.tombstones.get(job.id)) is not None:
            return self._keep_tombstone(replace(tombstone, job=replace(job, version=job.version + 1)))
        stored = self._objects.known.get(job.id)
        if stored is None or stored.job.version != job.version:
            stored = await self._objects.fetch(job.id)
        if stored.job.version != job.version:
            raise StaleVersionError("job", job.id, expected=job.version, found=stored.job.version)
        journal = appended(stored.journal, records)
        if job.finished:
            await self._metrics.rest(job.id)  # whoever sees that it is over may look at once
        try:
            saved = await self._record(await self._save_spec(stored, job), job, journal)
        except KubeConflictError as error:
            found = await self._objects.fetch(job.id)
            raise StaleVersionError("job", job.id, expected=job.version, found=found.job.version) from error
        except KubeNotFoundError as error:
            self._objects.known.pop(job.id, None)
            raise NotFoundError("job", job.id) from error
        except KubeError as error:
            raise StorageError(f"job '{job.name}' cannot be saved: {error}") from error
        self._objects.wrote(job.id, over=job.version, version=saved.job.version)
        self._record_if_leading(saved, records)
        return saved.job

    async def _record(self, stored: StoredJob, job: Job, journal: tuple[JournalRecord, ...]) -> StoredJob:
        """Write a job into the status of its object, and remember it."""
        body = stored.with_status(job, journal)
        answer = await self._client.replace(stored.kind.resource, body, subresource="status")
        saved = replace(
            stored,
            job=replace(without_removed_roles(job), version=int(answer.metadata.resource_version)),
            journal=journal,
            finalizers=tuple(answer.metadata.finalizers),
            told=stored.told if job.placeable else None,
            recorded=True,
        )
        self._objects.known[job.id] = saved
        return saved

    def _keep_tombstone(self, tombstone: StoredJob) -> Job:
        """Keep the end of a job whose object is gone already."""
        self._objects.tombstones[tombstone.job.id] = tombstone
        return tombstone.job

    async def _save_spec(self, stored: StoredJob, job: Job) -> StoredJob:
        """Write what stands outside the status, if it changed: rarely, and then under the same guard."""
        patch = stored.kind.change(stored, job)
        metadata = patch.setdefault("metadata", {})
        finalizer = stored.kind.finalizer
        if finalizer is not None and finalizer not in stored.finalizers and not stored.being_deleted:
            metadata["finalizers"] = [*stored.finalizers, finalizer]
        if not metadata and len(patch) == 1:
            return stored
        metadata["resourceVersion"] = str(job.version)
        answer = await self._client.patch(stored.kind.resource, stored.name, patch, namespace=stored.namespace)
        return self._objects.decode(answer, stored.kind) or stored

    async def get(self, job_id: JobId) -> Job:
        """Return a job; see Store. Where a watch keeps us up to date nobody is asked: every write is guarded anyway."""
        known = self._objects.known.get(job_id) if self._objects.complete else None
        return (known or await self._objects.fetch(job_id)).job

    async def find(self, tenant: Tenant, name: str) -> Job:
        """Return a job by its name; see Store."""
        named = await self._objects.named(tenant, name)
        if not named:
            raise unknown_name(name, await self._hints(tenant, name))
        bearing = sorted((stored.job for stored in named), key=position_of, reverse=True)
        return next((job for job in bearing if not job.deleting), bearing[0])

    async def _hints(self, tenant: Tenant, name: str) -> Sequence[str]:
        """Return the names that may have been meant. Whoever names a job by its id gets none, nor waits for them."""
        if JobId(name) in self._objects.known:
            return ()
        return [job.name for job in (await self.list(JobQuery(tenant=tenant, limit=HINT_CANDIDATES))).jobs]

    async def list(self, query: JobQuery) -> JobPage:
        """Return one page; see Store."""
        before = cursor_to_position(query.after) if query.after is not None else None
        jobs = sorted((stored.job for stored in await self._objects.all(query.tenant)), key=position_of, reverse=True)
        found = [job for job in jobs if matches(job, query) and (before is None or position_of(job) < before)]
        page = tuple(found[: query.limit])
        return JobPage(jobs=page, next=position_to_cursor(position_of(page[-1])) if len(found) > len(page) else None)

    async def unfinished(self) -> AsyncIterator[Job]:
        """Return the jobs a controller must know; see Store."""
        for stored in await self._objects.all(None):
            # What another operator runs comes by way of the watch, which finds out where its pods are.
            if is_unfinished(stored.job) and not stored.inherited:
                yield stored.job

    async def remove(self, job_id: JobId) -> None:
        """Remove a job; see Store."""
        if self._objects.tombstones.pop(job_id, None) is not None:
            self._metrics.forget(job_id)
            return
        try:
            stored = await self._objects.fetch(job_id)
        except NotFoundError:
            return
        resource = stored.kind.resource
        rest = [name for name in stored.finalizers if name != stored.kind.finalizer]
        try:
            if len(rest) < len(stored.finalizers):
                patch = {"metadata": {"finalizers": rest or None}}
                await self._client.patch(resource, stored.name, patch, namespace=stored.namespace)
            await self._client.delete(resource, stored.name, namespace=stored.namespace, uid=stored.uid)
        except (KubeNotFoundError, KubeConflictError):
            pass  # it was being deleted already and went with its finalizer
        except KubeError as error:
            raise StorageError(f"job '{job_id}' cannot be removed: {error}") from error
        self._metrics.forget(job_id)
        self._objects.known.pop(job_id, None)

    async def journal(
        self, job_id: JobId, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> Sequence[JournalRecord]:
        """Return the job's records; see Store."""
        try:
            stored = await self._objects.fetch(job_id)
        except NotFoundError:
            return ()
        found = tuple(record for record in stored.journal if record.number > after)
        return found[-limit:] if newest else found[:limit]

    # Metrics and records ---------------------------------------------------------------------------------------

    async def add_metrics(self, metrics: Sequence[Metric]) -> None:
        """Append metrics; see Store."""
        for job_id in {metric.job_id for metric in metrics} - self._objects.known.keys():
            await self._objects.find(job_id)
        try:
            await self._metrics.add(metrics)
        except KubeError as error:
            raise StorageError(f"metrics cannot be kept: {error}") from error

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
        if job_id not in self._objects.known:
            await self._objects.find(job_id)
        return page_of(await self._metrics.of(job_id), start_of(since, after), name=name, limit=limit)

    async def has_all_metrics(self, job_id: JobId) -> bool:
        """Whether the object that keeps them was never too small for them; see Store."""
        if job_id not in self._objects.known:
            await self._objects.find(job_id)
        return await self._metrics.has_all(job_id)

    async def latest_metrics(self, job_ids: Sequence[JobId]) -> Sequence[Metric]:
        """Return the newest values; see Store."""
        for job_id in set(job_ids) - self._objects.known.keys():
            await self._objects.find(job_id)
        return await self._metrics.latest(job_ids)

    def records(self, kind: Kind[Spec, Status, View]) -> RecordObjects[Spec, Status]:
        """Return the keeper of one kind; see Store."""
        found: RecordObjects[Spec, Status] | None = self._records.get(kind.name)
        if found is None:
            found = self._records[kind.name] = RecordObjects(self._client, self._objects, kind)
        return found

    async def close(self) -> None:
        """Write what is left; see Store."""
        await self._metrics.close()
        if self._event_recorder is not None:
            await self._event_recorder.close()

    async def owner_of(self, job_id: JobId) -> Owner | None:
        """Return what everything of this job, or of this record, belongs to; the Kubernetes engine asks."""
        owner = self.known_owner(job_id)
        if owner is None and (stored := await self._objects.find(job_id)) is not None:
            owner = stored.owner
        return owner

    def known_owner(self, job_id: JobId) -> Owner | None:
        """Return the same of what was read here before, asking nobody."""
        stored = self._objects.known.get(job_id) or self._objects.tombstones.get(job_id)
        if stored is not None:
            return stored.owner
        found = (records.owners.get(job_id) for records in self._records.values())
        return next((owner for owner in found if owner is not None), None)

    async def follow(self, listener: Listener, clock: Clock) -> None:
        """Tell a listener of every change that was not made here: jobs applied, changed or deleted by hand."""
        await Follower(self._client, self._objects, listener, clock, event_recorder=self._event_recorder).follow()

    @property
    def following(self) -> bool:
        """Whether ``follow`` has seen every job there is, and goes on."""
        return self._objects.complete

    async def follow_changes(self, changed: Callable[[JobId], None]) -> None:
        """Name every job that somebody else changes, for a reader that answers nothing; raises KubeError."""
        await follow_changes(self._client, self._objects, changed)

    # What only a leader and its readers need ------------------------------------------------------------------

    def phases(self) -> Mapping[Phase, int]:
        """Count the jobs that are known here by their phase."""
        return Counter(stored.job.phase for stored in self._objects.known.values())

    def waiting(self) -> Sequence[Job]:
        """Return the jobs that are known here and wait for machines."""
        return [stored.job for stored in self._objects.known.values() if stored.job.placeable]

    def explanation(self, job_id: JobId) -> Explanation | None:
        """Return why a job waits, as its status said when it was last read."""
        stored = self._objects.known.get(job_id)
        return stored.told if stored is not None else None

    async def explain(self, job_id: JobId, told: Explanation) -> None:
        """Say in a job's status why it waits; a job that has gone or moved on meanwhile needs no reason."""
        stored = self._objects.known.get(job_id)
        if stored is None or stored.told == told:
            return
        patch = {
            "metadata": {"resourceVersion": str(stored.job.version)},
            "status": stored.kind.explanation(explanation_change(stored.told, told)),
        }
        try:
            await self._client.patch(
                stored.kind.resource, stored.name, patch, namespace=stored.namespace, subresource="status"
            )
        except (KubeConflictError, KubeNotFoundError):
            return
        except KubeError as error:
            raise StorageError(f"why job '{stored.job.name}' waits cannot be told: {error}") from error

    def _metrics_place(self, job_id: JobId) -> tuple[str, Owner] | None:
        stored = self._objects.known.get(job_id)
        if stored is None:
            return None
        digest = hashlib.sha256(job_id.encode()).hexdigest()[:6]  # somebody may have a ConfigMap of the plain name
        return f"{stored.name}-{digest}-metrics", stored.owner

    def _record_if_leading(self, stored: StoredJob, records: Sequence[JournalRecord]) -> None:
        if self._event_recorder is not None:
            self._event_recorder.record_events(stored, records)


def _refusal(job: Job, error: ApiError) -> Exception:
    if isinstance(error, KubeNotFoundError):
        return NotFoundError("tenant", job.spec.tenant, hint="a tenant is a namespace of the cluster; create it first")
    if isinstance(error, InvalidError):
        return ConflictError(f"the cluster refuses job '{job.name}': {error.message}")
    return StorageError(f"job '{job.name}' cannot be kept: {error.message}")


_conforms: type[Store] = KubernetesStore
