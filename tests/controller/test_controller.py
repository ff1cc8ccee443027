"""The controller on a memory store, a clock that stands still and an engine that does as it is told."""

import asyncio
import gc
import math
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gangline.controller import Controller
from gangline.controller.feed import ChangeFeed
from gangline.engines.interface import NodesChanged
from gangline.errors import EngineError, NotFoundError
from gangline.lifecycle import advance
from gangline.lifecycle import events as e
from gangline.model import (
    Backoff,
    Job,
    JobId,
    Metric,
    NanAction,
    NanRule,
    Node,
    Phase,
    PlacementRule,
    Policy,
    ReplicaState,
    RoleName,
    Timestamp,
)
from gangline.scheduling import Constraint, terminating_gang
from gangline.storage.interface import JobQuery
from gangline.testing.builders import START, make_job, make_node, make_role
from tests.controller.scripted_engine import ScriptedEngine
from tests.controller.world import WORKER, World


async def test_a_job_is_placed_run_and_stopped_and_its_journal_tells_the_story() -> None:
    world = World()
    await world.submit(make_job())
    assert (await world.job()).phase is Phase.STARTING
    await world.started()
    job = await world.job()
    assert job.phase is Phase.PROCESSING
    await world.tell(world.news(e.ReplicaExited, job, replica=WORKER, exit_code=0))
    await world.tell(world.news(e.GangStopped, job))
    job = await world.job()
    assert (job.phase, job.holding) == (Phase.COMPLETED, False)
    assert world.verbs() == ["run", "stop"]
    reasons = [record.reason for record in await world.store.journal(job.id)]
    assert reasons == ["GangPlaced", "ReplicaStarted", "AllReplicasStarted",
                       "ReplicaSucceeded", "Succeeded"]  # fmt: skip


async def test_a_job_that_waits_is_told_its_place_in_line() -> None:
    world = World()
    for number in range(3):
        await world.submit(make_job(job_id=f"job-{number}", name=f"large-{number}", roles=(make_role(replicas=1000),)))
    why = world.controller.explanation(JobId("job-2"))
    assert why is not None
    assert why.line is not None
    assert (why.line.place, [each.job_id for each in why.line.ahead]) == (3, ["job-0", "job-1"])


async def test_many_news_of_one_job_cost_one_write() -> None:
    world = World()
    await world.submit(make_job(roles=(make_role(replicas=8),)))
    before = (await world.job()).version
    await world.started()
    assert (await world.job()).version == before + 1


async def test_a_job_that_does_not_fit_waits_and_is_explained_and_starts_when_nodes_come() -> None:
    world = World(engine=ScriptedEngine([make_node(cpu=1)]))
    await world.submit(make_job(roles=(make_role(replicas=4),)))
    assert (await world.job()).phase is Phase.QUEUED
    assert world.controller.explanation(JobId("job-1")) is not None
    world.engine.machines.append(make_node("node-1", cpu=8))
    world.controller.hear(NodesChanged())
    await world.settle()
    assert (await world.job()).phase is Phase.STARTING
    assert world.controller.explanation(JobId("job-1")) is None


async def test_machines_are_given_on_only_after_the_engine_says_they_are_free() -> None:
    world = World(engine=ScriptedEngine([make_node(cpu=2)]))
    await world.submit(make_job(roles=(make_role("worker"), make_role("ps"))))
    await world.submit(make_job(job_id="job-2", name="second", roles=(make_role(replicas=2),)))
    await world.started()
    first = await world.job()
    await world.tell(world.news(e.ReplicaExited, first, replica=WORKER, exit_code=0))
    assert (await world.job()).phase is Phase.COMPLETED
    assert (await world.job("job-2")).phase is Phase.QUEUED
    await world.tell(world.news(e.GangStopped, first))
    assert (await world.job("job-2")).phase is Phase.STARTING


async def test_an_order_that_fails_is_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangline.controller.pending.instruction_queues._BACKOFF", Backoff(0.001, 0.001))
    world = World()
    world.engine.failing = 2
    await world.submit(make_job())
    assert world.verbs() == ["run"]


async def test_time_alone_ends_a_job_that_overruns_and_deletes_it_when_its_days_are_over() -> None:
    world = World()
    await world.submit(make_job(policy=Policy(deadline_seconds=60, ttl_seconds=10)))
    await world.started()
    assert world.controller.next_moment == START + 60
    world.clock.advance(60)
    await world.settle()
    job = await world.job()
    assert (job.phase, job.reason) == (Phase.FAILED, "DeadlineExceeded")
    await world.tell(world.news(e.GangStopped, job))
    world.clock.advance(10)
    await world.settle()
    with pytest.raises(NotFoundError):
        await world.job()
    assert world.verbs() == ["run", "stop", "forget"]


async def test_a_failed_gang_starts_again_when_its_back_off_is_over() -> None:
    world = World()
    await world.submit(make_job(policy=Policy(max_attempts=2, backoff_seconds=5)))
    await world.started()
    job = await world.job()
    await world.tell(world.news(e.ReplicaExited, job, replica=WORKER, exit_code=1))
    await world.tell(world.news(e.GangStopped, job))
    assert (await world.job()).phase is Phase.RESTARTING
    world.clock.advance(5)
    await world.settle()
    job = await world.job()
    assert (job.phase, job.attempt) == (Phase.STARTING, 2)


async def test_changes_made_by_somebody_else_meanwhile_are_never_overwritten() -> None:
    world = World()
    await world.submit(make_job())
    await world.started()
    kept = await world.job()
    halt = e.HaltRequested(job_id=kept.id, at=world.clock.now())
    await world.store.save(advance(kept, halt).job)
    await world.tell(world.news(e.ReplicaExited, kept, replica=WORKER, exit_code=0))
    job = await world.job()
    assert job.phase is Phase.HALTING, "the halt came first, so the exit is only noted"
    world.controller.changed(job.id)
    await world.settle()
    assert set(world.verbs()) == {"run", "stop"}


async def test_a_new_controller_gives_every_standing_order_again() -> None:
    old = World()
    await old.submit(make_job())
    await old.submit(make_job(job_id="job-2", name="second"))
    await old.started("job-2")
    second = await old.job("job-2")
    await old.tell(old.news(e.ReplicaExited, second, replica=WORKER, exit_code=0))
    new = World(store=old.store)
    await new.controller.recover()
    await new.settle()
    assert sorted(new.verbs()) == ["run", "stop"]


async def test_metrics_are_kept_and_watchers_hear_of_every_change() -> None:
    world = World()
    watcher = world.controller.watch()
    await world.submit(make_job())
    assert await anext(watcher) == "job-1"
    metric = Metric(job_id=JobId("job-1"), replica=WORKER, name="loss", value=0.5, step=1, at=Timestamp(START))
    world.controller.hear(metric)
    await world.settle()
    assert list(await world.store.metrics(JobId("job-1"))) == [metric]


async def test_a_reported_checkpoint_is_noted_but_never_in_the_future() -> None:
    world = World()
    await world.submit(make_job())
    await world.started()
    for name, at in (("loss", START - 5), ("checkpoint", START + 3600)):
        world.controller.hear(
            Metric(job_id=JobId("job-1"), replica=WORKER, name=name, value=1, step=1, at=Timestamp(at))
        )
        await world.settle()
    assert (await world.job()).checkpoint_at == world.clock.now()
    stranger = Metric(job_id=JobId("gone"), replica=WORKER, name="checkpoint", value=1, step=1, at=Timestamp(START))
    world.controller.hear(stranger)
    await world.settle()


async def test_a_loss_that_is_nan_ends_a_job_whose_policy_asks_for_it() -> None:
    world = World()
    policy = Policy(nan=NanRule(action=NanAction.FAIL))
    await world.submit(make_job(roles=(make_role(),), policy=policy))
    await world.started()
    for step, value in enumerate((0.5, math.nan)):
        world.controller.hear(
            Metric(job_id=JobId("job-1"), replica=WORKER, name="loss", value=value, step=step, at=world.clock.now())
        )
    await world.settle()
    job = await world.job()
    assert (job.phase, job.reason) == (Phase.FAILED, "LossDiverged")
    assert job.message == "loss of worker-0 is NaN or infinite at step 1"
    assert world.verbs() == ["run", "stop"]
    assert len(await world.store.metrics(job.id)) == 2


async def test_the_last_numbers_are_there_before_the_end_is_seen() -> None:
    world = World()
    await world.submit(make_job())
    await world.started()
    seen = []
    keep = world.store.save

    async def save(job: Job, records: object = ()) -> Job:
        seen.append((job.phase, len(await world.store.metrics(job.id))))
        return await keep(job, records)  # type: ignore[arg-type]

    world.store.save = save  # type: ignore[method-assign]
    job = await world.job()
    metric = Metric(job_id=job.id, replica=WORKER, name="loss", value=0.5, step=1, at=Timestamp(START))
    world.controller.hear(metric)
    await world.tell(world.news(e.ReplicaExited, job, replica=WORKER, exit_code=0))
    assert seen[0] == (Phase.COMPLETED, 1)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    task = asyncio.create_task(world.controller.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_watcher_that_nobody_reads_is_forgotten() -> None:
    feed = ChangeFeed()
    unread = feed.watch()
    assert len(feed._watchers) == 1
    del unread
    gc.collect()
    assert len(feed._watchers) == 0


async def test_the_loop_sleeps_until_news_arrives() -> None:
    world = World()
    async with running(world):
        await world.store.create(make_job())
        watcher = world.controller.watch()
        world.controller.changed(JobId("job-1"))
        async with asyncio.timeout(60):
            while (await world.job()).phase is not Phase.STARTING:
                await anext(watcher)
            job = await world.job()
            world.engine.news.put_nowait(world.news(e.ReplicaStarted, job, replica=WORKER))  # type: ignore[arg-type]
            while (await world.job()).phase is not Phase.PROCESSING:
                await anext(watcher)
    page = await world.store.list(JobQuery())
    assert [job.name for job in page.jobs] == ["mnist"]


class RestlessEngine(ScriptedEngine):
    """Changes its nodes while it is being asked for them."""

    def __init__(self) -> None:
        super().__init__([make_node(cpu=1)])
        self.controller: Controller | None = None

    async def nodes(self) -> Sequence[Node]:
        found = await super().nodes()
        if self.controller is not None and len(self.machines) == 1:
            self.machines.append(make_node("node-1", cpu=8))
            self.controller.hear(NodesChanged())
        return found


async def test_nodes_that_change_while_they_are_read_are_read_again() -> None:
    engine = RestlessEngine()
    world = World(engine=engine)
    engine.controller = world.controller
    await world.submit(make_job(roles=(make_role(replicas=4),)))
    assert (await world.job()).phase is Phase.STARTING


class ConfiningEngine(ScriptedEngine):
    """Keeps every job to its last node."""

    async def confine(self, jobs: Collection[Job]) -> Collection[Job]:
        last = PlacementRule(node_selector={"name": self.machines[-1].name})
        return [replace(job, spec=replace(job.spec, placement=last)) for job in jobs]


async def test_a_job_is_placed_where_its_engine_keeps_it_and_its_record_does_not_say_so() -> None:
    names = ("node-0", "node-1", "node-2")
    world = World(engine=ConfiningEngine([make_node(name, labels={"name": name}) for name in names]))
    await world.submit(make_job())
    job = await world.job()
    assert {status.node for status in job.replicas} == {"node-2"}
    assert job.spec.placement.node_selector == {}


class ReleasingEngine(ScriptedEngine):
    """Whose nodes hold on to every replica that has ended, until told otherwise."""

    held = True

    def terminating(self, jobs: Collection[Job]) -> Collection[Job]:
        ended = [job for job in jobs if job.finished and self.held]
        return [
            terminating_gang(job, [replace(each, state=ReplicaState.RUNNING) for each in job.replicas]) for job in ended
        ]


async def test_a_place_is_given_away_when_its_node_has_released_it() -> None:
    engine = ReleasingEngine([make_node(cpu=1)])
    world = World(engine=engine)
    await world.submit(make_job())
    await world.submit(make_job(job_id="job-2", name="second"))
    await world.tell(world.news(e.ReplicaExited, await world.job(), replica=WORKER, exit_code=0))
    assert (await world.job()).phase is Phase.COMPLETED
    assert (await world.job("job-2")).phase is Phase.QUEUED
    why = world.controller.explanation(JobId("job-2"))
    assert why is not None
    assert (why.constraint, why.holders) == (Constraint.TERMINATING, (JobId("job-1"),))
    engine.held = False
    world.controller.hear(NodesChanged())
    await world.settle()
    assert (await world.job("job-2")).phase is Phase.STARTING


async def test_one_job_that_cannot_be_handled_does_not_stop_the_others() -> None:
    world = World()
    await world.store.create(make_job())
    await world.store.create(make_job(job_id="job-2", name="second"))

    poison = e.ScaleRequested(job_id=JobId("job-1"), at=Timestamp(START), scale={RoleName("ghost"): 1})
    world.controller.hear(poison)
    world.controller.changed(JobId("job-2"))
    async with running(world):
        async with asyncio.timeout(60):
            watcher = world.controller.watch()
            while (await world.job("job-2")).phase is not Phase.STARTING:
                await anext(watcher)


async def test_a_cycle_that_failed_is_made_up_for_without_further_news(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    there, tries = world.engine.nodes, 0

    async def at_first_not() -> Sequence[Node]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise EngineError("the machines cannot be listed now")
        return await there()

    monkeypatch.setattr(world.engine, "nodes", at_first_not)
    with pytest.raises(EngineError):
        await world.submit(make_job())
    await world.settle()
    assert (await world.job()).phase is Phase.STARTING


async def test_a_waiting_job_that_is_made_smaller_starts() -> None:
    world = World()
    await world.submit(make_job(roles=(make_role(replicas=100),)))
    waiting = await world.job()
    assert waiting.phase is Phase.QUEUED
    await world.store.save(replace(waiting, spec=replace(waiting.spec, roles=(make_role(replicas=1),))), [])
    world.controller.changed(waiting.id)
    await world.settle()
    assert (await world.job()).phase is Phase.STARTING


async def test_deleting_an_unknown_job_is_harmless() -> None:
    world = World()
    await world.tell(e.DeleteRequested(job_id=JobId("ghost"), at=Timestamp(START)))
    assert world.verbs() == []
