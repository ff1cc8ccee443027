"""A store that refuses: nothing is lost, nothing is done by halves, and nobody else waits for it."""

import contextlib

import pytest

from gangline.engines.interface import NodesChanged
from gangline.errors import StorageError, UnreadableRecordError
from gangline.lifecycle import events as e
from gangline.model import (
    Job,
    JobId,
    Phase,
    Resources,
)
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import make_job, make_node, make_role
from tests.controller.scripted_engine import ScriptedEngine
from tests.controller.world import WORKER, World


class BalkingStore(MemoryStore):
    """Refuses to save as long as it is told to."""

    balking = False

    async def save(self, job: Job, records: object = ()) -> Job:
        if self.balking:
            raise StorageError("disk full")
        return await super().save(job, records)  # type: ignore[arg-type]


async def test_news_that_cannot_be_saved_is_kept_until_it_can() -> None:
    store = BalkingStore()
    world = World(store=store)
    await world.submit(make_job())
    store.balking = True
    with pytest.raises(StorageError):
        await world.started()
    store.balking = False
    await world.settle()
    assert (await world.job()).phase is Phase.PROCESSING


async def test_a_decision_that_could_not_be_saved_is_made_anew_from_what_is_there_then() -> None:
    store = BalkingStore()
    world = World(store=store, engine=ScriptedEngine([make_node("old")]))
    store.balking = True
    with pytest.raises(StorageError):
        await world.submit(make_job())
    world.engine.machines[:] = [make_node("new")]
    world.controller.hear(NodesChanged())
    store.balking = False
    world.clock.advance(60)
    await world.settle()
    assert [status.node for status in (await world.job()).replicas] == ["new"]


class ChoosyStore(MemoryStore):
    """Refuses to save the jobs it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    async def save(self, job: Job, records: object = ()) -> Job:
        if job.id in self.refused:
            raise StorageError("the record is too large")
        return await super().save(job, records)  # type: ignore[arg-type]


async def settle_through_refusals(world: World) -> None:
    """Settle as the loop does: a refusal is waited out."""
    for _ in range(6):
        with contextlib.suppress(StorageError):
            await world.settle()


async def test_when_the_store_refuses_every_decision_of_the_cycle_is_made_anew() -> None:
    store = ChoosyStore()
    world = World(store, ScriptedEngine([make_node("old", cpu=64)]))
    jobs = [make_job(job_id=f"job-{number:02}", name=f"job-{number:02}") for number in range(40)]
    for job in jobs:
        await store.create(job)
        world.controller.changed(job.id)
    store.refused = {job.id for job in jobs[:32]}
    with pytest.raises(StorageError):
        await world.controller.settle()
    world.engine.machines[:] = [make_node("new", cpu=64)]
    world.controller.hear(NodesChanged())
    store.refused = set()
    world.clock.advance(60)
    await settle_through_refusals(world)
    placed = [await world.job(job.id) for job in jobs]
    assert {str(status.node) for job in placed for status in job.replicas} == {"new"}
    assert {job.phase for job in placed} == {Phase.STARTING}


async def test_a_job_whose_record_is_refused_holds_up_no_other() -> None:
    store = ChoosyStore()
    world = World(store=store)
    await world.submit(make_job(job_id="bad"))
    store.refused = {"bad"}
    world.controller.hear(world.news(e.ReplicaStarted, await world.job("bad"), replica=WORKER))
    await store.create(make_job(job_id="good", name="good"))
    world.controller.changed(JobId("good"))
    await settle_through_refusals(world)
    assert (await world.job("good")).phase is Phase.STARTING
    assert (await world.job("bad")).phase is Phase.STARTING

    store.refused = set()
    world.clock.advance(60)
    await world.settle()
    assert (await world.job("bad")).phase is Phase.PROCESSING


async def test_a_job_that_cannot_be_told_its_place_leaves_it_to_others() -> None:
    store = ChoosyStore()
    world = World(store=store, engine=ScriptedEngine(nodes=[make_node(cpu=1)]))
    store.refused = {"bad"}
    role = make_role(resources=Resources(cpu_millis=1000))
    await store.create(make_job(job_id="bad", roles=(role,)))
    world.controller.changed(JobId("bad"))
    await settle_through_refusals(world)
    await store.create(make_job(job_id="good", name="good", roles=(role,)))
    world.controller.changed(JobId("good"))
    await settle_through_refusals(world)
    assert (await world.job("good")).phase is Phase.STARTING
    assert (await world.job("bad")).phase is Phase.QUEUED


class TornStore(MemoryStore):
    """Has one record that cannot be read."""

    async def get(self, job_id: JobId) -> Job:
        if job_id == "torn":
            raise UnreadableRecordError("a kept job is unreadable")
        return await super().get(job_id)


async def test_news_of_a_job_whose_record_is_damaged_does_not_hold_up_the_others() -> None:
    world = World(store=TornStore())
    await world.submit(make_job())
    job = await world.job()
    torn = e.ReplicaExited(job_id=JobId("torn"), at=world.clock.now(), attempt=1, replica=WORKER, exit_code=0)
    await world.tell(torn, world.news(e.ReplicaStarted, job, replica=WORKER))
    assert (await world.job()).phase is Phase.PROCESSING
