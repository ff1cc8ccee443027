"""Tells the controller what others did to the record: jobs applied, changed or deleted by hand, queues changed."""

import asyncio
import contextlib
import logging
from typing import Protocol

from gangline.errors import StorageError
from gangline.kube import Applied, Deleted, GenericObject, KubeClient, KubeError, Synced
from gangline.lifecycle import Event
from gangline.lifecycle.events import DeleteRequested
from gangline.model import Clock, JobId, Phase
from gangline.storage.kubernetes.definitions import JOBS, QUEUES
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.wire import object_to_job

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0


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


async def follow(client: KubeClient, objects: JobObjects, listener: Listener, clock: Clock) -> None:
    """Tell a listener of every change that was not made here, for ever."""
    await asyncio.gather(_follow_jobs(client, objects, listener, clock), _follow_queues(client, listener))


async def _follow_jobs(client: KubeClient, objects: JobObjects, listener: Listener, clock: Clock) -> None:
    while True:
        try:
            async with contextlib.aclosing(client.reflect(JOBS, namespace=objects.scope)) as changes:
                async for change in changes:
                    if isinstance(change, Synced):
                        objects.complete = True
                    elif objects.is_ours(change.object.metadata.namespace):
                        try:
                            _take(change, objects, listener, clock)
                        except StorageError as error:
                            await _refuse(client, change.object, error)
        except KubeError as error:
            _log.warning("jobs cannot be watched; trying again: %s", error)
        finally:
            objects.complete = False
        await asyncio.sleep(_PAUSE_SECONDS)


def _take(
    change: Applied[GenericObject] | Deleted[GenericObject], objects: JobObjects, listener: Listener, clock: Clock
) -> None:
    kept = object_to_job(change.object, objects.tenant_of(change.object.metadata.namespace))
    known = objects.known.get(kept.job.id)
    if isinstance(change, Deleted):
        objects.known.pop(kept.job.id, None)
        listener.changed(kept.job.id)
        return
    if known is not None and known.job.version >= kept.job.version:
        return  # our own write, or older news
    objects.known[kept.job.id] = kept
    if kept.being_deleted and not kept.job.deleting:
        listener.hear(DeleteRequested(job_id=kept.job.id, at=clock.now()))
    listener.changed(kept.job.id)


async def _refuse(client: KubeClient, item: GenericObject, error: StorageError) -> None:
    """Say in its status why an object cannot be a job: what a schema cannot check, its author must see all the same."""
    _log.warning("%s", error)
    status = {"phase": Phase.FAILED.value, "reason": "InvalidJob", "message": str(error)}
    if {name: item.status.get(name) for name in status} != status and "state" not in item.status:
        name, namespace = item.metadata.name, item.metadata.namespace
        await client.patch(JOBS, name, {"status": status}, namespace=namespace, subresource="status")


async def _follow_queues(client: KubeClient, listener: Listener) -> None:
    while True:
        try:
            async with contextlib.aclosing(client.reflect(QUEUES)) as changes:
                async for _ in changes:
                    listener.queues_changed()
        except KubeError as error:
            _log.warning("queues cannot be watched; trying again: %s", error)
        await asyncio.sleep(_PAUSE_SECONDS)
