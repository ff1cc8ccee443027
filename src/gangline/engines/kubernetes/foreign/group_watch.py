"""The PodGroups that pods name, followed only where somebody names one.

A kind is looked at from the moment the first pod names a group of it. If the cluster does not serve that kind, it is
asked again every few seconds while such pods wait: definitions installed later are noticed, and a cluster without any
pays nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from gangline.engines.kubernetes.foreign.groups import GROUP_RESOURCES, Group, GroupKind, GroupName, read_group
from gangline.kube import Change, Deleted, GenericObject, KubeClient, Synced

_PAUSE_SECONDS = 3.0
_Key = tuple[GroupKind, str, str]


class GroupWatch:
    """Groups as they are now. ``changed`` is called with the kind, namespace and name of each that changes.

    ``wanted`` says whether any pod still names a group of a kind.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str | None,
        changed: Callable[[GroupKind, str, str], None],
        wanted: Callable[[GroupKind], bool],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._changed = changed
        self._wanted = wanted
        self._items: dict[_Key, GenericObject] = {}
        self._following: dict[GroupKind, asyncio.Task[None]] = {}

    def find(self, name: GroupName) -> Group | None:
        """Return a group, if it is there."""
        item = self.object_of(name)
        return read_group(name, item) if item is not None else None

    def object_of(self, name: GroupName) -> GenericObject | None:
        """Return a group's object, if it is there."""
        if name.kind not in self._following:
            self._following[name.kind] = asyncio.create_task(self._follow(name.kind), name=f"watch {name.kind} groups")
        return self._items.get((name.kind, name.namespace, name.name))

    async def close(self) -> None:
        """Stop looking."""
        for task in self._following.values():
            task.cancel()
        await asyncio.gather(*self._following.values(), return_exceptions=True)
        self._following.clear()

    async def _follow(self, kind: GroupKind) -> None:
        await self._client.follow(
            GROUP_RESOURCES[kind],
            partial(self._take, kind),
            namespace=self._namespace,
            goes_on=lambda: self._wanted(kind),
            pause_seconds=_PAUSE_SECONDS,
            level=logging.DEBUG,
        )
        del self._following[kind]

    def _take(self, kind: GroupKind, change: Change[GenericObject]) -> None:
        if isinstance(change, Synced):
            return
        metadata = change.object.metadata
        key = (kind, metadata.namespace, metadata.name)
        if isinstance(change, Deleted):
            self._items.pop(key, None)
        else:
            self._items[key] = change.object
        self._changed(*key)
