"""The job objects of a cluster: read, looked up and listed, with the last form of each remembered."""

import logging
from collections.abc import Sequence

from gangline.errors import NotFoundError, StorageError
from gangline.kube import GenericObject, KubeClient, KubeError
from gangline.kube import NotFoundError as KubeNotFoundError
from gangline.model import JobId, Tenant
from gangline.storage.kubernetes.definitions import JOBS
from gangline.storage.kubernetes.wire import JOB_ID, Kept, object_to_job

_log = logging.getLogger(__name__)
_DASHES_OF_A_UID = 4


class JobObjects:
    """Every job object within reach. ``prefix`` stands before every namespace; ``namespace`` limits it to one."""

    def __init__(self, client: KubeClient, *, prefix: str, namespace: str | None) -> None:
        self._client = client
        self._prefix = prefix
        self.scope = namespace
        self.known: dict[JobId, Kept] = {}
        """The last form of every job that was read or written here: saves a read before most writes."""
        self.complete = False
        """Whether a watch keeps ``known`` complete: an id that is not in it is then unknown, without asking."""

    def namespace_of(self, tenant: Tenant) -> str:
        """Where a tenant's jobs live."""
        return f"{self._prefix}{tenant}"

    def tenant_of(self, namespace: str) -> Tenant:
        """Whose jobs live there."""
        return Tenant(namespace.removeprefix(self._prefix))

    def is_ours(self, name: str) -> bool:
        """Whether a namespace or a cluster-wide name is one of this store's."""
        return name.startswith(self._prefix)

    def read(self, item: GenericObject) -> Kept:
        """Read an object and remember it, unless a newer form is known."""
        kept = object_to_job(item, self.tenant_of(item.metadata.namespace))
        known = self.known.get(kept.job.id)
        if known is None or known.job.version < kept.job.version or known.uid != kept.uid:
            self.known[kept.job.id] = kept
        return kept

    async def fetch(self, job_id: JobId) -> Kept:
        """Read a job from the server, by the name it was last seen under; raises NotFoundError."""
        known = self.known.get(job_id)
        try:
            if known is not None:
                item = await self._client.get(JOBS, known.name, namespace=known.namespace)
                if item.metadata.uid == known.uid:
                    return self.read(item)
        except KubeNotFoundError:
            pass
        except KubeError as error:
            raise StorageError(f"job '{job_id}' cannot be read: {error}") from error
        self.known.pop(job_id, None)
        found = await self._look_up(job_id)
        if found is None:
            raise NotFoundError("job", job_id)
        return found

    async def find(self, job_id: JobId) -> Kept | None:
        """Look a job up by its id, without asking the server where a watch keeps us up to date."""
        return self.known.get(job_id) if self.complete else await self._look_up(job_id)

    async def all(self, tenant: Tenant | None) -> Sequence[Kept]:
        """List the jobs of a tenant, or all."""
        namespace = self.namespace_of(tenant) if tenant is not None else self.scope
        try:
            found = await self._client.list(JOBS, namespace=namespace)
        except KubeError as error:
            raise StorageError(f"the jobs cannot be listed: {error}") from error
        kept = []
        for item in found.items or ():
            if not self.is_ours(item.metadata.namespace):
                continue
            try:
                kept.append(self.read(item))
            except StorageError as error:
                # One damaged record must not hide all others; its owner sees it with kubectl.
                _log.warning("%s", error)
        return kept

    async def _look_up(self, job_id: JobId) -> Kept | None:
        """Ask the server for a job by its id: the label says it, or, for a job applied by hand, its uid."""
        try:
            labelled = await self._client.list(JOBS, namespace=self.scope, labels={JOB_ID: job_id})
            for item in labelled.items or ():
                if self.is_ours(item.metadata.namespace):
                    return self.read(item)
            if job_id.count("-") != _DASHES_OF_A_UID:
                return None
            unlabelled = await self._client.list(JOBS, namespace=self.scope, labels=f"!{JOB_ID}")
            return next((self.read(item) for item in unlabelled.items or () if item.metadata.uid == job_id), None)
        except KubeError as error:
            raise StorageError(f"job '{job_id}' cannot be read: {error}") from error
