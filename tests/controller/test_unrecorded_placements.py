"""A gang of one starts before its placement is on record, because the engine would find it."""

import contextlib
from collections.abc import Mapping, Sequence

import pytest

from gangline.controller.pending.drafts import HELD_BACK_SECONDS
from gangline.errors import StorageError
from gangline.lifecycle import advance
from gangline.lifecycle import events as e
from gangline.model import (
    Gang,
    Job,
    JobId,
    JournalRecord,
    NodeName,
    Phase,
)
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import make_job, make_role
from tests.controller.scripted_engine import ScriptedEngine
from tests.controller.world import WORKER, World


class RefusingStore(MemoryStore):
    """Saves nothing when told not to."""

    refuses = False
    tries = 0

    async def save(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        if self.refuses:
            self.tries += 1
            raise StorageError("not now")
        return await super().save(job, records)


class RecordingEngine(ScriptedEngine):
    """Finds gangs of one replica again."""

    def __init__(self, *found: e.GangFound) -> None:
        super().__init__()
        self.found = found

    def records_placement(self, gang: Gang) -> bool:
        return len(gang.replicas) == 1

    async def gangs_found(self, attempts: Mapping[JobId, int]) -> Sequence[e.GangFound]:
        return [found for found in self.found if found.attempt > attempts.get(found.job_id, 0)]


async def test_a_placement_that_the_engine_would_find_is_saved_with_the_start() -> None:
    world = World(engine=RecordingEngine())
    await world.submit(make_job())
    assert world.verbs() == ["run"]
    kept = await world.job()
    assert (kept.phase, world.controller.will_save(kept.id)) == (Phase.QUEUED, True)
    await world.tell(e.ReplicaStarted(job_id=kept.id, at=world.clock.now(), attempt=1, replica=WORKER))
    job = await world.job()
    assert (job.phase, job.version, world.controller.will_save(job.id)) == (Phase.PROCESSING, kept.version + 1, False)
    reasons = [record.reason for record in await world.store.journal(job.id)]
    assert reasons == ["GangPlaced", "ReplicaStarted", "AllReplicasStarted"]
    assert world.verbs() == ["run"]


async def test_a_placement_is_on_record_soon_though_nothing_happens() -> None:
    world = World(engine=RecordingEngine())
    await world.submit(make_job())
    world.clock.advance(HELD_BACK_SECONDS)
    await world.settle()
    assert ((await world.job()).phase, (await world.job()).attempt) == (Phase.STARTING, 1)
    assert world.verbs() == ["run"]


async def test_a_placement_that_the_store_refuses_is_saved_later_and_keeps_nobody_busy() -> None:
    world = World(store=RefusingStore(), engine=RecordingEngine())
    assert isinstance(world.store, RefusingStore)
    await world.submit(make_job())
    world.store.refuses = True
    world.clock.advance(HELD_BACK_SECONDS)
    for _ in range(3):
        with contextlib.suppress(StorageError):
            await world.settle()
    assert 1 <= world.store.tries <= 3
    world.store.refuses = False
    world.clock.advance(60)
    await world.settle()
    assert (await world.job()).phase is Phase.STARTING


async def test_a_larger_gang_is_on_record_before_it_starts() -> None:
    world = World(engine=RecordingEngine())
    await world.submit(make_job(roles=(make_role(replicas=2),)))
    assert (await world.job()).phase is Phase.STARTING


@pytest.mark.parametrize("notice", [True, False], ids=["who says so", "who does not"])
async def test_a_gang_whose_placement_is_not_on_record_is_stopped_for_a_user_who_cancels(notice: bool) -> None:
    world = World(engine=RecordingEngine())
    await world.submit(make_job())
    kept = await world.job()
    cancelled = advance(kept, e.CancelRequested(job_id=kept.id, at=world.clock.now())).job
    await world.store.save(cancelled)
    if notice:
        world.controller.changed(kept.id)
    world.clock.advance(HELD_BACK_SECONDS)
    await world.settle()
    assert world.verbs() == ["run", "stop"]
    job = await world.job()
    assert (job.phase, job.attempt, job.holding) == (Phase.CANCELLED, 1, True)
    await world.tell(world.news(e.GangStopped, job))
    assert not (await world.job()).holding


async def test_a_new_controller_goes_on_with_what_the_last_one_did_not_record() -> None:
    store = MemoryStore()
    job = await store.create(make_job())
    found = e.GangFound(job_id=job.id, at=job.created_at, attempt=1, placement={WORKER: NodeName("node-7")})
    world = World(store=store, engine=RecordingEngine(found))
    await world.controller.recover()
    await world.settle()
    job = await world.job()
    assert (job.phase, job.attempt, [each.node for each in job.replicas]) == (Phase.STARTING, 1, ["node-7"])
