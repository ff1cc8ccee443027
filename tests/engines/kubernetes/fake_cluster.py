"""An API server in memory, for walking every interleaving of a crash; the real one is in tests/integration/kubernetes.

It keeps objects, answers as the real one would (conflicts, not found, watches) and plays a kubelet that starts every
pod at once. ``die_at`` names the write during which the controller is killed, before or after it took effect.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from gangline.kube import (
    PODS,
    AlreadyExistsError,
    Applied,
    Change,
    Deleted,
    KubeClient,
    NotFoundError,
    ObjectList,
    Resource,
    Synced,
)

NOW = datetime.fromtimestamp(1_000_000, UTC).isoformat()


class KilledError(BaseException):
    """The controller was killed here. No code may catch it, as none could catch a kill -9."""


class FakeCluster:
    """All that the engine's client is asked for."""

    def __init__(self, nodes: int = 2) -> None:
        self.namespace = "default"
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.created: list[tuple[str, str]] = []
        self.writes = 0
        self.die_at: int | None = None
        self.die_after_effect = False
        self.dead = False
        self.withholds_addresses = False
        """Whether pods start without an address, until ``give_address``."""
        self.refuses: list[str] = []
        """Why the kubelet turns away the next pods that come, one word for each."""
        self.says: list[bytes] = []
        """What the log of every pod holds after its name."""
        self._addresses = itertools.count(1)
        self._versions = itertools.count(1)
        self._watchers: list[tuple[Resource[Any], asyncio.Queue[Change[Any]]]] = []
        for number in range(nodes):
            allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
            conditions = [{"type": "Ready", "status": "True"}]
            status = {"allocatable": allocatable, "conditions": conditions}
            self._put("nodes", f"node-{number}", {"metadata": {"name": f"node-{number}"}, "status": status})

    def revive(self) -> None:
        """Let a new controller work on what is left."""
        self.die_at = None
        self.dead = False
        self._watchers.clear()

    def pods(self) -> dict[str, dict[str, Any]]:
        """What pods there are, by name."""
        return {name: body for (plural, name), body in self.objects.items() if plural == "pods"}

    def names(self, plural: str) -> list[str]:
        """What there is of one kind."""
        return sorted(name for kind, name in self.objects if kind == plural)

    async def create(self, resource: Resource[Any], body: Mapping[str, Any], **_: object) -> Any:
        """Create, or refuse a name that is taken."""
        name = body["metadata"]["name"]

        def act() -> None:
            if (resource.plural, name) in self.objects:
                raise AlreadyExistsError(f"{name} exists", status=409)
            self.created.append((resource.plural, name))
            self._put(resource.plural, name, dict(body), resource)

        await self._write(act)
        return self._read(resource, name)

    async def create_unread(self, resource: Resource[Any], body: Mapping[str, Any], **_: object) -> None:
        """Create, as ``create`` does."""
        await self.create(resource, body)

    async def apply(self, resource: Resource[Any], body: Mapping[str, Any], **_: object) -> Any:
        """Create or replace."""
        name = body["metadata"]["name"]
        await self._write(lambda: self._put(resource.plural, name, dict(body), resource))
        return self._read(resource, name)

    async def patch(self, resource: Resource[Any], name: str, patch: Mapping[str, Any], **_: object) -> Any:
        """Merge annotations, which is all that the engine patches."""

        def act() -> None:
            if (resource.plural, name) not in self.objects:
                raise NotFoundError(f"no {name}", status=404)
            body = self.objects[resource.plural, name]
            given = {**body["metadata"].get("annotations", {}), **patch["metadata"]["annotations"]}
            self.change(resource, name, {**body, "metadata": {**body["metadata"], "annotations": given}})

        await self._write(act)
        return self._read(resource, name)

    async def delete(self, resource: Resource[Any], name: str, **_: object) -> None:
        """Delete at once: the kubelet here is quick."""

        def act() -> None:
            if (resource.plural, name) not in self.objects:
                raise NotFoundError(f"no {name}", status=404)
            last = self._read(resource, name)
            del self.objects[resource.plural, name]
            self._tell(resource, Deleted(last))

        await self._write(act)

    async def delete_all(self, resource: Resource[Any], **_: object) -> None:
        """Delete everything of a kind."""
        for name in self.names(resource.plural):
            await self.delete(resource, name)

    async def get(self, resource: Resource[Any], name: str, **_: object) -> Any:
        """Read."""
        self._check_alive()
        if (resource.plural, name) not in self.objects:
            raise NotFoundError(f"no {name}", status=404)
        return self._read(resource, name)

    async def list(
        self,
        resource: Resource[Any],
        labels: Mapping[str, str] | str | None = None,
        fields: Mapping[str, str] | None = None,
        namespace: str | None = None,
        **_: object,
    ) -> ObjectList[Any]:
        """Read all of a namespace that bear the labels, or the one of a name."""
        self._check_alive()
        wanted = labels.items() if isinstance(labels, Mapping) else set()
        named = (fields or {}).get("metadata.name")
        found = [self._read(resource, name) for name in self.names(resource.plural) if named in (None, name)]
        here = [item for item in found if namespace in (None, item.metadata.namespace or namespace)]
        return ObjectList(items=[item for item in here if wanted <= item.metadata.labels.items()])

    async def reflect(self, resource: Resource[Any], **_: object) -> AsyncGenerator[Change[Any], None]:
        """Follow a kind."""
        changes: asyncio.Queue[Change[Any]] = asyncio.Queue()
        for name in self.names(resource.plural):
            changes.put_nowait(Applied(self._read(resource, name)))
        changes.put_nowait(Synced())
        self._watchers.append((resource, changes))
        while True:
            yield await changes.get()

    follow = KubeClient.follow

    async def logs(self, pod: str, **_: object) -> AsyncGenerator[bytes, None]:
        """Every pod says its name, and what all say."""
        self._check_alive()
        yield f"2026-01-01T00:00:00.000000000Z {pod}".encode()
        for line in self.says:
            yield line

    def change(self, resource: Resource[Any], name: str, body: dict[str, Any]) -> None:
        """Change an object as somebody else would: a kubelet, mostly."""
        body["metadata"] = {**body["metadata"], "resourceVersion": str(next(self._versions))}
        self.objects[resource.plural, name] = body
        self._tell(resource, Applied(self._read(resource, name)))

    def finish(self, name: str) -> None:
        """Let the containers of a pod end with success."""
        body = self.objects["pods", name]
        ended = {"terminated": {"exitCode": 0, "finishedAt": NOW}}
        statuses = [{**container, "state": ended} for container in body["status"]["containerStatuses"]]
        self.change(PODS, name, {**body, "status": {"phase": "Succeeded", "containerStatuses": statuses}})

    def give_address(self, name: str) -> str:
        """Let a pod have an address, as a kubelet does when its network is there."""
        body = self.objects["pods", name]
        address = f"10.0.0.{next(self._addresses)}"
        self.change(PODS, name, {**body, "status": {**body["status"], "podIP": address}})
        return address

    async def _write(self, act: Any) -> None:
        await asyncio.sleep(0)
        self._check_alive()
        self.writes += 1
        dying = self.die_at is not None and self.writes >= self.die_at
        if dying:
            self.dead = True
        if not dying or self.die_after_effect:
            act()
        self._check_alive()

    def _check_alive(self) -> None:
        if self.dead:
            raise KilledError

    def _put(self, plural: str, name: str, body: dict[str, Any], resource: Resource[Any] | None = None) -> None:
        metadata = {
            "uid": f"uid-{name}-{next(self._versions)}",
            "creationTimestamp": NOW,
            **body["metadata"],
            "resourceVersion": str(next(self._versions)),
        }
        if plural == "pods":
            state = {"running": {"startedAt": NOW}}
            containers = body.get("spec", {}).get("containers") or [{}]
            running = [{"name": container.get("name", "main"), "state": state} for container in containers]
            address = "" if self.withholds_addresses else f"10.0.0.{next(self._addresses)}"
            body["status"] = {"phase": "Running", "podIP": address, "containerStatuses": running}
            if self.refuses:
                body["status"] = {"phase": "Failed", "reason": self.refuses.pop(0), "message": "full"}
        self.objects[plural, name] = {**body, "metadata": metadata}
        if resource is not None:
            self._tell(resource, Applied(self._read(resource, name)))

    def _read(self, resource: Resource[Any], name: str) -> Any:
        return resource.decode(msgspec.json.encode(self.objects[resource.plural, name]))

    def _tell(self, resource: Resource[Any], change: Change[Any]) -> None:
        for watched, changes in self._watchers:
            if watched.plural == resource.plural:
                changes.put_nowait(change)
