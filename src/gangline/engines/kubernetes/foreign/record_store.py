"""The records of others' pods: read, written and removed here, decided upon elsewhere.

Those of several pods are job objects in the cluster; those of one pod are jobs in memory (see ``pod_jobs``).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from gangline.engines.kubernetes.foreign.pod_jobs import ControllerLink, PodJobs, job_to_record
from gangline.engines.kubernetes.foreign.records import (
    JOBS,
    BadRecordError,
    Manifest,
    Recorded,
    job_id_of,
    object_to_record,
)
from gangline.engines.kubernetes.names import FOREIGN, is_pod_job
from gangline.kube import (
    AlreadyExistsError,
    Applied,
    Change,
    ConflictError,
    Deleted,
    GenericObject,
    KubeClient,
    NotFoundError,
)
from gangline.model import FINAL_PHASES, WAITING_PHASES, Job, JobId, Phase

_log = logging.getLogger(__name__)
_UNSETTLED = WAITING_PHASES | {Phase.HALTED, Phase.FAILED}


class RecordStore:
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
        self._jobs: PodJobs | None = None
        self._link: ControllerLink | None = None
        self.synced = asyncio.Event()

    def open(self, jobs: PodJobs, link: ControllerLink) -> None:
        """Begin to keep the jobs of single pods there, and to tell the controller of them."""
        self._jobs, self._link = jobs, link
        jobs.follow_pods(self._pod_job_changed)

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

    async def write(self, body: dict[str, Any], *, called: str) -> Recorded:
        """Record a gang; one that is recorded already is read.

        It is ``called`` as its group, under which people look for it; where another job has that name, as the body is.
        """
        metadata = body["metadata"]
        for name in dict.fromkeys((called, metadata["name"])):
            try:
                item = await self._client.create(JOBS, {**body, "metadata": {**metadata, "name": name}})
            except AlreadyExistsError:
                item = await self._client.get(JOBS, name, namespace=metadata["namespace"])
                if name != metadata["name"] and not _records(item, body):
                    continue
            return self._keep(item)
        raise AssertionError("the last name is the gang's own")

    def keep(self, job: Job, manifest: Manifest, namespace: str) -> Recorded:
        """Record a single pod, as a job in memory."""
        record = job_to_record(job, manifest, namespace)
        self._sort(record)
        if self._jobs is not None and self._link is not None:
            self._jobs.keep_pod(job)
            self._link.changed(job.id)
        return record

    async def remove(self, record: Recorded) -> None:
        """Remove a record; the controller lets go of what it may still hold first."""
        if is_pod_job(record.job_id):
            self._remove_pod_job(record.job_id)
            return
        try:
            await self._client.delete(JOBS, record.name, namespace=record.namespace, uid=record.uid)
        except (NotFoundError, ConflictError):
            return  # gone, or another of the same name by now

    async def follow(self) -> None:
        """Keep up to date, forever."""
        await self._client.follow(JOBS, self._changed_object, namespace=self._namespace, labels={FOREIGN: "true"})

    def _changed_object(self, change: Change[GenericObject]) -> None:
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

    def _pod_job_changed(self, job: Job) -> None:
        record = self._records.get(job.id)
        if record is None or (record.phase is job.phase and job.holding):
            return
        if job.finished and not job.holding and job.phase is not Phase.FAILED:
            self._remove_pod_job(job.id)  # its pod has ended or is gone; who failed may only have been refused its node
            return
        record = replace(record, phase=job.phase, message=job.message)
        self._sort(record)
        self._changed(record)

    def _remove_pod_job(self, job_id: JobId) -> None:
        if self._jobs is not None and self._link is not None:
            self._jobs.drop_pod(job_id)
            self._link.changed(job_id)
        self._drop(job_id)

    def _keep(self, item: GenericObject) -> Recorded:
        record = object_to_record(item)
        self._sort(record)
        return record

    def _sort(self, record: Recorded) -> None:
        job_id = record.job_id
        self._records[job_id] = record
        pods = self._recorded.setdefault(record.namespace, {})
        pods.update({pod.uid: job_id for pod in record.manifest.pods.values()})
        _sort_in(self._unsettled, record, fits=record.phase in _UNSETTLED)
        _sort_in(self._particular, record, fits=bool(record.manifest.singles) and record.phase not in FINAL_PHASES)

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


def _records(item: GenericObject, body: dict[str, Any]) -> bool:
    """Whether an object is the record of the very pods that a body records, in whichever order."""
    try:
        found = {pod.uid for pod in object_to_record(item).manifest.pods.values()}
    except BadRecordError:
        return False  # somebody's job
    return found == {pod["uid"] for pod in body["spec"]["manifest"]["pods"].values()}


def _sort_in(place: dict[JobId, Recorded], record: Recorded, *, fits: bool) -> None:
    if fits:
        place[record.job_id] = record
    else:
        place.pop(record.job_id, None)
