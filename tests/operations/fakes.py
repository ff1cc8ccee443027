"""Operations without a service: a real store in memory, an engine that remembers lines, a link that listens."""

import asyncio
import gzip
import io
import tarfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from gangline.engines.interface import Engine, EngineEvent, LogQuery
from gangline.lifecycle import advance
from gangline.lifecycle.events import Event
from gangline.model import (
    Clean,
    Gang,
    GangId,
    Job,
    JobId,
    LogLine,
    Node,
    NodeUsage,
    ReplicaId,
    ReplicaUsage,
    Resources,
    RoleName,
    Stream,
    Tenant,
    Timestamp,
    Usage,
)
from gangline.operations import Caller, ControllerLink, OperationContext, RecordLink
from gangline.scheduling import Explanation
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import START, FakeClock, make_node


class QuietEngine:
    """Runs nothing. Its logs are what a test put in."""

    def __init__(self) -> None:
        self.lines: dict[tuple[JobId, int], list[LogLine]] = {}
        self.queries: list[LogQuery] = []

    def write(self, job: Job, text: str, *, attempt: int = 1, replica: str = "worker-0") -> None:
        line = LogLine(replica=ReplicaId.parse(replica), attempt=attempt, at=START, stream=Stream.STDOUT, text=text)
        self.lines.setdefault((job.id, attempt), []).append(line)

    async def nodes(self) -> Sequence[Node]:
        return (make_node(gpus=2, gpu_type="h200", labels={"zone": "a"}),)

    async def run(self, gang: Gang) -> None: ...

    async def finish(self, gang: Gang) -> None: ...

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None: ...

    async def events(self) -> AsyncIterator[EngineEvent]:
        for event in ():
            yield event

    async def logs(self, query: LogQuery) -> AsyncIterator[LogLine]:
        self.queries.append(query)
        for line in self.lines.get((query.job_id, query.attempt or 1), []):
            if query.role in (None, line.replica.role):
                yield line

    async def usage(self) -> Usage:
        node = (await self.nodes())[0]
        return Usage(
            nodes=(NodeUsage(node=node.name, used=Resources(cpu_millis=1500), gpu_percent={"0": 93}),),
            replicas=(
                ReplicaUsage(
                    job_id=JobId("job-1"),
                    replica=ReplicaId(RoleName("worker"), 0),
                    node=node.name,
                    cpu_millis=1500,
                    memory_mib=300,
                    gpus=("0",),
                ),
            ),
        )

    async def forget(self, job_id: JobId) -> None: ...


class ListeningLink:
    """Remembers what changed and tells watchers."""

    def __init__(self) -> None:
        self.told: list[JobId] = []
        self.explanations: dict[JobId, Explanation] = {}
        self._watchers: list[asyncio.Queue[JobId]] = []

    def changed(self, job_id: JobId) -> None:
        self.told.append(job_id)
        for watcher in self._watchers:
            watcher.put_nowait(job_id)

    def explanation(self, job_id: JobId) -> Explanation | None:
        return self.explanations.get(job_id)

    def watch(self) -> AsyncIterator[JobId]:
        watcher: asyncio.Queue[JobId] = asyncio.Queue()
        self._watchers.append(watcher)
        return self._read(watcher)

    async def _read(self, watcher: asyncio.Queue[JobId]) -> AsyncIterator[JobId]:
        while True:
            yield await watcher.get()


class CountingRecordLink:
    """Remembers how often it was told."""

    def __init__(self) -> None:
        self.told = 0

    def changed(self, kind: str) -> None:
        self.told += 1


class Office:
    """What operations work with, within a test's reach."""

    def __init__(self, code_directory: Path) -> None:
        self.store = MemoryStore()
        self.engine = QuietEngine()
        self.link = ListeningLink()
        self.record_link = CountingRecordLink()
        self.clock = FakeClock()
        self.code_directory = code_directory
        self.object_directory: Path | None = None
        self.model_directory: Path | None = None
        self.claim_directory: Path | None = None

    def context(self, caller: str = "alice", *, tenants: frozenset[Tenant] | None = None) -> OperationContext:
        return OperationContext(
            store=self.store,
            engine=self.engine,
            link=self.link,
            record_link=self.record_link,
            clock=self.clock,
            code_directory=self.code_directory,
            caller=Caller(name=caller, tenants=tenants),
            object_directory=self.object_directory,
            model_directory=self.model_directory,
            claim_directory=self.claim_directory,
        )

    async def happen(self, job_id: str, *events: Event) -> Job:
        """Let something happen to a job as the controller would."""
        job = await self.store.get(JobId(job_id))
        for event in events:
            job = advance(job, event).job
        job = await self.store.save(job)
        self.link.changed(job.id)
        return job


def at(seconds: float = 0.0) -> Timestamp:
    return Timestamp(START + seconds)


_engine_conforms: type[Engine] = QuietEngine
_link_conforms: type[ControllerLink] = ListeningLink
_record_link_conforms: type[RecordLink] = CountingRecordLink


def make_archive(text: bytes) -> bytes:
    """A code archive of one file, always the same for the same text."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        member = tarfile.TarInfo("train.py")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return buffer.getvalue()
