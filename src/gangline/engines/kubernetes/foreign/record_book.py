"""The records of others' pods as they are in the cluster: read, written and removed here, decided upon elsewhere."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import aclosing
from typing import Any

from gangline.engines.kubernetes.foreign.records import (
    FOREIGN,
    JOBS,
    BadRecordError,
    Recorded,
    job_id_of,
    object_to_record,
)
from gangline.kube import (
    AlreadyExistsError,
    Applied,
    ConflictError,
    Deleted,
    GenericObject,
    KubeClient,
    KubeError,
    NotFoundError,
)
from gangline.model import FINAL_PHASES, WAITING_PHASES, JobId, Phase

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0
_UNSETTLED = WAITING_PHASES | {Phase.HALTED, Phase.FAILED}


class RecordBook:
    """Records by job. ``changed`` is called with each that came, changed or went."""

    def __init__(self, client: KubeClient, *, namespace: str | None, changed: Callable[[Recorded], None]) -> None:
        self._client = client
        self._namespace = namespace
        self._changed = changed
        self._records: dict[JobId, Recorded] = {}
        self._recorded: dict[str, dict[str, JobId]] = {}
        """Which job records a pod, by its namespace and uid: nobody records pods of another namespace."""
        self._unsettled: dict[JobId, Recorded] = {}
        self._particular: dict[JobId, Recorded] = {}
        self.synced = asyncio.Event()

    def unsettled(self) -> Iterable[Recorded]:
        """Return the records that may need something: those that wait, rest or failed."""
        return tuple(self._unsettled.values())

    def particular(self) -> Iterable[Recorded]:
        """Return the records whose pods need something of a node that the scheduler must be told of."""
        return tuple(self._particular.values())

    def find(self, job_id: JobId) -> Recorded | None:
        """Return the record of a job, if it is one."""
        return self._records.get(job_id)

    def pods_in(self, namespace: str) -> Collection[str]:
        """The uids of all pods of a namespace that have a record."""
        return self._recorded.get(namespace, {}).keys()

    async def write(self, body: dict[str, Any]) -> Recorded:
        """Record a gang; one that is recorded already is read."""
        try:
            item = await self._client.create(JOBS, body)
        except AlreadyExistsError:
            metadata = body["metadata"]
            item = await self._client.get(JOBS, metadata["name"], namespace=metadata["namespace"])
        return self._keep(item)

    async def remove(self, record: Recorded) -> None:
        """Remove a record; the controller lets go of what it may still hold first."""
        try:
            await self._client.delete(JOBS, record.name, namespace=record.namespace, uid=record.uid)
        except (NotFoundError, ConflictError):
            return  # gone, or another of the same name by now

    async def follow(self) -> None:
        """Keep up to date, for ever."""
        while True:
            try:
                await self._follow()
            except KubeError as error:
                _log.warning("records of others' pods cannot be watched; trying again: %s", error)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _follow(self) -> None:
        changes = self._client.reflect(JOBS, namespace=self._namespace, labels={FOREIGN: "true"})
        async with aclosing(changes):
            async for change in changes:
                if isinstance(change, Applied):
                    self._take(change.object)
                elif isinstance(change, Deleted):
                    self._drop(job_id_of(change.object))
                else:
                    self.synced.set()

    def _take(self, item: GenericObject) -> None:
        try:
            record = self._keep(item)
        except BadRecordError as error:
            _log.warning("%s", error)
            self._drop(job_id_of(item))
        else:
            self._changed(record)

    def _keep(self, item: GenericObject) -> Recorded:
        record = object_to_record(item)
        job_id = record.job_id
        self._records[job_id] = record
        pods = self._recorded.setdefault(record.namespace, {})
        pods.update({pod.uid: job_id for pod in record.manifest.pods.values()})
        _sort_in(self._unsettled, record, fits=record.phase in _UNSETTLED)
        special = bool(record.manifest.needs or record.manifest.singles)
        _sort_in(self._particular, record, fits=special and record.phase not in FINAL_PHASES)
        return record

    def _drop(self, job_id: JobId) -> None:
        record = self._records.pop(job_id, None)
        if record is None:
            return
        self._unsettled.pop(job_id, None)
        self._particular.pop(job_id, None)
        pods = self._recorded.get(record.namespace, {})
        for pod in record.manifest.pods.values():
            if pods.get(pod.uid) == job_id:
                del pods[pod.uid]
        self._changed(record)


def _sort_in(place: dict[JobId, Recorded], record: Recorded, *, fits: bool) -> None:
    if fits:
        place[record.job_id] = record
    else:
        place.pop(record.job_id, None)
