"""Tells whoever watches which jobs changed. Slow watchers cost nothing: what they miss is merged, never lost."""

import asyncio
from collections.abc import AsyncIterator
from weakref import WeakSet

from gangline.model import JobId


class _Watcher:
    def __init__(self) -> None:
        self.changed: dict[JobId, None] = {}
        self.wake = asyncio.Event()


class ChangeFeed:
    """Fans changes out to watchers."""

    def __init__(self) -> None:
        # Weak: a watcher lives as long as its iterator, even one that was never stepped.
        self._watchers: WeakSet[_Watcher] = WeakSet()

    def publish(self, job_id: JobId) -> None:
        """Say that this job changed."""
        for watcher in list(self._watchers):
            watcher.changed[job_id] = None
            watcher.wake.set()

    def watch(self) -> AsyncIterator[JobId]:
        """Return every job that changes from this call on."""
        watcher = _Watcher()
        self._watchers.add(watcher)
        return self._read(watcher)

    async def _read(self, watcher: _Watcher) -> AsyncIterator[JobId]:
        while True:
            await watcher.wake.wait()
            watcher.wake.clear()
            changed, watcher.changed = watcher.changed, {}
            for job_id in changed:
                yield job_id
