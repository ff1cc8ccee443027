"""Reads the numbers that replicas report in their output: those of lead replicas as they come, all to the end at exit.

Whoever sees a job end can then read its last numbers. Nothing is lost where that fails: the log is read once more when
the pod goes.
"""

import asyncio
import logging
from collections.abc import Callable

from gangline.engines.kubernetes.background_tasks import BackgroundTasks
from gangline.engines.kubernetes.logs import saved_logs
from gangline.engines.kubernetes.manifests.collector import COLLECTOR_CONTAINER
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.kube import KubeClient, KubeError, NotFoundError, Pod
from gangline.model import GangId, Metric

_log = logging.getLogger(__name__)
_BEGIN_SECONDS = 2.0
"""How long after its start one begins to listen to a replica: a burst of starts has other needs first."""
_STREAMS = 200
"""How many replicas are listened to at once; the others' numbers are read when they end."""
_LAST_METRICS_SECONDS = 4.0
"""How long an exit or a report of results waits for the numbers before it: a silent node must not hold up a job."""

_STOP_PATIENCE = 4
"""How many times longer the end of a collector may take: a kubelet stops it when all else of the pod has ended."""
_AGAIN_SECONDS = 2.0
"""How long after the end of a collector one looks for the next."""
_COLLECT_SECONDS = 1.5
"""How long an exit waits for a collector that goes on: it looks twice a second."""


class MetricReader:
    """Listens to replicas. ``report`` receives their numbers, some of them more than once."""

    def __init__(
        self,
        client: KubeClient,
        background: BackgroundTasks,
        *,
        report: Callable[[Metric], None],
        concurrency: int,
        begin_seconds: float = _BEGIN_SECONDS,
        patience_seconds: float = _LAST_METRICS_SECONDS,
        again_seconds: float = _AGAIN_SECONDS,
        collect_seconds: float = _COLLECT_SECONDS,
    ) -> None:
        self._client = client
        self._background = background
        self._report = report
        self._slots = asyncio.Semaphore(concurrency)
        self._begin_seconds = begin_seconds
        self._patience_seconds = patience_seconds
        self._again_seconds = again_seconds
        self._collect_seconds = collect_seconds
        self._streams: dict[ReplicaKey, asyncio.Task[None]] = {}
        self._followed: set[ReplicaKey] = set()
        """Replicas of whose output nothing was missed so far."""
        self._collecting: dict[ReplicaKey, asyncio.Task[None]] = {}
        """Replicas that have ended and whose collectors go on."""

    def begin(self, key: ReplicaKey, pod: Pod) -> None:
        """Listen to a replica that runs, unless too many are listened to already."""
        if key not in self._streams and len(self._streams) < _STREAMS:
            name = f"metrics of {pod.metadata.name}"
            self._streams[key] = self._background.spawn(self._follow(key, pod, self._begin_seconds), name=name)

    def forget(self, key: ReplicaKey) -> None:
        """Stop listening to a replica that is lost."""
        if (stream := self._streams.pop(key, None)) is not None:
            stream.cancel()

    def read_to_end(self, key: ReplicaKey, pod: Pod) -> "asyncio.Task[None]":
        """Read what a replica that has ended said last; done when all is reported, or it took too long."""
        stream = self._streams.pop(key, None)
        return self._background.spawn(self._read_to_end(key, pod, stream), name=f"last metrics of {pod.metadata.name}")

    async def collected(self, gang_id: GangId) -> None:
        """Return when the collectors that outlived the programs of a gang are heard to the end, or it took too long."""
        streams = {stream for key, stream in self._collecting.items() if key.gang_id == gang_id}
        if streams:
            await asyncio.wait(streams, timeout=_STOP_PATIENCE * self._patience_seconds)

    async def _follow(self, key: ReplicaKey, pod: Pod, begin_seconds: float) -> None:
        await asyncio.sleep(begin_seconds)
        self._followed.add(key)
        try:
            await self._read(key, pod, follow=True)
        except KubeError as error:
            self._followed.discard(key)
            _log.debug("numbers of %s are read later: %s", pod.metadata.name, error)

    async def _read_to_end(self, key: ReplicaKey, pod: Pod, stream: "asyncio.Task[None] | None") -> None:
        try:
            async with asyncio.timeout(self._patience_seconds):
                if not await self._stream_ended(key, pod, stream):
                    async with self._slots:
                        await self._read(key, pod, follow=False)
        except TimeoutError:
            _log.warning("the last numbers of %s are read later: its log is long, or its node slow", pod.metadata.name)
        except KubeError as error:
            _log.debug("the last numbers of %s are read later: %s", pod.metadata.name, error)
        finally:
            self._followed.discard(key)

    async def _stream_ended(self, key: ReplicaKey, pod: Pod, stream: "asyncio.Task[None] | None") -> bool:
        """Whether all was heard as it was written; a stream that is open ends by itself when its program has."""
        if stream is not None and key not in self._followed:
            stream.cancel()  # it has not begun
            stream = None
        if saved_logs.has_collector(pod):
            await self._collected(key, pod, stream)
            return True
        if stream is None:
            return False
        await asyncio.wait({stream})
        return key in self._followed

    async def _collected(self, key: ReplicaKey, pod: Pod, stream: "asyncio.Task[None] | None") -> None:
        """Wait for a collector, which looks once more after the program.

        While something else of the pod runs, such as the mover of outputs, it goes on, and so does the stream; then an
        exit waits only for what it must have found by now, and whoever has the outputs stored for the rest.
        """
        if stream is None or key not in self._followed:
            stream = self._background.spawn(self._follow(key, pod, 0.0), name=f"metrics of {pod.metadata.name}")
        self._collecting[key] = stream
        stream.add_done_callback(lambda _: self._collecting.pop(key, None))
        stays = any(each.state.terminated is None for each in pod.status.container_statuses)
        await asyncio.wait({stream}, timeout=self._collect_seconds if stays else None)

    async def _read(self, key: ReplicaKey, pod: Pod, *, follow: bool) -> None:
        """Report the numbers in the output of every container that has some."""
        containers = saved_logs.told_by(pod)
        readings = [asyncio.ensure_future(self._read_container(key, pod, each, follow=follow)) for each in containers]
        try:
            await asyncio.gather(*readings)
        finally:
            for reading in readings:
                reading.cancel()

    async def _read_container(self, key: ReplicaKey, pod: Pod, container: str, *, follow: bool) -> None:
        await self._read_one(key, pod, container, follow=follow)
        # A collector that was killed is started again by its kubelet while the program goes on, and reads on.
        while follow and container == COLLECTOR_CONTAINER and key in self._streams:
            await asyncio.sleep(self._again_seconds)
            try:
                await self._read_one(key, pod, container, follow=True)
            except NotFoundError:
                return
            except KubeError as error:
                _log.debug("the collector of %s is not there yet: %s", pod.metadata.name, error)

    async def _read_one(self, key: ReplicaKey, pod: Pod, container: str, *, follow: bool) -> None:
        async for metric in saved_logs.metrics_of(self._client, key, pod, container, follow=follow):
            self._report(metric)
