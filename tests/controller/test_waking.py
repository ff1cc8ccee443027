"""What makes the controller look again: queues that change, records that somebody else removed."""

from dataclasses import replace

from gangline.model import CHECKPOINT_METRIC, JobId, Metric, Phase, Queue, QueueName, Resources, Timestamp
from gangline.testing.builders import START, make_job, make_node, make_role
from tests.controller.scripted_engine import ScriptedEngine
from tests.controller.test_controller import WORKER, World

ONE_CPU = make_role(resources=Resources(cpu_millis=1000))


async def test_a_job_starts_when_its_queue_comes_into_being() -> None:
    world = World()
    await world.submit(make_job(queue=QueueName("research")))
    assert (await world.job()).phase is Phase.QUEUED
    await world.store.save_queue(Queue(name=QueueName("research")))
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
