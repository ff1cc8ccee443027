"""From a checkpoint that training code saves to the choice of who makes room, on real processes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gangline.controller import Controller
from gangline.lifecycle import new_job
from gangline.model import Job, JobId, Phase, Resources
from gangline.scheduling import Policies
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import make_role, make_spec
from tests.engines.local.machinery import LocalSubject, WallClock

TRAIN = """
import pathlib, sys, time
from gangline.runtime import Checkpoints, current
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
Checkpoints(current().checkpoint_directory).save(7, lambda folder: (folder / "model").write_text("weights"))
time.sleep(1000)
"""
PATIENCE_SECONDS = 60.0


class Service:
    """A controller over the local engine. Engine events are read by the controller alone."""

    def __init__(self, subject: LocalSubject) -> None:
        self.store = MemoryStore()
        self.clock = WallClock()
        policies = Policies(minimum_run_seconds=0.0)
        self.controller = Controller(store=self.store, engine=subject.engine, clock=self.clock, policies=policies)

    async def submit(self, name: str, command: list[str], cpu_millis: int, **fields: object) -> None:
        role = make_role("worker", command=tuple(command), resources=Resources(cpu_millis=cpu_millis))
        spec = make_spec(name=name, roles=(role,), **fields)
        await self.store.create(new_job(JobId(name), spec, self.clock.now()))
        self.controller.changed(JobId(name))

    async def until(self, name: str, condition: Callable[[Job], bool]) -> Job:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition(job := await self.store.get(JobId(name))):  # noqa: ASYNC110  # nobody announces it
                await asyncio.sleep(0.02)
        return job


@asynccontextmanager
async def service(directory: Path) -> AsyncIterator[tuple[Service, int]]:
    async with LocalSubject.over(directory) as subject:
        await subject.news.close()
        running = Service(subject)
        loop = asyncio.create_task(running.controller.run())
        try:
            yield running, (await subject.engine.nodes())[0].capacity.cpu_millis // 2
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)


async def test_the_job_that_has_saved_its_work_makes_room_for_another(tmp_path: Path) -> None:
    async with service(tmp_path) as (platform, half):
        go = tmp_path / "go"
        await platform.submit("saved", [sys.executable, "-c", TRAIN, str(go)], half)
        await platform.until("saved", lambda job: job.phase is Phase.PROCESSING)
        await platform.submit("unsaved", ["sleep", "1000"], half)
        began = (await platform.until("unsaved", lambda job: job.phase is Phase.PROCESSING)).history[-1].at
        go.touch()
        saved = await platform.until("saved", lambda job: job.checkpoint_at is not None)
        assert saved.checkpoint_at is not None
        assert began <= saved.checkpoint_at <= platform.clock.now()
        # The one that runs longer would have lost more, had it not just saved.
        await platform.submit("urgent", ["sleep", "1000"], half, priority=90)
        await platform.until("urgent", lambda job: job.phase is Phase.PROCESSING)
        assert (await platform.store.get(JobId("unsaved"))).phase is Phase.PROCESSING
        assert (await platform.store.get(JobId("saved"))).attempt == 1
        await platform.until("saved", lambda job: job.phase is Phase.RESUMED)
