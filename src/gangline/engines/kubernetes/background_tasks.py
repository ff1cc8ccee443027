"""Background tasks of an engine: referenced while they run, logged when they fail; and retrying."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from gangline.kube import KubeError
from gangline.model import Backoff

_log = logging.getLogger(__name__)
_BACKOFF = Backoff(first_seconds=0.5, longest_seconds=30.0)


class BackgroundTasks:
    """Tasks of one engine."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> "asyncio.Task[None]":
        """Begin something; a failure of it is logged."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    async def close(self) -> None:
        """End everything that is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed", task.get_name(), exc_info=error)


async def retry_until_done(act: Callable[[], Awaitable[None]]) -> None:
    """Do something that must be done, however long the API server is away and whatever goes wrong with it."""
    failures = 0
    while True:
        try:
            await act()
            return
        except KubeError as error:
            _log.warning("the cluster refuses for now; trying again: %s", error)
            failures = 1
        except Exception:  # noqa: BLE001  # a fault of ours, but machines may depend on this: not given up, nor hurried
            failures += 1
            _log.exception("something failed that must not; trying again in %g s", _BACKOFF.pause(failures))
        await asyncio.sleep(_BACKOFF.pause(failures))
