"""Tells whoever watches which jobs changed. Slow watchers cost nothing: what they miss is merged, never lost."""

import asyncio
from collections.abc import AsyncIterator

from gangline.model import JobId


class _Watcher:
    def __init__(self) -> None:
        self.changed: dict[JobId, None] = {}
        self.wake = asyncio.Event()


class ChangeFeed:
    """Fans changes out to watchers."""

    def __init__(self) -> None:
        self._watchers: set[_Watcher] = set()

    def publish(self, job_id: JobId) -> None:
        """Say that this job changed."""
        for watcher in self._watchers:
            watcher.changed[job_id] = None
            watcher.wake.set()

    def watch(self) -> AsyncIterator[JobId]:
        """Return every job that changes from this call on."""
        watcher = _Watcher()
        self._watchers.add(watcher)
        return self._read(watcher)

    async def _read(self, watcher: _Watcher) -> AsyncIterator[JobId]:
        try:
            while True:
                await watcher.wake.wait()
                watcher.wake.clear()
                changed, watcher.changed = watcher.changed, {}
                for job_id in changed:
                    yield job_id
        finally:
            self._watchers.discard(watcher)
