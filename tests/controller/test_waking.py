"""What makes the controller look again: queues that change, records that somebody else removed."""

from dataclasses import replace

from gangline.engines.interface import NodesChanged
from gangline.kinds.queue import QUEUE
from gangline.lifecycle import events as e
from gangline.model import CHECKPOINT_METRIC, JobId, Metric, Phase, Policy, Queue, QueueName, Resources, Timestamp
from gangline.testing.builders import START, make_job, make_node, make_queue, make_role
from tests.controller.scripted_engine import ScriptedEngine
from tests.controller.world import WORKER, World

ONE_CPU = make_role(resources=Resources(cpu_millis=1000))


async def test_a_job_starts_when_its_queue_comes_into_being() -> None:
    world = World()
    await world.submit(make_job(queue=QueueName("research")))
    assert (await world.job()).phase is Phase.QUEUED
    await world.store.records(QUEUE).create(make_queue(Queue(name=QueueName("research"))))
    world.controller.queues_changed()
    await world.settle()
    assert (await world.job()).phase is Phase.STARTING


async def test_machines_of_a_job_whose_record_was_removed_go_to_others_and_watchers_hear_of_it() -> None:
    world = World(engine=ScriptedEngine([make_node(cpu=1)]))
    await world.submit(make_job(job_id="gone", name="gone", roles=(ONE_CPU,)))
    await world.submit(make_job(job_id="next", name="next", roles=(ONE_CPU,)))
    assert (await world.job("next")).phase is Phase.QUEUED
    watcher = world.controller.watch()
    await world.store.remove(JobId("gone"))
    world.controller.changed(JobId("gone"))
    await world.settle()
    assert (await world.job("next")).phase is Phase.STARTING
    assert await anext(watcher) == "gone"


async def test_only_a_reported_checkpoint_is_one() -> None:
    world = World()
    await world.submit(make_job())
    await world.started()
    loss = Metric(job_id=JobId("job-1"), replica=WORKER, name="loss", value=1, step=1, at=Timestamp(START))
    world.controller.hear(loss)
    await world.settle()
    assert (await world.job()).checkpoint_at is None
    world.controller.hear(replace(loss, name=CHECKPOINT_METRIC))
    await world.settle()
    assert (await world.job()).checkpoint_at == START


async def test_news_of_a_job_whose_record_was_removed_frees_its_machines() -> None:
    world = World(engine=ScriptedEngine([make_node(cpu=1)]))
    await world.submit(make_job(job_id="gone", name="gone", roles=(ONE_CPU,)))
    await world.submit(make_job(job_id="next", name="next", roles=(ONE_CPU,)))
    gone = await world.job("gone")
    await world.store.remove(JobId("gone"))
    await world.tell(world.news(e.ReplicaStarted, gone, replica=WORKER))
    assert (await world.job("next")).phase is Phase.STARTING


async def test_a_request_that_makes_no_sense_costs_only_itself() -> None:
    world = World()
    await world.submit(make_job())
    job = await world.job()
    world.controller.hear(e.ResumeRequested(job_id=job.id, at=world.clock.now()))
    await world.tell(world.news(e.ReplicaStarted, job, replica=WORKER))
    assert (await world.job()).phase is Phase.PROCESSING


async def test_a_job_that_runs_is_no_longer_explained_and_one_that_backs_off_is_looked_at_in_time() -> None:
    world = World(engine=ScriptedEngine([make_node(cpu=1)]))
    policy = Policy(max_attempts=2, backoff_seconds=100)
    await world.submit(make_job(roles=(make_role(resources=Resources(cpu_millis=2000)),), policy=policy))
    assert world.controller.explanation(JobId("job-1")) is not None
    world.engine.machines.append(make_node("large", cpu=2))
    world.controller.hear(NodesChanged())
    await world.settle()
    assert world.controller.explanation(JobId("job-1")) is None
    job = await world.job()
    await world.tell(world.news(e.ReplicaExited, job, replica=WORKER, exit_code=1), world.news(e.GangStopped, job))
    assert world.controller.next_moment == world.clock.now() + 100
