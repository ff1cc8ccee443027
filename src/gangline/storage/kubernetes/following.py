"""Tells the controller what others did to the record: jobs applied, changed or deleted by hand, queues changed."""

import asyncio
import contextlib
import logging
from typing import Protocol

from gangline.errors import StorageError
from gangline.kube import Applied, ConflictError, Deleted, GenericObject, KubeClient, KubeError, Synced
from gangline.lifecycle import Event
from gangline.lifecycle.events import DeleteRequested
from gangline.model import Clock, JobId
from gangline.storage.kubernetes.adoption import take_over
from gangline.storage.kubernetes.announcements import Subject, subject_of
from gangline.storage.kubernetes.announcer import Announcer
from gangline.storage.kubernetes.definitions import QUEUES
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.records import Kept, RecordKind

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0
_DISCOVERY_SECONDS = 15.0
"""How often it is asked whether a kind of job object has been installed or removed."""
_GREETING_SECONDS = 1.5
"""How long a new job may wait for its first change before its status is written for its own sake."""
_GREETING_PAUSE_SECONDS = 0.04
"""Between two such writes: of hundreds of new jobs most have their first change before it is their turn."""


class Listener(Protocol):
    """Who wants to know what others did to the record: the controller."""

    def changed(self, job_id: JobId) -> None:
        """Look at this record again."""
        ...

    def queues_changed(self) -> None:
        """Read the queues again."""
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
        announcer: Announcer | None = None,
    ) -> None:
        self._client = client
        self._objects = objects
        self._listener = listener
        self._clock = clock
        self._announcer = announcer
        self._greetings: set[asyncio.Task[None]] = set()
        self._turn_to_greet = asyncio.Lock()
        self._watches: dict[RecordKind, asyncio.Task[None]] = {}

    async def follow(self) -> None:
        """Tell the listener of every change that was not made here, for ever."""
        try:
            await asyncio.gather(self._follow_kinds(), self._follow_queues())
        finally:
            tasks = [*self._watches.values(), *self._greetings]
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
        while True:
            try:
                changes = self._client.reflect(kind.resource, namespace=self._objects.scope)
                async with contextlib.aclosing(changes):
                    async for change in changes:
                        await self._take_in(kind, change)
            except KubeError as error:
                _log.warning("%s cannot be watched; trying again: %s", kind.resource.plural, error)
            finally:
                self._objects.synced.discard(kind.resource.plural)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _take_in(
        self, kind: RecordKind, change: Applied[GenericObject] | Deleted[GenericObject] | Synced
    ) -> None:
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
            kept = self._objects.decode(change.object, kind)
        except StorageError as error:
            await self._refuse(kind, change.object, error)
            return
        if kept is None:
            return
        if isinstance(change, Deleted):
            self._bury(kept)
            return
        if kept.inherited:
            kept = await take_over(self._client, change.object, kept)
        self._take(kept)

    def _bury(self, kept: Kept) -> None:
        """Take in that an object is gone; a gang that still runs is stopped as that of any deleted job."""
        job_id = kept.job.id
        self._objects.known.pop(job_id, None)
        self._objects.handled.pop(job_id, None)
        if kept.job.holding:
            self._objects.graves[job_id] = kept
            self._listener.hear(DeleteRequested(job_id=job_id, at=self._clock.now()))
        self._listener.changed(job_id)

    def _take(self, kept: Kept) -> None:
        known = self._objects.known.get(kept.job.id)
        self._objects.handled[kept.job.id] = kept.job.version
        if kept.complaint is not None and (known is None or known.complaint != kept.complaint):
            self._complain(kept, kept.complaint)
        if known is None or known.uid != kept.uid or known.job.version <= kept.job.version:
            self._objects.known[kept.job.id] = kept
        if kept.being_deleted and not kept.job.deleting:
            self._listener.hear(DeleteRequested(job_id=kept.job.id, at=self._clock.now()))
        for wish in kept.kind.wishes(kept, self._clock):
            self._listener.hear(wish)
        self._listener.changed(kept.job.id)
        if not (kept.recorded or kept.being_deleted or kept.job.finished):
            greeting = asyncio.create_task(self._greet(kept), name=f"greet {kept.name}")
            self._greetings.add(greeting)
            greeting.add_done_callback(self._greetings.discard)

    async def _greet(self, kept: Kept) -> None:
        """Show in its status that a job was seen, unless something happens to it soon, which shows the same."""
        if kept.job.placeable:
            await asyncio.sleep(_GREETING_SECONDS)
        async with self._turn_to_greet:
            if self._objects.known.get(kept.job.id) is not kept or self._listener.will_save(kept.job.id):
                return
            await self._write_greeting(kept)
            await asyncio.sleep(_GREETING_PAUSE_SECONDS)

    async def _write_greeting(self, kept: Kept) -> None:
        body = kept.with_status(kept.job, kept.journal)
        try:
            await self._client.replace(kept.kind.resource, body, subresource="status")
        except ConflictError:
            return  # somebody else was quicker, and shows it
        except KubeError as error:
            _log.warning("the status of %s/%s cannot be written: %s", kept.namespace, kept.name, error)

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
        if self._announcer is not None:
            subject = Subject(resource=kind.resource, namespace=namespace, name=name, uid=item.metadata.uid)
            self._announcer.refuse(subject, str(error), self._clock.now())

    def _complain(self, kept: Kept, complaint: str) -> None:
        _log.warning("%s/%s goes on with the spec it had: %s", kept.namespace, kept.name, complaint)
        if self._announcer is not None:
            self._announcer.refuse(subject_of(kept), complaint, self._clock.now())

    async def _follow_queues(self) -> None:
        while True:
            try:
                async with contextlib.aclosing(self._client.reflect(QUEUES)) as changes:
                    async for _ in changes:
                        self._listener.queues_changed()
            except KubeError as error:
                _log.warning("queues cannot be watched; trying again: %s", error)
            await asyncio.sleep(_PAUSE_SECONDS)
