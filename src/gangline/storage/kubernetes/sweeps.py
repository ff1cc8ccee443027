"""Sweeps as custom resources: read, written with a guard, and followed.

A sweep is small and has one writer at a time, so status and spec are one object without a separate status: a submission
is one write. Its trials are jobs like any other and are found by their labels.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import msgspec

from gangline.dialects.native import API_VERSION, sweep_from_plain, sweep_to_plain
from gangline.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StaleVersionError,
    StorageError,
    UnreadableRecordError,
)
from gangline.kube import (
    AlreadyExistsError,
    Applied,
    Deleted,
    GenericObject,
    KubeClient,
    KubeError,
    Owner,
    OwnerReference,
)
from gangline.kube import ConflictError as KubeConflictError
from gangline.kube import NotFoundError as KubeNotFoundError
from gangline.model import Job, Tenant
from gangline.model.sweep import SWEEP_LABEL, Sweep
from gangline.storage.kubernetes.births import dated
from gangline.storage.kubernetes.definitions import GROUP, SWEEPS
from gangline.storage.kubernetes.objects import JobObjects

SWEEP_ID = f"{GROUP}/sweep-id"
_INVALID = "invalid"
_PAUSE_SECONDS = 1.0
_RECORD = tuple(item.name for item in fields(Sweep) if item.name not in ("spec", "version"))
_log = logging.getLogger(__name__)


class SweepObjects:
    """Every sweep within reach, in the namespaces where its tenant's jobs are."""

    def __init__(self, client: KubeClient, places: JobObjects) -> None:
        self._client = client
        self._places = places
        self.owners: dict[str, Owner] = {}
        """What the trials of a sweep and the files sent with it belong to, by its id, of all that were seen here."""
        self._made: dict[str, float] = {}
        """When the server made the object of each of these."""
        self._listed = False
        """Whether a watch has once seen all: from then on none that is known is displaced."""

    async def create(self, sweep: Sweep) -> Sweep:
        """Keep a new sweep; see Store."""
        try:
            known = await self._client.list(SWEEPS, namespace=self._places.scope, labels={SWEEP_ID: sweep.id})
            if any(self._places.is_ours(item.metadata.namespace) for item in known.items or ()):
                raise ConflictError(f"there is a sweep with the id '{sweep.id}' already")
            created = await self._client.create(SWEEPS, self._to_object(sweep))
        except AlreadyExistsError as error:
            raise ConflictError(f"tenant '{sweep.tenant}' has a sweep named '{sweep.name}' already") from error
        except KubeError as error:
            raise StorageError(f"sweep '{sweep.name}' cannot be kept: {error}") from error
        return self._read(created)

    async def save(self, sweep: Sweep) -> Sweep:
        """Replace a sweep's progress; see Store. What it tries never changes."""
        namespace = self._places.namespace_of(sweep.tenant)
        patch = {"metadata": {"resourceVersion": str(sweep.version)}, "status": sweep_to_status(sweep)}
        try:
            return self._read(await self._client.patch(SWEEPS, sweep.name, patch, namespace=namespace))
        except KubeNotFoundError as error:
            raise NotFoundError("sweep", sweep.name) from error
        except KubeConflictError as error:
            found = await self._version(sweep, namespace)
            raise StaleVersionError("sweep", sweep.name, expected=sweep.version, found=found) from error
        except KubeError as error:
            raise StorageError(f"sweep '{sweep.name}' cannot be saved: {error}") from error

    async def all(self, tenant: Tenant | None) -> Sequence[Sweep]:
        """Return sweeps, newest first; see Store."""
        namespace = self._places.namespace_of(tenant) if tenant is not None else self._places.scope
        try:
            found = await self._client.list(SWEEPS, namespace=namespace)
        except KubeError as error:
            raise StorageError(f"the sweeps cannot be listed: {error}") from error
        sweeps = []
        for item in found.items or ():
            if self._places.is_ours(item.metadata.namespace):
                # One damaged record must not hide all others; its owner sees it with kubectl.
                with contextlib.suppress(StorageError):
                    sweeps.append(self._read(item))
        return tuple(sorted(sweeps, key=lambda sweep: (sweep.created_at, sweep.id), reverse=True))

    async def remove(self, tenant: Tenant, name: str) -> None:
        """Remove a sweep; see Store."""
        try:
            await self._client.delete(SWEEPS, name, namespace=self._places.namespace_of(tenant))
        except KubeNotFoundError:
            return
        except KubeError as error:
            raise StorageError(f"sweep '{name}' cannot be removed: {error}") from error

    async def follow(self, changed: Callable[[], None]) -> None:
        """Call back whenever a sweep was submitted, changed or removed by anybody, for ever."""
        while True:
            try:
                async with contextlib.aclosing(self._client.reflect(SWEEPS, namespace=self._places.scope)) as changes:
                    async for change in changes:
                        if isinstance(change, Applied):
                            await self._tell_if_invalid(change.object)
                        elif isinstance(change, Deleted):
                            self._forget(change.object)
                        else:
                            self._listed = True
                        changed()
            except KubeError as error:
                _log.warning("sweeps cannot be watched; trying again: %s", error)
            await asyncio.sleep(_PAUSE_SECONDS)

    def _forget(self, item: GenericObject) -> None:
        uid = item.metadata.uid
        self.owners = {key: owner for key, owner in self.owners.items() if owner.reference.uid != uid}

    async def _tell_if_invalid(self, item: GenericObject) -> None:
        """Say in its status why an object can be no sweep: what a schema cannot check, its author must see."""
        try:
            self._read(item)
        except StorageError as error:
            status = {"state": _INVALID, "message": str(error)}
            if {name: item.status.get(name) for name in status} != status:
                patch = {"status": status}
                await self._client.patch(SWEEPS, item.metadata.name, patch, namespace=item.metadata.namespace)

    async def _version(self, sweep: Sweep, namespace: str) -> int | None:
        try:
            found = await self._client.get(SWEEPS, sweep.name, namespace=namespace)
        except KubeError:
            return None
        return int(found.metadata.resource_version)

    def _to_object(self, sweep: Sweep) -> dict[str, Any]:
        plain: dict[str, Any] = sweep_to_plain(sweep.spec, ordered=True)
        plain["spec"]["template"]["metadata"].pop("tenant", None)
        return {
            "metadata": {
                "name": sweep.name,
                "namespace": self._places.namespace_of(sweep.tenant),
                "labels": {SWEEP_ID: sweep.id},
            },
            "spec": plain["spec"],
            "status": sweep_to_status(sweep),
        }

    def _read(self, item: GenericObject) -> Sweep:
        metadata = item.metadata
        sweep = object_to_sweep(item, self._places.tenant_of(metadata.namespace))
        made = metadata.creation_timestamp.timestamp() if metadata.creation_timestamp is not None else 0.0
        known = self.owners.get(sweep.id)
        another = known is not None and known.namespace != metadata.namespace
        if another and (self._listed or self._made[sweep.id] <= made):
            raise UnreadableRecordError(
                f"sweep '{metadata.namespace}/{metadata.name}' bears the id of another; leave out the label {SWEEP_ID}"
            )
        reference = OwnerReference(
            api_version=SWEEPS.api_version, kind=SWEEPS.kind, name=metadata.name, uid=metadata.uid
        )
        self.owners[sweep.id], self._made[sweep.id] = Owner(metadata.namespace, reference), made
        if self._places.believes_dates:
            return sweep
        return replace(sweep, created_at=dated(item, sweep.created_at))

    def owner_of_trial(self, job: Job, namespace: str) -> OwnerReference | None:
        """Return the sweep that a job is a trial of: who deletes it with kubectl means its trials too."""
        owner = self.owners.get(job.id.rpartition("-")[0]) if SWEEP_LABEL in job.spec.labels else None
        return owner.reference if owner is not None and owner.namespace == namespace else None


def sweep_to_status(sweep: Sweep) -> dict[str, Any]:
    """Write where the sweep is: what people read, and the whole record."""
    whole: dict[str, Any] = msgspec.to_builtins(sweep)
    return {
        "state": sweep.state.value,
        "begun": sweep.begun,
        "message": None,
        "record": {name: whole[name] for name in _RECORD},
    }


def object_to_sweep(item: GenericObject, tenant: Tenant) -> Sweep:
    """Read a sweep, whoever wrote it; raises UnreadableRecordError if it is none."""
    metadata = item.metadata
    created = metadata.creation_timestamp
    sweep_id = metadata.labels.get(SWEEP_ID) or metadata.uid
    newborn = {"created_at": created.timestamp() if created is not None else 0.0}
    try:
        spec = sweep_from_plain(
            {"apiVersion": API_VERSION, "metadata": {"name": metadata.name, "tenant": tenant}, "spec": item.spec}
        )
        record = {
            **newborn,
            **(item.status.get("record") or {}),
            "id": sweep_id,
            "version": int(metadata.resource_version),
        }
        return msgspec.convert({**record, "spec": msgspec.to_builtins(spec)}, Sweep)
    except (msgspec.ValidationError, InvalidInputError) as error:
        raise UnreadableRecordError(f"sweep '{metadata.namespace}/{metadata.name}' cannot be read: {error}") from error
