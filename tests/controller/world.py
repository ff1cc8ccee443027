"""A store, an engine and the controller between them, as tests of the controller have them."""

from gangline.controller import Controller
from gangline.lifecycle import events as e
from gangline.model import (
    Job,
    JobId,
    ReplicaId,
    RoleName,
)
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import FakeClock
from tests.controller.scripted_engine import ScriptedEngine

WORKER = ReplicaId(RoleName("worker"), 0)


class World:
    """A controller and all it works with."""

    def __init__(self, store: MemoryStore | None = None, engine: ScriptedEngine | None = None) -> None:
        self.clock = FakeClock()
        self.store = store or MemoryStore()
        self.engine = engine or ScriptedEngine()
        self.controller = Controller(store=self.store, engine=self.engine, clock=self.clock)

    async def submit(self, job: Job) -> None:
        await self.store.create(job)
        self.controller.changed(job.id)
        await self.settle()

    async def settle(self) -> None:
        await self.controller.settle()
        await self.controller.lanes.drain()
        await self.controller.settle()

    async def tell(self, *events: e.Event) -> None:
        for event in events:
            self.controller.hear(event)
        await self.settle()

    async def job(self, job_id: str = "job-1") -> Job:
        return await self.store.get(JobId(job_id))

    async def started(self, job_id: str = "job-1") -> None:
        job = await self.job(job_id)
        await self.tell(*(self.news(e.ReplicaStarted, job, replica=status.id) for status in job.replicas))

    def news(self, kind: type[e.Event], job: Job, **fields: object) -> e.Event:
        return kind(job_id=job.id, at=self.clock.now(), attempt=job.attempt, **fields)  # type: ignore[call-arg]

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.engine.orders]
