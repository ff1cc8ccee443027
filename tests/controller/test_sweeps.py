"""The sweep driver beside the real controller: trials begin, end, are cancelled, and survive crashes."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gangline.controller import Controller, RecordDriver
from gangline.controller.owned_jobs import OwnedJobs
from gangline.errors import NotFoundError, StorageError
from gangline.kinds import Kind, all_kinds
from gangline.kinds.kind import Spec, Status, View
from gangline.kinds.sweep import SWEEP
from gangline.lifecycle import events as e
from gangline.lifecycle import new_job
from gangline.model import Job, JobId, JobPage, JournalRecord, Metric, Phase, ReplicaId, Timestamp
from gangline.model.kinds.sweep import Assignment, Budget, Sweep, SweepProgress, SweepSpec
from gangline.model.record import RecordId
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.stopping import Rule, Stopping
from gangline.storage.codec import codec_of
from gangline.storage.interface import JobQuery
from gangline.storage.memory import MemoryRecords, MemoryStore
from gangline.sweeps import GridSampler, Search, samplers, trial_to_job
from gangline.testing.builders import START, FakeClock, make_job, make_sweep
from tests.controller.scripted_engine import ScriptedEngine


class World:
    """A store, a controller and the driver beside it; ``restart`` forgets all but the store."""

    def __init__(self) -> None:
        self.store: MemoryStore = MemoryStore()
        self.restart()

    def restart(self) -> None:
        self.controller = Controller(store=self.store, engine=ScriptedEngine(), clock=FakeClock())
        self.driver = RecordDriver(all_kinds(), store=self.store, link=self.controller, clock=FakeClock())

    async def settle(self) -> None:
        """Let both do all they have to."""
        for _ in range(4):
            self.driver.look_at_all()
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
        (sweep,) = (await self.store.records(SWEEP).list()).items
        return sweep

    async def save(self, sweep: Sweep | None = None, *, deleting: bool = False, **progress: Any) -> None:
        """Let somebody change the one sweep."""
        sweep = sweep or await self.sweep()
        status = replace(sweep.status, **progress)
        await self.store.records(SWEEP).save(replace(sweep, status=status, deleting=deleting))

    async def end(self, job_id: str) -> None:
        """Let a trial complete, and all that follows happen."""
        await self.exit_well(job_id)
        await self.settle()

    async def exit_well(self, job_id: str) -> None:
        """Let the replicas of a trial end."""
        job = await self.store.get(JobId(job_id))
        for status in job.replicas:
            for event in (
                e.ReplicaStarted(job_id=job.id, at=START, attempt=1, replica=status.id),
                e.ReplicaExited(job_id=job.id, at=START, attempt=1, replica=status.id, exit_code=0),
            ):
                self.controller.hear(event)
        self.controller.hear(e.GangStopped(job_id=job.id, at=START, attempt=1))


@pytest.fixture
async def world() -> World:
    return World()


def phases(jobs: list[Job]) -> list[str]:
    return [f"{job.name} {job.phase}" for job in jobs]


async def test_trials_begin_as_others_end_until_all_is_tried(world: World) -> None:
    await world.store.records(SWEEP).create(make_sweep(parallelism=2))
    await world.settle()
    assert phases(await world.jobs()) == ["grid-0 STARTING", "grid-1 STARTING"]
    await world.end("sweep-1-0")
    assert phases(await world.jobs()) == ["grid-0 COMPLETED", "grid-1 STARTING", "grid-2 STARTING"]
    for number in range(1, 6):
        assert (await world.sweep()).status.finished_at is None
        await world.end(f"sweep-1-{number}")
    sweep = await world.sweep()
    assert (sweep.state, sweep.status.begun) == ("finished", 6)
    assert len(await world.jobs()) == 6


async def test_a_trial_tells_which_sweep_made_it(world: World) -> None:
    await world.store.records(SWEEP).create(make_sweep(parallelism=1))
    await world.settle()
    (first, *_) = await world.store.journal(JobId("sweep-1-0"))
    assert (first.reason, first.message) == ("Submitted", "by the sweep grid")


async def test_stopping_cancels_what_runs_and_keeps_what_ended(world: World) -> None:
    await world.store.records(SWEEP).create(make_sweep(parallelism=2))
    await world.settle()
    await world.end("sweep-1-0")
    await world.save(stopped=True)
    await world.settle()
    assert phases(await world.jobs()) == ["grid-0 COMPLETED", "grid-1 CANCELLED", "grid-2 CANCELLED"]
    assert (await world.sweep()).state == "stopped"


async def test_deleting_takes_the_trials_along(world: World) -> None:
    await world.store.records(SWEEP).create(make_sweep(parallelism=2))
    await world.settle()
    await world.end("sweep-1-0")
    await world.save(deleting=True)
    await world.settle()
    assert (await world.store.records(SWEEP).list()).items == ()
    assert all(job.deleting for job in await world.jobs())


async def test_a_sweep_is_removed_only_after_every_deletion_is_on_record(world: World) -> None:
    """A crash after the words and before the record must not leave trials that nobody will delete."""
    await world.store.records(SWEEP).create(make_sweep(parallelism=2))
    await world.settle()
    await world.save(deleting=True)
    world.driver.changed("sweep")
    await world.driver.settle()
    world.restart()
    assert (await world.sweep()).deleting
    await world.settle()
    assert (await world.store.records(SWEEP).list()).items == ()
    assert all(job.deleting for job in await world.jobs())


async def test_a_crash_between_a_trial_and_its_note_makes_no_second_job(world: World) -> None:
    sweep = await world.store.records(SWEEP).create(make_sweep(parallelism=2))
    await world.settle()
    before = await world.jobs()
    await world.save(begun=sweep.status.begun)
    world.restart()
    await world.settle()
    assert await world.jobs() == before
    assert (await world.sweep()).status.finished_at is None


async def test_a_trial_that_was_deleted_is_not_tried_again(world: World) -> None:
    await world.store.records(SWEEP).create(make_sweep(parallelism=1))
    await world.settle()
    await world.end("sweep-1-0")
    await world.store.remove(JobId("sweep-1-0"))
    await world.settle()
    assert [job.name for job in await world.jobs()] == ["grid-1"]


async def test_a_name_that_is_taken_does_not_hold_the_sweep_up(world: World) -> None:
    await world.store.create(make_job(name="grid-0"))
    await world.store.records(SWEEP).create(make_sweep(parallelism=1))
    await world.settle()
    assert [job.name for job in await world.jobs()] == ["grid-0", "sweep-1-0"]


async def test_a_job_of_that_very_id_counts_as_begun(world: World) -> None:
    """Even one that bears no label any more."""
    await world.store.create(new_job(JobId("sweep-1-0"), make_job().spec, START))
    await world.store.records(SWEEP).create(make_sweep(parallelism=1))
    await world.settle()
    assert (await world.sweep()).status.begun >= 1


class RefusingStore(MemoryStore):
    """Refuses the first few reads of sweeps."""

    refusals = 2

    def records(self, kind: Kind[Spec, Status, View]) -> MemoryRecords[Spec, Status]:
        if self.refusals:
            self.refusals -= 1
            raise StorageError("not now")
        return super().records(kind)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110  # the pause lets the driver's own task run and waits for nothing
            await asyncio.sleep(0)


class CountingStore(MemoryStore):
    """Counts how often lists of jobs are read."""

    lists = 0

    async def list(self, query: JobQuery) -> JobPage:
        self.lists += 1
        return await super().list(query)


async def test_the_end_of_one_trial_has_no_other_read_again() -> None:
    """A sweep of thousands must not cost more for every trial the longer it lasts."""
    world, store = World(), CountingStore()
    world.store = store
    world.restart()
    await store.records(SWEEP).create(make_sweep(parallelism=1))
    running = [asyncio.create_task(world.driver.run()), asyncio.create_task(world.controller.run())]

    async def has_begun(number: int) -> bool:
        begun = (await world.sweep()).status.begun > number
        return begun and (await store.get(JobId(f"sweep-1-{number}"))).phase is Phase.STARTING

    try:
        await until(partial(has_begun, 0))
        store.lists = 0
        for number in range(5):
            await world.exit_well(f"sweep-1-{number}")
            await until(partial(has_begun, number + 1))
        assert store.lists == 0
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_the_loop_wakes_by_itself_and_outlives_a_store_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangline.controller.records._PAUSE_SECONDS", 0.0)
    world = World()
    world.store = RefusingStore()
    world.restart()
    await MemoryStore.records(world.store, SWEEP).create(make_sweep(parallelism=1))
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
    await world.store.records(SWEEP).create(make_sweep())
    await world.store.records(SWEEP).create(
        Sweep(
            id=RecordId("broken"),
            spec=replace(spec, name="broken", sampler="unheard-of", budget=Budget(trials=1)),
            status=SweepProgress(),
            created_at=START,
        )
    )
    await world.settle()
    assert len(await world.jobs()) == 6


async def test_everything_else_goes_on_while_a_search_thinks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a restart, when a sampler of Optuna is told a thousand trials again."""
    begun, may_answer = threading.Event(), threading.Event()

    class Thoughtful:
        def check(self, spec: SweepSpec) -> None:
            pass

        def propose(self, search: Search, most: int) -> list[Mapping[str, str]]:
            begun.set()
            assert may_answer.wait(30), "nobody else had a turn"
            return [{"layers": "1", "rate": "0.1"}]

    monkeypatch.setitem(samplers.OPTUNA_SAMPLERS, "thoughtful", "Thoughtful")
    monkeypatch.setattr(samplers, "_optuna", lambda class_name: Thoughtful())
    spec = replace(make_sweep().spec, sampler="thoughtful", budget=Budget(trials=1))
    await world.store.records(SWEEP).create(replace(make_sweep(), spec=spec))
    settling = asyncio.create_task(world.driver.settle())
    await until(lambda: _is_set(begun))
    assert await world.jobs() == []
    may_answer.set()
    await settling
    assert [job.name for job in await world.jobs()] == ["grid-0"]


async def _is_set(event: threading.Event) -> bool:
    return event.is_set()


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
    await busy.store.records(SWEEP).create(make_sweep(parameters=MANY))

    async def ask() -> None:
        (sweep,) = (await busy.store.records(SWEEP).list()).items
        await busy.save(sweep, **{word: True})
        busy.driver.changed("sweep")

    assert isinstance(busy.store, BusyStore)
    busy.store.meanwhile = ask
    await busy.settle()
    assert len(busy.store.created) == 5
    assert {job.phase for job in await busy.jobs()} <= {Phase.CANCELLED}
    assert [sweep.state for sweep in (await busy.store.records(SWEEP).list()).items] == (
        ["stopped"] if word == "stopped" else []
    )


async def test_a_small_sweep_does_not_wait_for_a_large_one(busy: World) -> None:
    await busy.store.records(SWEEP).create(make_sweep("small", sweep_id="small", at=START))
    await busy.store.records(SWEEP).create(make_sweep("large", sweep_id="large", at=START + 1, parameters=MANY))
    await busy.driver.settle()
    assert isinstance(busy.store, BusyStore)
    assert 0 < busy.store.created.index(JobId("small-0")) <= 100, "the newer one has its turn first, and a short one"


async def test_a_large_sweep_is_deleted_a_part_at_a_time(busy: World) -> None:
    sweep = await busy.store.records(SWEEP).create(make_sweep(parameters=MANY))
    jobs = [
        new_job(sweep.job_id(number), trial_to_job(sweep.spec, Assignment(number=number, values=values)), START)
        for number, values in enumerate(GridSampler().propose(Search(id=sweep.id, spec=sweep.spec, seed=0), 250))
    ]
    for job in jobs:
        await busy.store.create(job)
    await busy.save(sweep, begun=250, deleting=True)
    for want in (100, 200, 250):
        busy.driver.changed("sweep")
        await busy.driver.settle()
        await busy.controller.settle()
        gone = [job for job in jobs if await busy.is_going(job.id)]
        assert len(gone) == want
    busy.driver.changed("sweep")
    await busy.driver.settle()
    assert (await busy.store.records(SWEEP).list()).items == ()


async def test_a_trial_that_rests_at_a_rung_is_halted_and_resumed(world: World) -> None:
    """The only one rests, and goes on when nothing else is left to try."""
    spec = replace(
        make_sweep(parallelism=1).spec,
        sampler="random",
        budget=Budget(trials=1),
        stopping=Stopping(rule=Rule.ASHA, first=1, last=9),
    )
    await world.store.records(SWEEP).create(replace(make_sweep(), spec=spec))
    await world.settle()
    (job,) = await world.jobs()
    (replica,) = job.replicas
    world.controller.hear(e.ReplicaStarted(job_id=job.id, at=START, attempt=1, replica=replica.id))
    await world.settle()
    reported = Metric(job_id=job.id, replica=replica.id, name="accuracy", value=0.5, step=1, at=START)
    world.controller.hear(reported)
    await world.settle()
    assert phases(await world.jobs()) == ["grid-0 HALTING"]
    world.restart()
    await world.controller.recover()
    world.controller.hear(e.GangStopped(job_id=job.id, at=START, attempt=1))
    await world.settle()
    (job,) = await world.jobs()
    assert [entry.phase for entry in job.history][-4:] == [
        Phase.HALTING, Phase.HALTED, Phase.RESUMED, Phase.STARTING,
    ]  # fmt: skip
    assert [(mark.value, mark.passed) for mark in (await world.sweep()).status.marks] == [(0.5, True)]


async def first_trial(world: World, rule: Stopping) -> tuple[JobId, ReplicaId]:
    """Let the only trial of a sweep with a rule run."""
    spec = replace(make_sweep(parallelism=1).spec, sampler="random", budget=Budget(trials=1), stopping=rule)
    await world.store.records(SWEEP).create(replace(make_sweep(), spec=spec))
    await world.settle()
    (job,) = await world.jobs()
    (replica,) = job.replicas
    world.controller.hear(e.ReplicaStarted(job_id=job.id, at=START, attempt=1, replica=replica.id))
    await world.settle()
    return job.id, replica.id


async def test_a_rung_behind_thousands_of_reports_is_seen(world: World) -> None:
    job_id, replica = await first_trial(world, Stopping(rule=Rule.ASHA, first=4500, last=9000))
    for step in range(1, 5001):
        at = Timestamp(START + step)
        world.controller.hear(Metric(job_id=job_id, replica=replica, name="accuracy", value=step, step=None, at=at))
        if step % 1000 == 0:
            await world.controller.settle()
            await world.driver.settle()
    await world.settle()
    assert [(mark.step, mark.value) for mark in (await world.sweep()).status.marks] == [(4500, 4500.0)]
    assert phases(await world.jobs()) == ["grid-0 HALTING"]


async def test_a_report_that_a_sweep_follows_is_not_left_until_its_next_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gangline.sweeps.ending.LOOK_SECONDS", 3600.0)
    monkeypatch.setattr("gangline.controller.records._REPORTS_SECONDS", 0.0)
    job_id, replica = await first_trial(world, Stopping(rule=Rule.ASHA, first=1, last=9))
    driving = asyncio.create_task(world.driver.run())

    async def is_halting() -> bool:
        await world.controller.settle()
        return phases(await world.jobs()) == ["grid-0 HALTING"]

    try:
        await asyncio.sleep(0)
        world.controller.hear(Metric(job_id=job_id, replica=replica, name="accuracy", value=1, step=1, at=START))
        await until(is_halting)
    finally:
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)


async def searched(*, killed: bool) -> list[str]:
    """Run a search one trial at a time; with ``killed``, forget everything but the store at every moment."""
    world = World()
    spec = replace(
        make_sweep(parallelism=1).spec,
        parameters=(Parameter("x", range=Range(low=-5.0, high=5.0)),),
        sampler="tpe",
        settings={"n_startup_trials": 3},
        seed=3,
        budget=Budget(trials=8),
    )
    await world.store.records(SWEEP).create(replace(make_sweep(), spec=spec))
    samplers._optuna.cache_clear()
    for number in range(8):
        if killed:
            world.driver.changed("sweep")
            await world.driver.settle()  # the job is on record, and nobody else has heard of it
            world.restart()
            samplers._optuna.cache_clear()
            await world.controller.recover()
        await world.settle()
        job = await world.store.get(JobId(f"sweep-1-{number}"))
        x = float(job.spec.env["TRIAL_X"])
        for status in job.replicas:
            accuracy = Metric(
                job_id=job.id, replica=status.id, name="accuracy", value=-((x - 1) ** 2), step=1, at=START
            )
            world.controller.hear(accuracy)
        await world.end(job.id)
    assert (await world.sweep()).state == "finished"
    return [job.spec.env["TRIAL_X"] for job in await world.jobs()]


async def test_a_search_that_is_killed_at_every_trial_tries_the_same() -> None:
    want = await searched(killed=False)
    assert len(want) == 8
    assert await searched(killed=True) == want


async def test_what_is_kept_of_trials_that_ended_is_one_spec_and_follows_their_jobs() -> None:
    store, sweep = MemoryStore(), make_sweep()
    owned, jobs = OwnedJobs(store), list[Job]()
    for number in range(3):
        spec = trial_to_job(sweep.spec, Assignment(number=number, values={"layers": "1", "rate": "0.1"}))
        spec = replace(spec, labels={**spec.labels, SWEEP.label: sweep.name})
        job = new_job(sweep.job_id(number), spec, START)
        ended = replace(job, history=(*job.history, replace(job.history[-1], phase=Phase.COMPLETED)))
        jobs.append(await store.create(ended, []))
        owned.changed(job.id)
        read_anew = codec_of(SWEEP).decode(codec_of(SWEEP).encode(sweep))
        past = (await owned.read(SWEEP, read_anew, START)).past
        assert [each.number for each in past.tried] == list(range(number + 1))
    kept = owned._known[sweep.id].ended  # what stays in memory is the point
    assert len({id(trial.job.spec) for trial in kept.values()}) == 1, "each turn reads the record anew"
    owned.changed(jobs[0].id)  # its machines are free now, say
    assert (await owned.read(SWEEP, sweep, START)).past is past, "nothing was added up again"
    assert past.completed == 3
    await store.remove(jobs[1].id)
    owned.changed(jobs[1].id)
    assert [each.number for each in (await owned.read(SWEEP, sweep, START)).past.tried] == [0, 2]
