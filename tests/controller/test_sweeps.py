"""The sweep driver beside the real controller: trials begin, end, are cancelled, and survive crashes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from gangline.controller import Controller, SweepDriver
from gangline.errors import NotFoundError, StorageError
from gangline.lifecycle import events as e
from gangline.lifecycle import new_job
from gangline.model import Job, JobId, JournalRecord, Phase
from gangline.model.sweep import Parameter, Sweep, SweepId
from gangline.storage.interface import JobQuery
from gangline.storage.memory import MemoryStore
from gangline.sweeps import GridSampler, trial_to_job
from gangline.testing.builders import START, FakeClock, make_job, make_sweep
from tests.controller.scripted_engine import ScriptedEngine


class World:
    """A store, a controller and the driver beside it; ``restart`` forgets all but the store."""

    def __init__(self) -> None:
        self.store: MemoryStore = MemoryStore()
        self.restart()

    def restart(self) -> None:
        self.controller = Controller(store=self.store, engine=ScriptedEngine(), clock=FakeClock())
        self.driver = SweepDriver(store=self.store, link=self.controller, clock=FakeClock())

    async def settle(self) -> None:
        """Let both do all they have to."""
        for _ in range(4):
            self.driver.changed()
            await self.driver.settle()
            await self.controller.settle()
            await self.controller.lanes.drain()

    async def jobs(self) -> list[Job]:
        return sorted((await self.store.list(JobQuery())).jobs, key=lambda job: job.id)

    async def is_going(self, job_id: JobId) -> bool:
        """Whether a job is being deleted, or is gone."""
        try:
            return (await self.store.get(job_id)).deleting
        except NotFoundError:
            return True

    async def sweep(self) -> Sweep:
        (sweep,) = await self.store.sweeps()
        return sweep

    async def end(self, job_id: str) -> None:
        """Let a trial complete."""
        job = await self.store.get(JobId(job_id))
        for status in job.replicas:
            for event in (
                e.ReplicaStarted(job_id=job.id, at=START, attempt=1, replica=status.id),
                e.ReplicaExited(job_id=job.id, at=START, attempt=1, replica=status.id, exit_code=0),
            ):
                self.controller.hear(event)
        self.controller.hear(e.GangStopped(job_id=job.id, at=START, attempt=1))
        await self.settle()


@pytest.fixture
async def world() -> World:
    return World()


def phases(jobs: list[Job]) -> list[str]:
    return [f"{job.name} {job.phase}" for job in jobs]


async def test_trials_begin_as_others_end_until_all_is_tried(world: World) -> None:
    await world.store.create_sweep(make_sweep(parallelism=2))
    await world.settle()
    assert phases(await world.jobs()) == ["grid-0 STARTING", "grid-1 STARTING"]
    await world.end("sweep-1-0")
    assert phases(await world.jobs()) == ["grid-0 COMPLETED", "grid-1 STARTING", "grid-2 STARTING"]
    for number in range(1, 6):
        assert (await world.sweep()).finished_at is None
        await world.end(f"sweep-1-{number}")
    sweep = await world.sweep()
    assert (sweep.state, sweep.begun) == ("finished", 6)
    assert len(await world.jobs()) == 6


async def test_a_trial_tells_which_sweep_made_it(world: World) -> None:
    await world.store.create_sweep(make_sweep(parallelism=1))
    await world.settle()
    (first, *_) = await world.store.journal(JobId("sweep-1-0"))
    assert (first.reason, first.message) == ("Submitted", "by the sweep grid")


async def test_stopping_cancels_what_runs_and_keeps_what_ended(world: World) -> None:
    await world.store.create_sweep(make_sweep(parallelism=2))
    await world.settle()
    await world.end("sweep-1-0")
    await world.store.save_sweep(replace(await world.sweep(), stopped=True))
    await world.settle()
    assert phases(await world.jobs()) == ["grid-0 COMPLETED", "grid-1 CANCELLED", "grid-2 CANCELLED"]
    assert (await world.sweep()).state == "stopped"


async def test_deleting_takes_the_trials_along(world: World) -> None:
    await world.store.create_sweep(make_sweep(parallelism=2))
    await world.settle()
    await world.end("sweep-1-0")
    await world.store.save_sweep(replace(await world.sweep(), deleting=True))
    await world.settle()
    assert await world.store.sweeps() == ()
    assert all(job.deleting for job in await world.jobs())


async def test_a_sweep_is_removed_only_after_every_deletion_is_on_record(world: World) -> None:
    """A crash after the words and before the record must not leave trials that nobody will delete."""
    await world.store.create_sweep(make_sweep(parallelism=2))
    await world.settle()
    await world.store.save_sweep(replace(await world.sweep(), deleting=True))
    world.driver.changed()
    await world.driver.settle()
    world.restart()
    assert (await world.sweep()).deleting
    await world.settle()
    assert await world.store.sweeps() == ()
    assert all(job.deleting for job in await world.jobs())


async def test_a_crash_between_a_trial_and_its_note_makes_no_second_job(world: World) -> None:
    sweep = await world.store.create_sweep(make_sweep(parallelism=2))
    await world.settle()
    before = await world.jobs()
    kept = await world.sweep()
    await world.store.save_sweep(replace(kept, begun=sweep.begun))
    world.restart()
    await world.settle()
    assert await world.jobs() == before
    assert (await world.sweep()).finished_at is None


async def test_a_trial_that_was_deleted_is_not_tried_again(world: World) -> None:
    await world.store.create_sweep(make_sweep(parallelism=1))
    await world.settle()
    await world.end("sweep-1-0")
    await world.store.remove(JobId("sweep-1-0"))
    await world.settle()
    assert [job.name for job in await world.jobs()] == ["grid-1"]


async def test_a_name_that_is_taken_does_not_hold_the_sweep_up(world: World) -> None:
    await world.store.create(make_job(name="grid-0"))
    await world.store.create_sweep(make_sweep(parallelism=1))
    await world.settle()
    assert [job.name for job in await world.jobs()] == ["grid-0", "sweep-1-0"]


async def test_a_job_of_that_very_id_counts_as_begun(world: World) -> None:
    """Even one that bears no label any more."""
    await world.store.create(new_job(JobId("sweep-1-0"), make_job().spec, START))
    await world.store.create_sweep(make_sweep(parallelism=1))
    await world.settle()
    assert (await world.sweep()).begun >= 1


class RefusingStore(MemoryStore):
    """Refuses the first few reads of sweeps."""

    refusals = 2

    async def sweeps(self, tenant: object = None) -> tuple[Sweep, ...]:
        if self.refusals:
            self.refusals -= 1
            raise StorageError("not now")
        return tuple(await super().sweeps())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110  # the pause lets the driver's own task run and waits for nothing
            await asyncio.sleep(0)


async def test_the_loop_wakes_by_itself_and_outlives_a_store_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangline.controller.sweeps._PAUSE_SECONDS", 0.0)
    world = World()
    world.store = RefusingStore()
    world.restart()
    await world.store.create_sweep(make_sweep(parallelism=1))
    driving = asyncio.create_task(world.driver.run())

    async def begun(count: int) -> bool:
        await world.controller.settle()
        await world.controller.lanes.drain()
        assert not driving.done()
        return len(await world.jobs()) == count

    try:
        await until(lambda: begun(1))
        world.controller.hear(e.CancelRequested(job_id=JobId("sweep-1-0"), at=START))
        await until(lambda: begun(2))
        assert (await world.jobs())[0].phase is Phase.CANCELLED
    finally:
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)


async def test_a_sweep_that_cannot_be_carried_on_does_not_stop_the_others(world: World) -> None:
    spec = make_sweep().spec
    await world.store.create_sweep(make_sweep())
    await world.store.create_sweep(
        Sweep(id=SweepId("broken"), spec=replace(spec, name="broken", sampler="unheard-of"), created_at=START)
    )
    await world.settle()
    assert len(await world.jobs()) == 6


MANY = (Parameter("rate", tuple(str(number) for number in range(2500))),)


class BusyStore(MemoryStore):
    """Notes what is created, and lets somebody act meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.created: list[JobId] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def create(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        self.created.append(job.id)
        if len(self.created) == 5 and self.meanwhile is not None:
            await self.meanwhile()
        return await super().create(job, records)


@pytest.fixture
async def busy() -> World:
    world = World()
    world.store = BusyStore()
    world.restart()
    return world


@pytest.mark.parametrize("word", ["stopped", "deleting"])
async def test_a_large_sweep_is_stopped_at_once_while_it_begins(busy: World, word: str) -> None:
    await busy.store.create_sweep(make_sweep(parameters=MANY))

    async def ask() -> None:
        (sweep,) = await busy.store.sweeps()
        await busy.store.save_sweep(replace(sweep, **{word: True}))
        busy.driver.changed()

    assert isinstance(busy.store, BusyStore)
    busy.store.meanwhile = ask
    await busy.settle()
    assert len(busy.store.created) == 5
    assert {job.phase for job in await busy.jobs()} <= {Phase.CANCELLED}
    assert [sweep.state for sweep in await busy.store.sweeps()] == (["stopped"] if word == "stopped" else [])


async def test_a_small_sweep_does_not_wait_for_a_large_one(busy: World) -> None:
    await busy.store.create_sweep(make_sweep("small", sweep_id="small", at=START))
    await busy.store.create_sweep(make_sweep("large", sweep_id="large", at=START + 1, parameters=MANY))
    await busy.driver.settle()
    assert isinstance(busy.store, BusyStore)
    assert 0 < busy.store.created.index(JobId("small-0")) <= 100, "the newer one has its turn first, and a short one"


async def test_a_large_sweep_is_deleted_a_part_at_a_time(busy: World) -> None:
    sweep = await busy.store.create_sweep(make_sweep(parameters=MANY))
    jobs = [
        new_job(sweep.trial_id(number), trial_to_job(sweep.spec, assignment), START)
        for number, assignment in enumerate(GridSampler().propose(sweep.spec, (), {}, 250))
    ]
    for job in jobs:
        await busy.store.create(job)
    await busy.store.save_sweep(replace(sweep, begun=250, deleting=True))
    for want in (100, 200, 250):
        busy.driver.changed()
        await busy.driver.settle()
        await busy.controller.settle()
        gone = [job for job in jobs if await busy.is_going(job.id)]
        assert len(gone) == want
    busy.driver.changed()
    await busy.driver.settle()
    assert await busy.store.sweeps() == ()
