"""The records as the leader of a cluster keeps them: job objects, and in memory the jobs that stand for single pods.

The latter need no other record than their pod: a leader that comes later makes them anew from it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace

from gangline.engines.kubernetes import PodJobs, is_pod_job
from gangline.errors import NotFoundError, StaleVersionError
from gangline.kube import KubeClient
from gangline.model import Job, JobId, JournalRecord, Phase
from gangline.storage.kubernetes import KubernetesStore


class LeaderStore(KubernetesStore):
    """What the controller reads and writes; one per term of office."""

    def __init__(self, client: KubeClient, *, namespace: str | None = None) -> None:
        super().__init__(client, namespace=namespace)
        self._of_pods: dict[JobId, Job] = {}
        self._changed: Callable[[Job], None] = _ignore

    def follow_pods(self, changed: Callable[[Job], None]) -> None:
        """Call back with every job of a pod that is saved from now on."""
        self._changed = changed

    def keep_pod(self, job: Job) -> None:
        """Keep the job of a pod."""
        self._of_pods[job.id] = job

    def drop_pod(self, job_id: JobId) -> None:
        """Forget the job of a pod, if it is there."""
        self._of_pods.pop(job_id, None)

    async def save(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        """Replace a job; see Store."""
        if not is_pod_job(job.id):
            return await super().save(job, records)
        kept = await self.get(job.id)
        if kept.version != job.version:
            raise StaleVersionError("job", job.id, expected=job.version, found=kept.version)
        saved = self._of_pods[job.id] = replace(job, version=job.version + 1)
        self._changed(saved)
        return saved

    async def get(self, job_id: JobId) -> Job:
        """Return a job; see Store."""
        if not is_pod_job(job_id):
            return await super().get(job_id)
        if job_id not in self._of_pods:
            raise NotFoundError("job", job_id)
        return self._of_pods[job_id]

    async def unfinished(self) -> AsyncIterator[Job]:
        """Return the jobs a controller must know; see Store."""
        for job in tuple(self._of_pods.values()):
            yield job
        async for job in super().unfinished():
            yield job

    async def remove(self, job_id: JobId) -> None:
        """Remove a job; see Store."""
        if is_pod_job(job_id):
            self.drop_pod(job_id)
        else:
            await super().remove(job_id)

    def phases(self) -> Mapping[Phase, int]:
        """Count the jobs that are known here by their phase, pods among them."""
        return Counter(super().phases()) + Counter(job.phase for job in self._of_pods.values())


def _ignore(job: Job) -> None:
    del job


_conforms: type[PodJobs] = LeaderStore
