"""Writes what the clients of somebody else's kind look at: an object's status, and objects that follow from it.

What was written is remembered, so that only changes are; after a restart everything is written once more.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from gangline.kinds import AnyKind
from gangline.kinds.kind import Plain, Published
from gangline.kube import AlreadyExistsError, GenericObject, KubeClient, KubeError, NotFoundError, Owner, Resource
from gangline.storage.kubernetes.definitions.native import resource_of

_log = logging.getLogger(__name__)


class Publisher:
    """Writes for one cluster."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._written: dict[str, dict[str, str]] = {}
        """What was last written of each record, by its id: of each object, by kind and name."""

    async def publish(self, kind: AnyKind, record_id: str, owner: Owner, told: Published) -> None:
        """Write what has changed; what cannot be written now is tried again with the next change."""
        known = self._written.setdefault(record_id, {})
        try:
            for child in told.children:  # before its own status: who reads there that it has ended looks at them next
                await self._child(child, owner, known)
            own = {"status": told.status}
            await self._status(resource_of(kind), owner.reference.name, owner.namespace, own, known)
        except NotFoundError:
            self._written.pop(record_id, None)  # it was deleted meanwhile, and all that follows from it
        except KubeError as error:
            _log.warning("what clients see of %s %s is not up to date: %s", kind.name, owner.reference.name, error)

    async def _status(
        self,
        resource: Resource[GenericObject],
        name: str,
        namespace: str,
        body: Mapping[str, Any],
        known: dict[str, str],
    ) -> None:
        key, text = f"{resource.kind}/{name}", json.dumps(body["status"], sort_keys=True)
        if known.get(key) == text:
            return
        await self._client.patch(resource, name, {"status": body["status"]}, namespace=namespace, subresource="status")
        known[key] = text

    async def _child(self, child: Plain, owner: Owner, known: dict[str, str]) -> None:
        group, _, version = child["apiVersion"].partition("/")
        kind, name = child["kind"], child["metadata"]["name"]
        resource = Resource(group=group, version=version, plural=f"{kind.lower()}s", kind=kind, type=GenericObject)
        if f"{kind}/{name}" not in known:
            reference = owner.reference
            whose = {
                "apiVersion": reference.api_version,
                "kind": reference.kind,
                "name": reference.name,
                "uid": reference.uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
            metadata = {
                "name": name,
                "namespace": owner.namespace,
                "labels": child["metadata"].get("labels") or {},
                "ownerReferences": [whose],
            }
            try:
                await self._client.create(resource, {"metadata": metadata, "spec": child["spec"]})
            except AlreadyExistsError:
                _log.debug("%s %s is there already", kind, name)
        await self._status(resource, name, owner.namespace, child, known)
