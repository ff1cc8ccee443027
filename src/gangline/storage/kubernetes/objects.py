"""The job objects of a cluster, of every kind: read, looked up and listed, with the last form of each remembered."""

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from gangline.errors import NotFoundError, StorageError, UnreadableRecordError
from gangline.kube import GenericObject, KubeClient, KubeError
from gangline.kube import NotFoundError as KubeNotFoundError
from gangline.model import Job, JobId, Tenant
from gangline.storage.kubernetes.discovery import kubeflow_kinds
from gangline.storage.kubernetes.records.creation import JOB_ID, SUBMITTED_AS, created_at, dated, id_of
from gangline.storage.kubernetes.records.custom_resources import NAME, is_label_value
from gangline.storage.kubernetes.records.native import NATIVE
from gangline.storage.kubernetes.records.record_kind import RecordKind, StoredJob

_log = logging.getLogger(__name__)
_DASHES_OF_A_UID = 4
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class JobObjects:
    """Every job object within reach. ``prefix`` stands before every namespace; ``namespace`` limits it to one.

    With ``believes_dates`` a job is as old as its record says, and not as its object is.
    """

    def __init__(self, client: KubeClient, *, prefix: str, namespace: str | None, believes_dates: bool = False) -> None:
        self._client = client
        self._prefix = prefix
        self.scope = namespace
        self.believes_dates = believes_dates
        self.known: dict[JobId, StoredJob] = {}
        """The last form of every job that was read or written here: saves a read before most writes."""
        self.handled: dict[JobId, int] = {}
        """The last version of every job that a watch has looked at, or need not: reading one is not looking at it."""
        self.tombstones: dict[JobId, StoredJob] = {}
        """Jobs whose object is gone while their gang still runs: remembered here until it has been stopped."""
        self.synced: set[str] = set()
        """The kinds whose objects a watch keeps ``known`` complete of."""
        self.listed: set[str] = set()
        """The kinds of which a watch has once seen everything: from then on nobody known is displaced."""
        self._kinds: dict[str, RecordKind] | None = None
        self._unreadable: dict[str, str] = {}

    def namespace_of(self, tenant: Tenant) -> str:
        """Where a tenant's jobs live."""
        return f"{self._prefix}{tenant}"

    def tenant_of(self, namespace: str) -> Tenant:
        """Whose jobs live there."""
        return Tenant(namespace.removeprefix(self._prefix))

    def cluster_name_of(self, name: str) -> str:
        """What an object of no namespace is called."""
        return f"{self._prefix}{name}"

    def plain_name_of(self, name: str) -> str:
        """What we call an object of no namespace."""
        return name.removeprefix(self._prefix)

    def is_ours(self, name: str) -> bool:
        """Whether a namespace or a cluster-wide name is one of this store's."""
        return name.startswith(self._prefix)

    @property
    def complete(self) -> bool:
        """Whether an id that is not known here is unknown, without asking."""
        return self._kinds is not None and self.synced >= self._kinds.keys()

    async def kinds(self, *, anew: bool = False) -> Sequence[RecordKind]:
        """Return the kinds of job object there are, our own first; asked for once, unless ``anew``."""
        if self._kinds is None or anew:
            try:
                kinds = [NATIVE, *await kubeflow_kinds(self._client, namespace=self.scope)]
            except KubeError as error:
                raise StorageError(f"which kinds of job there are cannot be found out: {error}") from error
            self._kinds = {kind.resource.plural: kind for kind in kinds}
        return tuple(self._kinds.values())

    async def kind_for(self, job: Job) -> RecordKind:
        """Choose the kind of object that a new job is kept as."""
        native, *others = await self.kinds()
        return next((kind for kind in others if kind.keeps(job)), native)

    def decode(self, item: GenericObject, kind: RecordKind) -> StoredJob | None:
        """Read an object; a job whose spec was made unreadable goes on with the last one that was not.

        Raises UnreadableRecordError if it is not a job, or has the id of one that is not its own.
        """
        stored = kind.read(item, self.tenant_of(item.metadata.namespace))
        if stored is None:
            return None
        if stored.job.id != id_of(item) or self._is_anothers(stored):
            raise UnreadableRecordError(
                f"{stored.namespace}/{stored.name} has the id of another job; "
                f"leave out the label {JOB_ID} and the annotation {SUBMITTED_AS}"
            )
        if stored.recorded and not self.believes_dates:
            # People write their jobs' statuses too, and whoever is older goes first.
            stored = replace(stored, job=replace(stored.job, created_at=dated(item, stored.job.created_at)))
        if stored.complaint is None:
            return stored
        known = self.known.get(stored.job.id)
        if known is None or known.uid != stored.uid:
            return stored
        return replace(stored, job=replace(stored.job, spec=known.job.spec))

    def _is_anothers(self, stored: StoredJob) -> bool:
        """Whether an object has the id of a job that another object is the record of.

        Ids are labels that anybody may write. Nobody may have a hand in another tenant's job by writing its id, be it
        into an object that is older than that job. Only where nobody knows yet who was first, the older one is right.
        """
        known = self.known.get(stored.job.id) or self.tombstones.get(stored.job.id)
        if known is None or known.place == stored.place:
            return False
        return known.made_at <= stored.made_at or self.listed >= {known.place[0], stored.place[0]}

    def is_news(self, item: GenericObject) -> bool:
        """Whether a watch should look at an object, without reading it: most of what it says we wrote ourselves."""
        return self.is_superseded(item) or self.handled.get(id_of(item), 0) < int(item.metadata.resource_version)

    def is_superseded(self, item: GenericObject) -> bool:
        """Whether another object is the record of the job whose id this one bears."""
        known = self.known.get(id_of(item))
        return known is not None and known.uid != item.metadata.uid

    def wrote(self, job_id: JobId, *, over: int, version: int) -> None:
        """Note a write of ours; the watch need not look at it, unless it has yet to see what it was written over."""
        if self.handled.get(job_id, 0) >= over:
            self.handled[job_id] = version

    def read(self, item: GenericObject, kind: RecordKind) -> StoredJob | None:
        """Read an object and remember it, unless a newer form is known; None if it is not ours to run."""
        stored = self.decode(item, kind)
        if stored is None:
            return None
        known = self.known.get(stored.job.id)
        if known is None or known.job.version < stored.job.version or known.uid != stored.uid:
            self.known[stored.job.id] = stored
        return stored

    async def fetch(self, job_id: JobId) -> StoredJob:
        """Read a job from the server, by the name it was last seen under; raises NotFoundError."""
        if job_id in self.tombstones:
            return self.tombstones[job_id]
        known = self.known.get(job_id)
        try:
            if known is not None:
                item = await self._client.get(known.kind.resource, known.name, namespace=known.namespace)
                if item.metadata.uid == known.uid and (stored := self.read(item, known.kind)) is not None:
                    return stored
        except KubeNotFoundError:
            pass
        except KubeError as error:
            raise StorageError(f"job '{job_id}' cannot be read: {error}") from error
        self.known.pop(job_id, None)
        found = await self._look_up(job_id)
        if found is None:
            raise NotFoundError("job", job_id)
        return found

    async def find(self, job_id: JobId) -> StoredJob | None:
        """Look a job up by its id, without asking the server where a watch keeps us up to date."""
        return self.known.get(job_id) if self.complete else await self._look_up(job_id)

    async def all(self, tenant: Tenant | None) -> Sequence[StoredJob]:
        """List the jobs of a tenant, or all."""
        namespace = self.namespace_of(tenant) if tenant is not None else self.scope
        lists = await asyncio.gather(*(self._list(kind, namespace) for kind in await self.kinds()))
        return [stored for found in lists for stored in found]

    async def named(self, tenant: Tenant, name: str) -> Sequence[StoredJob]:
        """Find the jobs of a tenant that bear a name: the one of each kind, and those of it that are being deleted."""
        namespace = self.namespace_of(tenant)
        if self.complete:
            known = self.known.values()
            return [stored for stored in known if stored.job.name == name and stored.namespace == namespace]
        if not _OBJECT_NAME.fullmatch(name):
            return ()
        try:
            found = await asyncio.gather(*(self._named(kind, namespace, name) for kind in await self.kinds()))
        except KubeError as error:
            raise StorageError(f"job '{name}' cannot be read: {error}") from error
        return [stored for items in found for stored in items if stored.job.name == name]

    async def aliased(self, kind: RecordKind, namespace: str, name: str) -> Sequence[StoredJob]:
        """Find the jobs that bear a name, but not in their object's: another was being deleted when they came."""
        if not is_label_value(name):
            return ()
        found = await self._client.list(kind.resource, namespace=namespace, labels={NAME: name})
        return [stored for item in found.items or () if (stored := self.read(item, kind)) is not None]

    async def _named(self, kind: RecordKind, namespace: str, name: str) -> Sequence[StoredJob]:
        aliases = await self.aliased(kind, namespace, name) if kind.finalizer is not None else ()
        try:
            own = self.read(await self._client.get(kind.resource, name, namespace=namespace), kind)
        except KubeNotFoundError:
            own = None
        return aliases if own is None else (own, *aliases)

    async def _list(self, kind: RecordKind, namespace: str | None) -> list[StoredJob]:
        try:
            found = await self._client.list(kind.resource, namespace=namespace)
        except KubeError as error:
            raise StorageError(f"the jobs cannot be listed: {error}") from error
        stored = []
        for item in found.items or ():
            if not self.is_ours(item.metadata.namespace):
                continue
            try:
                if (one := self.read(item, kind)) is not None:
                    stored.append(one)
            except StorageError as error:
                # One damaged record must not hide all others; its owner sees it with kubectl.
                self._report_unreadable(item, error)
        return stored

    def _report_unreadable(self, item: GenericObject, error: StorageError) -> None:
        """Say of each form of an object once that it cannot be read: it is listed again and again."""
        uid, version = item.metadata.uid, item.metadata.resource_version
        _log.log(logging.DEBUG if self._unreadable.get(uid) == version else logging.WARNING, "%s", error)
        self._unreadable[uid] = version

    async def _look_up(self, job_id: JobId) -> StoredJob | None:
        """Ask the server for a job by its id: the label says it, or, for a job applied by hand, its uid."""
        if not job_id or not is_label_value(job_id):
            return None
        try:
            for kind in await self.kinds():
                labelled = await self._client.list(kind.resource, namespace=self.scope, labels={JOB_ID: job_id})
                for item in sorted(labelled.items or (), key=created_at):
                    if self.is_ours(item.metadata.namespace) and id_of(item) == job_id:
                        return self.read(item, kind)
            if job_id.count("-") != _DASHES_OF_A_UID:
                return None
            for kind in await self.kinds():
                for item in (await self._client.list(kind.resource, namespace=self.scope)).items or ():
                    if id_of(item) == job_id:
                        return self.read(item, kind)
        except KubeError as error:
            raise StorageError(f"job '{job_id}' cannot be read: {error}") from error
        return None
