"""Fair share over time: what queues have used is kept with their records, and survives the controller."""

import pytest

from gangline.controller import Controller
from gangline.errors import StorageError
from gangline.kinds.queue import QUEUE
from gangline.lifecycle import events as e
from gangline.model import JobId, Queue, QueueName, QueueStatus, Timestamp
from gangline.model.record import Record
from gangline.scheduling import Policies
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import make_job, make_queue
from tests.controller.world import World

HOUR = 3600.0


class Course(World):
    """A world in which the past counts, half as much after every hour."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        super().__init__(store)
        self.begin()

    def begin(self) -> None:
        """A controller that knows nothing but the store."""
        policies = Policies(usage_half_life_seconds=HOUR)
        self.controller = Controller(store=self.store, engine=self.engine, clock=self.clock, policies=policies)

    async def status(self, name: str = "mine") -> QueueStatus:
        record: Record[Queue, QueueStatus] | None = await self.store.records(QUEUE).find(None, name)
        assert record is not None
        return record.status

    async def run_for(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.controller.queues_changed()
        await self.settle()

    def past_use(self) -> float:
        return self.controller._decider.usage[QueueName("mine")].share


async def begun() -> Course:
    world = Course()
    await world.store.records(QUEUE).create(make_queue(Queue(name=QueueName("mine"))))
    await world.controller.recover()
    await world.submit(make_job(queue="mine"))
    await world.started()
    return world


async def test_a_restart_forgives_nothing() -> None:
    steady, restarted = await begun(), await begun()
    for world in (steady, restarted):
        await world.run_for(HOUR)
    restarted.begin()
    await restarted.controller.recover()
    for world in (steady, restarted):
        await world.run_for(HOUR / 2)
    assert steady.past_use() > 0
    assert restarted.past_use() == pytest.approx(steady.past_use(), rel=1e-9)


async def test_it_is_written_when_the_share_changes_and_only_then() -> None:
    world = await begun()
    before = await world.status()
    assert before.using > 0
    await world.run_for(HOUR)
    await world.run_for(HOUR)
    assert await world.status() == before
    await world.tell(
        world.news(e.ReplicaExited, await world.job(), replica=(await world.job()).replicas[0].id, exit_code=0)
    )
    after = await world.status()
    assert (after.using, after.past_use_at) == (0.0, world.clock.now())
    assert after.past_use == pytest.approx(before.using * 0.75, rel=1e-6)


async def test_the_default_queue_has_an_account_too() -> None:
    world = Course()
    await world.controller.recover()
    await world.submit(make_job())
    await world.started()
    assert (await world.status("default")).using > 0
    assert (await world.store.records(QUEUE).find(None, "default")) is not None


async def test_a_store_that_refuses_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Course()
    await world.controller.recover()

    async def refuse(*_: object) -> None:
        raise StorageError("no")

    monkeypatch.setattr(world.store.records(QUEUE).__class__, "create", refuse)
    await world.submit(make_job())
    assert (await world.store.get(JobId("job-1"))).holding
    assert world.clock.now() > Timestamp(0.0)
