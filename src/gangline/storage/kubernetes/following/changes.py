"""Which jobs others changed, for a reader that keeps no record of its own and answers nothing."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from gangline.kube import Applied, Deleted, KubeClient
from gangline.model import JobId
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.records.creation import id_of
from gangline.storage.kubernetes.records.record_kind import RecordKind


async def follow_changes(client: KubeClient, objects: JobObjects, changed: Callable[[JobId], None]) -> None:
    """Name every job that changes, and once those that were read here in an older form; until a watch fails."""
    kinds = await objects.kinds()
    watches = [asyncio.create_task(_follow_kind(client, objects, kind, changed)) for kind in kinds]
    try:
        await asyncio.gather(*watches)
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def _follow_kind(
    client: KubeClient, objects: JobObjects, kind: RecordKind, changed: Callable[[JobId], None]
) -> None:
    async with aclosing(client.reflect(kind.resource, namespace=objects.scope)) as changes:
        async for change in changes:
            if not isinstance(change, Applied | Deleted) or not objects.is_ours(change.object.metadata.namespace):
                continue
            job_id = id_of(change.object)
            known = objects.known.get(job_id)
            version = int(change.object.metadata.resource_version)
            if isinstance(change, Deleted) or known is None or known.job.version < version:
                changed(job_id)
