"""Records of one kind as custom resources: read, written with a guard, and followed.

A record is small and has one writer at a time, so spec and status are written together: a submission is one
write. Jobs that belong to it are objects of their own and name it as their owner.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Generic

import msgspec

from gangline.dialects import document
from gangline.errors import (
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    RecordTooLargeError,
    StaleVersionError,
    StorageError,
    UnreadableRecordError,
)
from gangline.kinds import AnyKind, Kind
from gangline.kinds.kind import Plain, Spec, Status, View
from gangline.kube import (
    AlreadyExistsError,
    ApiError,
    Applied,
    Change,
    Deleted,
    ForbiddenError,
    GenericObject,
    KubeClient,
    KubeError,
    Owner,
    OwnerReference,
)
from gangline.kube import ConflictError as KubeConflictError
from gangline.kube import NotFoundError as KubeNotFoundError
from gangline.model import Job, Tenant, Timestamp
from gangline.model.record import NoStatus, Page, Record, RecordId, Summary, owner_of
from gangline.storage.kubernetes.definitions.native import resource_of
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.records.creation import dated
from gangline.storage.listing import id_taken, name_taken, page_of_records, summaries_of

_INVALID = "invalid"
_ENVELOPE = ("created_at", "deleting")
_CREATED_AT = "gangline.dev/created-at"
"""When a record without a status was made, more precisely than to the second: what was made later is listed later."""
_log = logging.getLogger(__name__)


_TOO_LARGE = ("request is too large", "larger than max", "entity too large")
"""What etcd says of an object above its limit, 1.5 MiB, and what is around it says; none of them has a code for it."""


def is_too_large(error: KubeError) -> bool:
    """Whether an object was refused for its size alone."""
    said = str(error).lower()
    return (isinstance(error, ApiError) and error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE) or any(
        each in said for each in _TOO_LARGE
    )


class RecordObjects(Generic[Spec, Status]):
    """Every record of a kind within reach: in its tenant's namespace, or cluster-wide under the store's prefix."""

    def __init__(self, client: KubeClient, places: JobObjects, kind: Kind[Spec, Status, View]) -> None:
        self._client = client
        self._places = places
        self._kind: Kind[Spec, Status, Any] = kind
        self._resource = resource_of(kind)
        self._id_label = f"{kind.label}-id"
        self.owners: dict[str, Owner] = {}
        """What the jobs of a record and the files sent with it belong to, by its id, of all that were seen here."""
        self._made: dict[str, float] = {}
        """When the server made the object of each of these."""
        self._listed = False
        """Whether a watch has once seen all: from then on none that is known is displaced."""

    async def create(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Keep a new record; see Records."""
        try:
            known = await self._client.list(self._resource, namespace=self._scope, labels={self._id_label: record.id})
            if any(self._is_ours(item) for item in known.items or ()):
                raise id_taken(self._kind.name, record)
            created = await self._client.create(self._resource, self._to_object(record))
            if self._kind.foreign:
                created = await self._patch_status(record, {"metadata": {}, **record_to_status(self._kind, record)})
        except AlreadyExistsError as error:
            raise name_taken(self._kind.name, record) from error
        except KubeError as error:
            raise self._refusal(record, "kept", error) from error
        return self.read(created)

    async def save(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Replace a record; see Records."""
        place, name = self._place(record.tenant), self._object_name(record.name)
        patch: Plain = {"metadata": {"resourceVersion": str(record.version)}, **record_to_status(self._kind, record)}
        try:
            if self._kind.foreign:
                return self.read(await self._save_apart(record, patch))
            if self._kind.editable:
                present = await self._client.get(self._resource, name, namespace=place)
                patch["spec"] = _replacing(present.spec, self._to_object(record)["spec"])
            return self.read(await self._client.patch(self._resource, name, patch, namespace=place))
        except KubeNotFoundError as error:
            raise NotFoundError(self._kind.name, record.name) from error
        except KubeConflictError as error:
            found = await self.find(record.tenant, record.name)
            version = None if found is None else found.version
            raise StaleVersionError(self._kind.name, record.name, expected=record.version, found=version) from error
        except KubeError as error:
            raise self._refusal(record, "saved", error) from error

    async def _save_apart(self, record: Record[Spec, Status], patch: Plain) -> GenericObject:
        """Write a spec that was edited, if it was, and then the status, which is a resource of its own."""
        place, name = self._place(record.tenant), self._object_name(record.name)
        present = await self._client.get(self._resource, name, namespace=place)
        wanted = self._to_object(record)["spec"]
        if present.spec != wanted:
            change = {"metadata": patch["metadata"], "spec": _replacing(present.spec, wanted)}
            changed = await self._client.patch(self._resource, name, change, namespace=place)
            patch = {**patch, "metadata": {"resourceVersion": changed.metadata.resource_version}}
        return await self._patch_status(record, patch)

    async def _patch_status(self, record: Record[Spec, Status], patch: Plain) -> GenericObject:
        place, name = self._place(record.tenant), self._object_name(record.name)
        return await self._client.patch(self._resource, name, patch, namespace=place, subresource="status")

    async def find(self, tenant: Tenant | None, name: str) -> Record[Spec, Status] | None:
        """Return a record by its name; see Records."""
        try:
            return self.read(
                await self._client.get(self._resource, self._object_name(name), namespace=self._place(tenant))
            )
        except KubeNotFoundError:
            return None
        except KubeError as error:
            raise StorageError(f"{self._kind.name} '{name}' cannot be read: {error}") from error

    async def find_all(self, tenant: Tenant | None, names: Sequence[str]) -> Sequence[Record[Spec, Status]]:
        """Return several records; see Records."""
        found = [await self.find(tenant, name) for name in names]
        return tuple(record for record in found if record is not None)

    async def list(
        self, tenant: Tenant | None = None, *, limit: int | None = None, after: str | None = None
    ) -> Page[Record[Spec, Status]]:
        """Return one page; see Records."""
        try:
            found = await self._client.list(self._resource, namespace=self._place(tenant) if tenant else self._scope)
        except KubeNotFoundError as error:
            if self._kind.foreign:
                return Page()  # nobody installed it here
            raise StorageError(f"the {self._kind.plural} cannot be listed: {error}") from error
        except KubeError as error:
            raise StorageError(f"the {self._kind.plural} cannot be listed: {error}") from error
        records, unreadable = [], []
        for item in found.items or ():
            if self._is_ours(item):
                try:
                    records.append(self.read(item))
                except StorageError as error:
                    # One damaged record must not hide all others; its owner sees it with kubectl.
                    _log.warning("%s; it counts as not there", error)
                    unreadable.append(self._plain_name(item))
        page = page_of_records(records, limit, after)
        return page if after is not None else replace(page, unreadable=tuple(unreadable))

    async def unsettled(self) -> Sequence[Record[Spec, Status]]:
        """Return what something may be done for; see Records."""
        return tuple(record for record in (await self.list()).items if not record.settled)

    async def summaries(self, tenant: Tenant) -> Sequence[Summary]:
        """Return all summaries; see Records."""
        return summaries_of(self._kind, (await self.list(tenant)).items)

    async def remove(self, record: Record[Spec, Status]) -> None:
        """Remove a record; see Records."""
        try:
            place = self._place(record.tenant)
            await self._client.delete(self._resource, self._object_name(record.name), namespace=place)
        except KubeNotFoundError:
            return
        except KubeError as error:
            raise self._refusal(record, "removed", error) from error

    async def follow(self, changed: Callable[[], None]) -> None:
        """Call back whenever a record was submitted, changed or removed by anybody, forever."""

        async def take(change: Change[GenericObject]) -> None:
            if isinstance(change, Applied):
                await self._tell_if_invalid(change.object)
            elif isinstance(change, Deleted):
                self._forget(change.object)
            else:
                self._listed = True
            changed()

        await self._client.follow(self._resource, take, namespace=self._scope)

    def owner_of_job(self, job: Job, namespace: str) -> OwnerReference | None:
        """Return the record that a job belongs to: who deletes it with kubectl means its jobs too."""
        owns = self._kind.owns_jobs and self._kind.label in job.spec.labels
        owner = self.owners.get(owner_of(job.id)) if owns else None
        return owner.reference if owner is not None and owner.namespace == namespace else None

    @property
    def _scope(self) -> str | None:
        return self._places.scope if self._kind.namespaced else None

    def _place(self, tenant: Tenant | None) -> str | None:
        return self._places.namespace_of(tenant) if tenant is not None else None

    def _object_name(self, name: str) -> str:
        return name if self._kind.namespaced else self._places.cluster_name_of(name)

    def _is_ours(self, item: GenericObject) -> bool:
        if any(each.controller and each.kind == self._kind.shown_for for each in item.metadata.owner_references or ()):
            return False
        return self._places.is_ours(item.metadata.namespace if self._kind.namespaced else item.metadata.name)

    def _refusal(self, record: Record[Spec, Status], verb: str, error: KubeError) -> Exception:
        if isinstance(error, ForbiddenError):
            return PermissionDeniedError(f"{self._kind.name} '{record.name}' cannot be {verb}: {error.message}")
        found = RecordTooLargeError if is_too_large(error) else StorageError
        return found(f"{self._kind.name} '{record.name}' cannot be {verb}: {error}")

    def _forget(self, item: GenericObject) -> None:
        uid = item.metadata.uid
        self.owners = {key: owner for key, owner in self.owners.items() if owner.reference.uid != uid}

    async def _tell_if_invalid(self, item: GenericObject) -> None:
        """Say in its status why an object cannot be read: what a schema cannot check, its author must see."""
        try:
            self.read(item)
        except StorageError as error:
            _log.warning("%s", error)
            made = item.metadata.creation_timestamp
            at = Timestamp(made.timestamp() if made is not None else 0.0)
            status = {"state": _INVALID, "message": str(error), **self._kind.refused(str(error), at)}
            if {name: item.status.get(name) for name in status} != status:
                place, part = item.metadata.namespace or None, "status" if self._kind.foreign else None
                await self._client.patch(
                    self._resource, item.metadata.name, {"status": status}, namespace=place, subresource=part
                )

    def _to_object(self, record: Record[Spec, Status]) -> Plain:
        file = self._kind.format
        plain = (file.write_object or file.write)(record.spec)
        # Clients of others' kinds find objects by labels that their users gave them.
        given = (plain["metadata"].get("labels") or {}) if self._kind.foreign else {}
        labels = {**given, self._id_label: record.id}
        metadata: Plain = {"name": self._object_name(record.name), "labels": labels}
        if record.tenant is not None:
            metadata["namespace"] = self._place(record.tenant)
        if self._kind.status is NoStatus:  # else its status says it
            metadata["annotations"] = {_CREATED_AT: repr(float(record.created_at))}
        return {"metadata": metadata, "spec": plain["spec"], **record_to_status(self._kind, record)}

    def read(self, item: GenericObject) -> Record[Spec, Status]:
        """Read a record, whoever wrote it; raises UnreadableRecordError if it is none."""
        metadata, where = item.metadata, _where(item)
        made = metadata.creation_timestamp.timestamp() if metadata.creation_timestamp is not None else 0.0
        tenant = self._places.tenant_of(metadata.namespace) if self._kind.namespaced else None
        known = item.status.get("record") or {}
        said = metadata.annotations.get(_CREATED_AT, made)
        try:
            spec = self._kind.format.read(document.plain(self._to_file(item, tenant)), {})
            record = Record(
                id=RecordId(metadata.labels.get(self._id_label) or metadata.uid),
                spec=spec,
                status=msgspec.convert(known.get("status") or {}, self._kind.status),
                created_at=Timestamp(msgspec.convert(known.get("created_at", said), float, strict=False)),
                deleting=msgspec.convert(known.get("deleting", False), bool),
                version=int(metadata.resource_version),
            )
        except (msgspec.ValidationError, InvalidInputError, AttributeError) as error:
            raise UnreadableRecordError(f"{self._kind.name} '{where}' cannot be read: {error}") from error
        self._remember(item, record, made)
        record = self._kind.reopened(record)
        if self._places.believes_dates:
            return record
        return replace(record, created_at=dated(item, record.created_at))

    def _plain_name(self, item: GenericObject) -> str:
        name = item.metadata.name
        return name if self._kind.namespaced else self._places.plain_name_of(name)

    def _to_file(self, item: GenericObject, tenant: Tenant | None) -> Plain:
        metadata: Plain = {"name": self._plain_name(item)}
        if tenant is not None:
            metadata["tenant"] = tenant
        return {"apiVersion": self._kind.api_version, "metadata": metadata, "spec": item.spec}

    def _remember(self, item: GenericObject, record: Record[Spec, Status], made: float) -> None:
        """Note whose jobs belong to this object; raises UnreadableRecordError if the id is another one's."""
        metadata, known = item.metadata, self.owners.get(record.id)
        another = known is not None and known.namespace != metadata.namespace
        if another and (self._listed or self._made[record.id] <= made):
            raise UnreadableRecordError(
                f"{self._kind.name} '{_where(item)}' has the id of another; leave out the label {self._id_label}"
            )
        reference = OwnerReference(
            api_version=self._resource.api_version, kind=self._resource.kind, name=metadata.name, uid=metadata.uid
        )
        self.owners[record.id], self._made[record.id] = Owner(metadata.namespace, reference), made


def record_to_status(kind: AnyKind, record: Record[Any, Any]) -> Plain:
    """Write where a record is, if there is anything to say: what people read, and all that the file does not say."""
    if kind.status is NoStatus:
        return {}
    whole: Plain = msgspec.to_builtins({name: getattr(record, name) for name in _ENVELOPE})
    progress: Plain = msgspec.to_builtins(record.status)
    return {"status": {"state": record.state, "message": None, "record": {**whole, "status": progress}}}


def _where(item: GenericObject) -> str:
    return f"{item.metadata.namespace}/{item.metadata.name}".removeprefix("/")


def _replacing(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> Plain:
    """Return the merge patch that turns one mapping into another: what is gone is said to be gone."""
    gone: Plain = {name: None for name in present if name not in wanted}
    both = {
        name: _replacing(present[name], value)
        if isinstance(value, Mapping) and isinstance(present.get(name), Mapping)
        else value
        for name, value in wanted.items()
    }
    return gone | both
