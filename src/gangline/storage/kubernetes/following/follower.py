"""Tells the controller what others did to the record: jobs applied, changed or deleted by hand, queues changed."""

import asyncio
import logging
from functools import partial
from typing import Protocol

from gangline.errors import StorageError
from gangline.kube import Applied, Change, ConflictError, Deleted, GenericObject, KubeClient, KubeError, Synced
from gangline.lifecycle import Event
from gangline.lifecycle.events import DeleteRequested
from gangline.model import Clock, JobId
from gangline.storage.kubernetes.following.adoption import take_over
from gangline.storage.kubernetes.following.event_recorder import EventRecorder
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.records.events import Subject, subject_of
from gangline.storage.kubernetes.records.record_kind import RecordKind, StoredJob

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0
_DISCOVERY_SECONDS = 15.0
"""How often it is asked whether a kind of job object has been installed or removed."""
_ACKNOWLEDGE_SECONDS = 1.5
"""How long a new job may wait for its first change before its status is written for its own sake."""
_ACKNOWLEDGE_PAUSE_SECONDS = 0.04
"""Between two such writes: of hundreds of new jobs most have their first change before it is their turn."""


class Listener(Protocol):
    """Who wants to know what others did to the record: the controller."""

    def changed(self, job_id: JobId) -> None:
        """Look at this record again."""
        ...

    def hear(self, event: Event) -> None:
        """Take an event in."""
        ...

    def will_save(self, job_id: JobId) -> bool:
        """Whether the record is about to be written."""
        ...


class Follower:
    """Follows the job objects of every kind that is installed, whenever that is."""

    def __init__(
        self,
        client: KubeClient,
        objects: JobObjects,
        listener: Listener,
        clock: Clock,
        *,
        event_recorder: EventRecorder | None = None,
    ) -> None:
        self._client = client
        self._objects = objects
        self._listener = listener
        self._clock = clock
        self._event_recorder = event_recorder
        self._acknowledgements: set[asyncio.Task[None]] = set()
        self._turn_to_acknowledge = asyncio.Lock()
        self._watches: dict[RecordKind, asyncio.Task[None]] = {}

    async def follow(self) -> None:
        """Tell the listener of every change that was not made here, forever."""
        try:
            await self._follow_kinds()
        finally:
            tasks = [*self._watches.values(), *self._acknowledgements]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_kinds(self) -> None:
        while True:
            try:
                kinds = set(await self._objects.kinds(anew=True))
            except StorageError as error:
                _log.warning("%s; trying again", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            for kind in self._watches.keys() - kinds:
                self._watches.pop(kind).cancel()
            for kind in kinds - self._watches.keys():
                self._watches[kind] = asyncio.create_task(self._follow_jobs(kind), name=f"watch {kind.resource.plural}")
            await asyncio.sleep(_DISCOVERY_SECONDS)

    async def _follow_jobs(self, kind: RecordKind) -> None:
        def out_of_date() -> bool:
            self._objects.synced.discard(kind.resource.plural)
            return True

        try:
            take = partial(self._take_in, kind)
            await self._client.follow(kind.resource, take, namespace=self._objects.scope, goes_on=out_of_date)
        finally:
            out_of_date()

    async def _take_in(self, kind: RecordKind, change: Change[GenericObject]) -> None:
        if isinstance(change, Synced):
            self._objects.synced.add(kind.resource.plural)
            self._objects.listed.add(kind.resource.plural)
            return
        if not self._objects.is_ours(change.object.metadata.namespace):
            return
        if isinstance(change, Applied) and not self._objects.is_news(change.object):
            return
        if isinstance(change, Deleted) and self._objects.is_superseded(change.object):
            return
        try:
            stored = self._objects.decode(change.object, kind)
        except StorageError as error:
            await self._refuse(kind, change.object, error)
            return
        if stored is None:
            return
        if isinstance(change, Deleted):
            self._keep_tombstone(stored)
            return
        if stored.inherited:
            stored = await take_over(self._client, change.object, stored)
        self._take(stored)

    def _keep_tombstone(self, stored: StoredJob) -> None:
        """Take in that an object is gone; a gang that still runs is stopped as that of any deleted job."""
        job_id = stored.job.id
        self._objects.known.pop(job_id, None)
        self._objects.handled.pop(job_id, None)
        if stored.job.holding:
            self._objects.tombstones[job_id] = stored
            self._listener.hear(DeleteRequested(job_id=job_id, at=self._clock.now()))
        self._listener.changed(job_id)

    def _take(self, stored: StoredJob) -> None:
        known = self._objects.known.get(stored.job.id)
        self._objects.handled[stored.job.id] = stored.job.version
        if stored.complaint is not None and (known is None or known.complaint != stored.complaint):
            self._complain(stored, stored.complaint)
        if known is None or known.uid != stored.uid or known.job.version <= stored.job.version:
            self._objects.known[stored.job.id] = stored
        if stored.being_deleted and not stored.job.deleting:
            self._listener.hear(DeleteRequested(job_id=stored.job.id, at=self._clock.now()))
        for requested in stored.kind.requested_changes(stored, self._clock):
            self._listener.hear(requested)
        self._listener.changed(stored.job.id)
        if not (stored.recorded or stored.being_deleted or stored.job.finished):
            acknowledgement = asyncio.create_task(self._acknowledge(stored), name=f"acknowledge {stored.name}")
            self._acknowledgements.add(acknowledgement)
            acknowledgement.add_done_callback(self._acknowledgements.discard)

    async def _acknowledge(self, stored: StoredJob) -> None:
        """Show in its status that a job was seen, unless something happens to it soon, which shows the same."""
        if stored.job.placeable:
            await asyncio.sleep(_ACKNOWLEDGE_SECONDS)
        async with self._turn_to_acknowledge:
            if self._objects.known.get(stored.job.id) is not stored or self._listener.will_save(stored.job.id):
                return
            await self._write_acknowledgement(stored)
            await asyncio.sleep(_ACKNOWLEDGE_PAUSE_SECONDS)

    async def _write_acknowledgement(self, stored: StoredJob) -> None:
        body = stored.with_status(stored.job, stored.journal)
        try:
            await self._client.replace(stored.kind.resource, body, subresource="status")
        except ConflictError:
            return  # somebody else was quicker, and shows it
        except KubeError as error:
            _log.warning("the status of %s/%s cannot be written: %s", stored.namespace, stored.name, error)

    async def _refuse(self, kind: RecordKind, item: GenericObject, error: StorageError) -> None:
        """Say in its status why an object cannot be a job: what no schema can check, its author must see too."""
        _log.warning("%s", error)
        status = kind.refusal(item, str(error), self._clock)
        if status is None:
            return
        name, namespace = item.metadata.name, item.metadata.namespace
        try:
            await self._client.patch(kind.resource, name, {"status": status}, namespace=namespace, subresource="status")
        except KubeError as refusal:
            # It may be gone already, or be such that its status cannot be written: others are not to wait for it.
            _log.warning("the status of %s/%s cannot be written: %s", namespace, name, refusal)
        if self._event_recorder is not None:
            subject = Subject(resource=kind.resource, namespace=namespace, name=name, uid=item.metadata.uid)
            self._event_recorder.refuse(subject, str(error), self._clock.now())

    def _complain(self, stored: StoredJob, complaint: str) -> None:
        _log.warning("%s/%s goes on with the spec it had: %s", stored.namespace, stored.name, complaint)
        if self._event_recorder is not None:
            self._event_recorder.refuse(subject_of(stored), complaint, self._clock.now())
