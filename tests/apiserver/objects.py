"""All objects of a cluster in memory: versions and their history, guarded writes, deletion and what follows from it.

Objects are never changed, only replaced, so that histories, lists and watches can share them.
"""

import asyncio
import secrets
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gangline.compose import SystemClock
from tests.apiserver import patches, schema
from tests.apiserver.errors import RefusedError, bad_request, conflict, expired, invalid, not_found
from tests.apiserver.kinds import BUILT_IN, DEFINITIONS, NAMESPACES, PODS, Kind, kind_of_definition
from tests.apiserver.patches import Body, Owners

Key = tuple[str, str]
"""Namespace (empty for kinds that have none) and name."""

_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_DEFAULT_GRACE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Moment:
    """One change: how the object was and how it is; None is not there."""

    version: int
    kind: Kind
    before: Body | None
    after: Body | None


def stamp(seconds_ahead: float = 0.0) -> str:
    """The time as objects tell it."""
    return f"{datetime.fromtimestamp(SystemClock().now() + seconds_ahead, UTC):%Y-%m-%dT%H:%M:%SZ}"


class ObjectStore:
    """What etcd and the API server's registries are to a real cluster. All calls are made on one event loop."""

    def __init__(self) -> None:
        self.kinds = {kind.place: kind for kind in BUILT_IN}
        self.version = 1
        self.history: list[Moment] = []
        self.changed = asyncio.Event()
        """Replaced at every change, for those who wait for the next one."""
        self._compacted = 0
        self._held: dict[Kind, dict[Key, Body]] = defaultdict(dict)
        self._owners: dict[tuple[Kind, Key], Owners] = {}
        self._uids: set[str] = set()
        self._collecting = False
        for name in ("default", "kube-system"):
            self.create(NAMESPACES, "", {"metadata": {"name": name}}, "server")

    # Reading -------------------------------------------------------------------------------------------------

    def get(self, kind: Kind, key: Key) -> Body:
        """One object."""
        try:
            return self._held[kind][key]
        except KeyError:
            raise not_found(_full(kind), key[1]) from None

    def all(self, kind: Kind, namespace: str = "") -> list[Body]:
        """The objects of a namespace, or of all, in the order of their keys."""
        held = self._held[kind]
        return [held[key] for key in sorted(held) if namespace in ("", key[0])]

    def since(self, version: int) -> Iterator[Moment]:
        """All that happened after a version; refused if that is no longer known."""
        if version < self._compacted:
            raise expired()
        return (self.history[index] for index in range(self._index_after(version), len(self.history)))

    def compact(self) -> None:
        """Forget the past, as etcd does after a few minutes."""
        self._compacted = self.version
        self.history.clear()

    def _index_after(self, version: int) -> int:
        # Versions rise by one with every change, and the newest change is the last of the history.
        return max(0, len(self.history) - (self.version - version))

    # Writing -------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, namespace: str, body: Body, manager: str, *, dry_run: bool = False) -> Body:
        """Add an object."""
        metadata = dict(body.get("metadata") or {})
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise invalid(
                    kind.kind, "", [("FieldValueRequired", "name or generateName is required", "metadata.name")]
                )
            metadata["name"] = metadata["generateName"] + secrets.token_hex(3)[:5]
        key = self._place(kind, namespace, metadata)
        if key in self._held[kind]:
            raise RefusedError(409, "AlreadyExists", f'{_full(kind)} "{key[1]}" already exists')
        made = {name: value for name, value in metadata.items() if name not in _FIXED} | {
            "name": key[1],
            "uid": str(uuid.uuid4()),
            "creationTimestamp": stamp(),
            "generation": 1,
            **({"namespace": key[0]} if key[0] else {}),
        }
        after = {**deepcopy(body), "apiVersion": kind.api_version, "kind": kind.kind, "metadata": made}
        if kind.has_status:
            after.pop("status", None)
        after |= {"status": first} if (first := _first_status(kind)) else {}
        after = self._admitted(kind, after)
        return after if dry_run else self._commit(kind, key, None, after, patches.owners_after({}, {}, after, manager))

    def replace(self, kind: Kind, key: Key, body: Body, manager: str, *, part: str = "", dry_run: bool = False) -> Body:
        """Put another form in the place of an object."""
        if kind.schema is not None and not body["metadata"].get("resourceVersion"):
            required = (
                "FieldValueInvalid",
                "Invalid value: 0: must be specified for an update",
                "metadata.resourceVersion",
            )
            raise invalid(kind.kind, key[1], [required])
        return self._update(kind, key, lambda _: deepcopy(body), manager, part, dry_run=dry_run, whole=True)

    def merge(self, kind: Kind, key: Key, patch: Body, manager: str, *, part: str = "", dry_run: bool = False) -> Body:
        """Merge a patch into an object."""
        return self._update(kind, key, lambda before: patches.merged(before, patch), manager, part, dry_run=dry_run)

    def apply(
        self, kind: Kind, key: Key, body: Body, manager: str, *, force: bool, part: str = "", dry_run: bool = False
    ) -> Body:
        """Server-side apply."""
        name = f"{manager}:apply"
        if key not in self._held[kind]:
            return self.create(kind, key[0], body, name, dry_run=dry_run)
        owners, before = self._owners[kind, key], self.get(kind, key)
        contested = patches.conflicts(owners, before, body, name)
        if contested and not force:
            causes = [("FieldManagerConflict", "conflict with another manager", ".".join(path)) for path in contested]
            refusal = conflict(_full(kind), key[1], f"Apply failed with {len(causes)} conflicts")
            raise RefusedError(409, "Conflict", refusal.message, causes)
        after, owned = patches.applied(owners, before, body, name)
        return self._update(kind, key, lambda _: after, name, part, dry_run=dry_run, owners=owned)

    def _update(
        self,
        kind: Kind,
        key: Key,
        change: Callable[[Body], Body],
        manager: str,
        part: str,
        *,
        dry_run: bool,
        owners: Owners | None = None,
        whole: bool = False,
    ) -> Body:
        before = self.get(kind, key)
        after = change(before)
        self._check_guards(kind, key, before, after, whole=whole)
        if part == "status":
            after = {**before, **({"status": after["status"]} if "status" in after else {})}
        elif kind.has_status:
            after = {**after, "status": before.get("status")} if "status" in before else _less(after, "status")
        kept = {name: before["metadata"][name] for name in _FIXED if name in before["metadata"]}
        metadata = {name: value for name, value in after["metadata"].items() if name not in _FIXED} | kept
        metadata |= {name: before["metadata"][name] for name in ("generation", "resourceVersion")}
        after = self._admitted(kind, {**after, "metadata": metadata})
        if after == before:
            return before
        if schema.without_root(_less(after, "status")) != schema.without_root(_less(before, "status")):
            metadata["generation"] += 1
        if dry_run:
            return after
        owned = owners if owners is not None else patches.owners_after(self._owners[kind, key], before, after, manager)
        stored = self._commit(kind, key, before, after, owned)
        self._remove_if_free(kind, key)
        return stored

    def _check_guards(self, kind: Kind, key: Key, before: Body, after: Body, *, whole: bool) -> None:
        said, known = after.get("metadata") or {}, before["metadata"]
        if said.get("uid", known["uid"]) != known["uid"]:
            if whole:
                raise conflict(_full(kind), key[1], f"Precondition failed: UID in precondition: {said['uid']}")
            raise invalid(kind.kind, key[1], [("FieldValueInvalid", "field is immutable", "metadata.uid")])
        if said.get("resourceVersion") and said["resourceVersion"] != known["resourceVersion"]:
            raise conflict(
                _full(kind), key[1], "the object has been modified; please apply your changes to the latest version"
            )
        for name in ("name", "namespace"):
            if said.get(name, known.get(name)) != known.get(name):
                raise bad_request(f"the {name} of the object does not match the one in the URL")

    def _place(self, kind: Kind, namespace: str, metadata: Body) -> Key:
        if not kind.namespaced:
            return "", metadata["name"]
        if metadata.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        around = self.get(NAMESPACES, ("", namespace))
        if "deletionTimestamp" in around["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise RefusedError(403, "Forbidden", why)
        return namespace, metadata["name"]

    def _admitted(self, kind: Kind, body: Body) -> Body:
        if kind.schema is None:
            return body
        body = schema.admitted(body, kind.schema)
        if wrong := schema.complaints(body, kind.schema):
            raise invalid(kind.kind, body["metadata"]["name"], wrong)
        return body

    def _commit(self, kind: Kind, key: Key, before: Body | None, after: Body | None, owners: Owners) -> Body:
        self.version += 1
        latest = after if after is not None else before
        assert latest is not None
        stored = {**latest, "metadata": {**latest["metadata"], "resourceVersion": str(self.version)}}
        if after is None:
            del self._held[kind][key], self._owners[kind, key]
            self._uids.discard(stored["metadata"]["uid"])
        else:
            self._held[kind][key] = stored
            self._owners[kind, key] = owners
            self._uids.add(stored["metadata"]["uid"])
        self.history.append(Moment(self.version, kind, before, stored if after is not None else None))
        self.changed.set()
        self.changed = asyncio.Event()
        self._follow_up(kind, stored, gone=after is None)
        return stored

    # Deleting ------------------------------------------------------------------------------------------------

    def delete(self, kind: Kind, key: Key, options: Body | None = None) -> Body:
        """Delete an object, or begin to: finalizers, a grace period and what a namespace holds come first."""
        options = options or {}
        before = self.get(kind, key)
        for name, wanted in (options.get("preconditions") or {}).items():
            if before["metadata"][name] != wanted:
                raise conflict(_full(kind), key[1], f"Precondition failed: {name} in precondition: {wanted}")
        grace = _grace_of(kind, before, options.get("gracePeriodSeconds"))
        metadata = before["metadata"]
        if "deletionTimestamp" in metadata and grace >= metadata["deletionGracePeriodSeconds"]:
            return before
        marks = {"deletionTimestamp": stamp(grace), "deletionGracePeriodSeconds": grace}
        marked = {**before, "metadata": {**metadata, **marks}}
        if kind is NAMESPACES:
            marked["status"] = {"phase": "Terminating"}
        if kind is NAMESPACES or grace or metadata.get("finalizers"):
            marked = self._commit(kind, key, before, marked, self._owners[kind, key])
            if kind is NAMESPACES:
                self._empty(key[1])
                self._remove_if_free(kind, key)
            return marked
        return self._commit(kind, key, before, None, {})

    def _remove_if_free(self, kind: Kind, key: Key) -> None:
        """Take an object away that is being deleted and that nobody holds back any more."""
        found = self._held[kind].get(key)
        if found is None or found["metadata"].get("deletionGracePeriodSeconds") != 0:
            return
        full = kind is NAMESPACES and any(held_in == key[1] for held in self._held.values() for held_in, _ in held)
        if not full and not found["metadata"].get("finalizers"):
            self._commit(kind, key, found, None, {})

    def _empty(self, namespace: str) -> None:
        for kind, held in list(self._held.items()):
            for key in [key for key in held if key[0] == namespace]:
                if key in held:  # it may have gone with its owner
                    self.delete(kind, key)

    def _follow_up(self, kind: Kind, body: Body, *, gone: bool) -> None:
        """What the controllers of a cluster do about a change: a moment later, as they would."""
        metadata = body["metadata"]
        if kind is DEFINITIONS:
            self._serve(body, gone=gone)
        if gone and metadata.get("namespace"):
            self._soon(self._remove_if_free, NAMESPACES, ("", metadata["namespace"]))
        if (gone or metadata.get("ownerReferences")) and not self._collecting:
            self._collecting = self._soon(self._collect)

    def _soon(self, act: Callable[..., object], *arguments: Any) -> bool:
        asyncio.get_running_loop().call_soon(act, *arguments)
        return True

    def _collect(self) -> None:
        """Delete everything whose owners are all gone."""
        self._collecting = False
        for kind, held in list(self._held.items()):
            for key, body in list(held.items()):
                owners = body["metadata"].get("ownerReferences") or ()
                if owners and not any(owner["uid"] in self._uids for owner in owners) and key in held:
                    self.delete(kind, key)

    def _serve(self, definition: Body, *, gone: bool) -> None:
        kind = kind_of_definition(definition)
        if gone:
            for key in list(self._held.pop(self.kinds.pop(kind.place), {})):
                self._owners.pop((kind, key), None)
            return
        self.kinds[kind.place] = kind
        if "conditions" not in definition.get("status", {}):
            conditions = [{"type": name, "status": "True"} for name in ("NamesAccepted", "Established")]
            key = ("", definition["metadata"]["name"])
            self._soon(
                lambda: self.merge(DEFINITIONS, key, {"status": {"conditions": conditions}}, "server", part="status")
            )


def _grace_of(kind: Kind, body: Body, asked: int | None) -> int:
    """How long a pod may take to end; nothing else has such a time, nor has a pod that does not run."""
    status = body.get("status") or {}
    if kind is not PODS or not body["spec"].get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if asked is not None:
        return asked
    return int(body["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))


def _first_status(kind: Kind) -> Body | None:
    return {PODS: {"phase": "Pending"}, NAMESPACES: {"phase": "Active"}}.get(kind)


def _less(body: Body, name: str) -> Body:
    return {key: value for key, value in body.items() if key != name}


def _full(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural
