"""Reads the numbers that replicas report in their output: those of lead replicas as they come, all to the end at exit.

Whoever sees a job end can then read its last numbers. Nothing is lost where that fails: the log is read once more when
the pod goes.
"""

import asyncio
import logging
from collections.abc import Callable

from gangline.engines.kubernetes import kept_logs
from gangline.engines.kubernetes.errands import Errands
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.kube import KubeClient, KubeError, Pod
from gangline.model import Metric

_log = logging.getLogger(__name__)
_BEGIN_SECONDS = 2.0
"""How long after its start one begins to listen to a replica: a burst of starts has other needs first."""
_STREAMS = 200
"""How many replicas are listened to at once; the others' numbers are read when they end."""
_LAST_WORDS_SECONDS = 4.0
"""How long an exit waits for the numbers before it: a node that does not answer must not hold up a job."""


class Listener:
    """Listens to replicas. ``report`` receives their numbers, some of them more than once."""

    def __init__(
        self,
        client: KubeClient,
        errands: Errands,
        *,
        report: Callable[[Metric], None],
        concurrency: int,
        begin_seconds: float = _BEGIN_SECONDS,
        patience_seconds: float = _LAST_WORDS_SECONDS,
    ) -> None:
        self._client = client
        self._errands = errands
        self._report = report
        self._slots = asyncio.Semaphore(concurrency)
        self._begin_seconds = begin_seconds
        self._patience_seconds = patience_seconds
        self._streams: dict[ReplicaKey, asyncio.Task[None]] = {}
        self._followed: set[ReplicaKey] = set()
        """Replicas of whose output nothing was missed so far."""

    def begin(self, key: ReplicaKey, pod: Pod) -> None:
        """Listen to a replica that runs, unless too many are listened to already."""
        if key not in self._streams and len(self._streams) < _STREAMS:
            name = f"metrics of {pod.metadata.name}"
            self._streams[key] = self._errands.spawn(self._follow(key, pod), name=name)

    def forget(self, key: ReplicaKey) -> None:
        """Stop listening to a replica that is lost."""
        if (stream := self._streams.pop(key, None)) is not None:
            stream.cancel()

    def hear_out(self, key: ReplicaKey, pod: Pod) -> "asyncio.Task[None]":
        """Read what a replica that has ended said last; done when all is reported, or it took too long."""
        stream = self._streams.pop(key, None)
        return self._errands.spawn(self._hear_out(key, pod, stream), name=f"last metrics of {pod.metadata.name}")

    async def _follow(self, key: ReplicaKey, pod: Pod) -> None:
        await asyncio.sleep(self._begin_seconds)
        self._followed.add(key)
        try:
            await self._read(key, pod, follow=True)
        except KubeError as error:
            self._followed.discard(key)
            _log.debug("numbers of %s are read later: %s", pod.metadata.name, error)

    async def _hear_out(self, key: ReplicaKey, pod: Pod, stream: "asyncio.Task[None] | None") -> None:
        try:
            async with asyncio.timeout(self._patience_seconds):
                if not await self._stream_ended(key, stream):
                    async with self._slots:
                        await self._read(key, pod, follow=False)
        except TimeoutError:
            _log.warning("the last numbers of %s are read later: its log is long, or its node slow", pod.metadata.name)
        except KubeError as error:
            _log.debug("the last numbers of %s are read later: %s", pod.metadata.name, error)
        finally:
            self._followed.discard(key)

    async def _stream_ended(self, key: ReplicaKey, stream: "asyncio.Task[None] | None") -> bool:
        """Whether all was heard as it was written; a stream that is open ends by itself when its program has."""
        if stream is None:
            return False
        if key not in self._followed:
            stream.cancel()  # it has not begun
            return False
        await asyncio.wait({stream})
        return key in self._followed

    async def _read(self, key: ReplicaKey, pod: Pod, *, follow: bool) -> None:
        async for metric in kept_logs.metrics_of(self._client, key, pod, follow=follow):
            self._report(metric)
