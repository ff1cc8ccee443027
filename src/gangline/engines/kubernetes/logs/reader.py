"""Answers a query for output: from the pods while there are pods, from what was kept of them afterwards."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from gangline.engines.interface import LogQuery
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.logs.saved_logs import (
    SavedLog,
    attempt_of,
    line_of,
    metric_of,
    raw_lines,
    to_lines,
    unpack,
)
from gangline.engines.kubernetes.names import Part, ReplicaKey
from gangline.engines.kubernetes.watch.pod_events import main_state
from gangline.kube import CONFIG_MAPS, PODS, Applied, Change, Deleted, KubeClient, KubeError, Metadata, Pod
from gangline.model import LogLine

_log = logging.getLogger(__name__)
_FIRST_PODS_SECONDS = 10.0
"""How long a follower waits for the first pod of an attempt that has none yet."""
_REST_SECONDS = 2.0
"""How long all pods must have ended before one looks whether they are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """All that is there of a job's output."""

    pods: dict[ReplicaKey, Pod]
    kept: list[SavedLog]
    attempts: frozenset[int]


class LogReader:
    """Answers one query. It needs to see the job's own namespace and no more."""

    def __init__(
        self,
        client: KubeClient,
        query: LogQuery,
        *,
        controller: str,
        namespace: str | None,
        is_jobs: Callable[[Metadata], bool],
    ) -> None:
        self._client = client
        self._query = query
        self._controller = controller
        self._namespace = namespace
        self._is_jobs = is_jobs
        self._told: set[ReplicaKey] = set()

    async def read(self) -> AsyncGenerator[LogLine, None]:
        """Return the lines the query asks for."""
        found = await self._find()
        attempt = self._query.attempt or max(found.attempts, default=None)
        if attempt is None and not self._query.follow:
            return
        pods = {key: pod for key, pod in found.pods.items() if key.gang_id.attempt == attempt}
        chunks = [to_lines(log) for log in found.kept if log.key.gang_id.attempt == attempt and self._wanted(log.key)]
        self._told.update(log.key for log in found.kept)
        if self._query.follow and (pods or attempt not in found.attempts):
            for line in self._cut(chunks):
                yield line
            async with aclosing(self._follow(attempt)) as lines:
                async for line in lines:
                    yield line
            return
        fresh = [self._whole(key, pod) for key, pod in pods.items() if key not in self._told]
        for line in self._cut([*chunks, *await asyncio.gather(*fresh)]):
            yield line

    def _cut(self, chunks: Iterable[list[LogLine]]) -> list[LogLine]:
        query = self._query
        lines: list[LogLine] = []
        for chunk in chunks:
            chosen = [line for line in chunk if self._shown(line)]
            lines += chosen[max(0, len(chosen) - query.tail) :] if query.tail is not None else chosen
        return sorted(lines, key=lambda line: line.at)

    def _shown(self, line: LogLine) -> bool:
        if self._query.since is not None and line.at < self._query.since:
            return False
        return metric_of(line, self._query.job_id) is None

    def _wanted(self, key: ReplicaKey) -> bool:
        query = self._query
        return (query.role is None or key.replica.role == query.role) and (
            query.index is None or key.replica.index == query.index
        )

    async def _find(self) -> _Found:
        labels = names.job_labels(self._controller, self._query.job_id)
        pods, maps = await asyncio.gather(
            self._client.list(PODS, namespace=self._namespace, labels={**labels, names.PART: Part.REPLICA}),
            self._client.list(CONFIG_MAPS, namespace=self._namespace, labels={**labels, names.PART: Part.LOGS}),
        )
        living = {key: pod for pod in pods.items or () if (key := self._key_of(pod)) is not None}
        kept = [item for item in maps.items or () if self._is_jobs(item.metadata)]
        # A pack may be empty: the attempt was, and wrote nothing.
        attempts = {attempt_of(item) for item in kept}
        return _Found(
            pods={key: pod for key, pod in living.items() if self._wanted(key)},
            kept=[log for item in kept for log in unpack(item)],
            attempts=frozenset(attempts | {key.gang_id.attempt for key in living}),
        )

    def _key_of(self, pod: Pod) -> ReplicaKey | None:
        return names.replica_of(pod.metadata.labels, self._controller) if self._is_jobs(pod.metadata) else None

    async def _whole(self, key: ReplicaKey, pod: Pod) -> list[LogLine]:
        state = main_state(pod)
        if state.running is None and state.terminated is None:
            return []
        try:
            return [line_of(key, raw) async for raw in raw_lines(self._client, pod, follow=False)]
        except KubeError as error:
            _log.warning("the log of %s cannot be read: %s", pod.metadata.name, error)
            return []

    async def _follow(self, attempt: int | None) -> AsyncGenerator[LogLine, None]:
        """Read every pod of the attempt as it writes, those that come later too, until none is left."""
        arrived: asyncio.Queue[LogLine | None] = asyncio.Queue()
        async with asyncio.TaskGroup() as readers:
            watching = readers.create_task(self._attend(attempt, readers, arrived))
            try:
                while (line := await arrived.get()) is not None:
                    yield line
            finally:
                watching.cancel()

    async def _attend(
        self, attempt: int | None, readers: asyncio.TaskGroup, arrived: "asyncio.Queue[LogLine | None]"
    ) -> None:
        """Give every pod a reader; end the stream when the attempt's last pod is gone, or rests, and all is read."""
        labels = names.job_labels(self._controller, self._query.job_id)
        if attempt is not None:
            labels[names.ATTEMPT] = str(attempt)
        reading: dict[ReplicaKey, asyncio.Task[None]] = {}
        running: dict[str, bool] = {}
        stream = self._client.reflect(PODS, namespace=self._namespace, labels={**labels, names.PART: Part.REPLICA})
        async with aclosing(stream) as changes, aclosing(_patiently(changes, running)) as news:
            async for change in news:
                if isinstance(change, Applied | Deleted) and not self._is_jobs(change.object.metadata):
                    continue
                if change is None:
                    if not running or await self._is_over(labels):
                        break
                elif isinstance(change, Applied):
                    running[change.object.metadata.name] = main_state(change.object).terminated is None
                    self._begin(change.object, readers, reading, arrived)
                elif isinstance(change, Deleted):
                    running.pop(change.object.metadata.name, None)
                    if not running:
                        break
        await asyncio.gather(*reading.values())
        arrived.put_nowait(None)

    async def _is_over(self, labels: Mapping[str, str]) -> bool:
        """Whether pods that have ended stay to be looked at: something is kept of every attempt that is over."""
        kept = await self._client.list(CONFIG_MAPS, namespace=self._namespace, labels={**labels, names.PART: Part.LOGS})
        return any(self._is_jobs(item.metadata) for item in kept.items or ())

    def _begin(
        self,
        pod: Pod,
        readers: asyncio.TaskGroup,
        reading: dict[ReplicaKey, "asyncio.Task[None]"],
        arrived: "asyncio.Queue[LogLine | None]",
    ) -> None:
        key, state = self._key_of(pod), main_state(pod)
        if key is None or key in reading or key in self._told or not self._wanted(key):
            return
        if state.running is not None or state.terminated is not None:
            reading[key] = readers.create_task(self._pour(key, pod, arrived))

    async def _pour(self, key: ReplicaKey, pod: Pod, arrived: "asyncio.Queue[LogLine | None]") -> None:
        try:
            async with aclosing(raw_lines(self._client, pod, follow=True, tail=self._query.tail)) as lines:
                async for raw in lines:
                    line = line_of(key, raw)
                    if self._shown(line):
                        arrived.put_nowait(line)
        except KubeError as error:
            _log.warning("the log of %s broke off: %s", pod.metadata.name, error)


async def _patiently(
    changes: AsyncGenerator[Change[Pod], None], running: Mapping[str, bool]
) -> AsyncGenerator[Change[Pod] | None, None]:
    """Hand changes on, and None whenever none came for a while although nothing runs that must yet end."""
    waiting = asyncio.ensure_future(anext(changes))
    try:
        while True:
            patience = _REST_SECONDS if running else _FIRST_PODS_SECONDS
            arrived, _ = await asyncio.wait({waiting}, timeout=None if any(running.values()) else patience)
            if not arrived:
                yield None
                continue
            yield waiting.result()
            waiting = asyncio.ensure_future(anext(changes))
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
