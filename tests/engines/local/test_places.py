"""When a place is free that a gang gives up: when the process there is gone, not when the gang was told to shrink."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gangline.controller import Controller
from gangline.engines.local.engine import LocalEngine
from gangline.model import Job, JobId, Phase, Policy, Resources
from gangline.scheduling import Constraint
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import make_job, make_role
from gangline.testing.engine_suite import eventually
from tests.engines.local.machinery import WallClock, kill_everything

LEAVES_WHEN_LET = """trap 'until [ -e "$LET_GO" ]; do sleep 0.05; done; exit 0' TERM
echo >> "$READY"; while true; do sleep 1000 & wait; done"""
PLACES = 2


class Laptop:
    """A controller over the local engine that can be killed and started again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = MemoryStore()
        self._start()

    def _start(self) -> None:
        self.engine = LocalEngine(self.root / "engine", clock=WallClock())
        self.controller = Controller(store=self.store, engine=self.engine, clock=WallClock())
        self._task = asyncio.create_task(self.controller.run())

    async def kill(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self.engine.close()

    async def restart(self) -> None:
        await self.kill()
        self._start()

    async def submit(self, name: str, *, replicas: int, priority: int) -> None:
        """Submit a job whose replicas each need half of the machine and leave only when they are let go."""
        (node,) = await self.engine.nodes()
        role = make_role(
            command=("bash", "-c", LEAVES_WHEN_LET),
            replicas=replicas,
            minimum=1,
            maximum=replicas,
            resources=Resources(cpu_millis=node.capacity.cpu_millis // PLACES),
            env={"READY": str(self.root / name), "LET_GO": str(self.root / "let go")},
        )
        policy = Policy(grace_seconds=1000.0)
        job = make_job(job_id=name, at=WallClock().now(), name=name, roles=(role,), priority=priority, policy=policy)
        await self.store.create(job)
        self.controller.changed(job.id)

    def started(self, name: str) -> int:
        """How many replicas of a job have ever run."""
        with contextlib.suppress(FileNotFoundError):
            return len((self.root / name).read_text().splitlines())
        return 0

    async def until(self, name: str, condition: Callable[[Job], bool]) -> Job:
        async def holds() -> bool:
            return condition(await self.store.get(JobId(name)))

        await eventually(holds)
        return await self.store.get(JobId(name))

    async def waits_for_what_terminates(self, name: str, holder: str) -> None:
        async def is_explained() -> bool:
            why = self.controller.explanation(JobId(name))
            return why is not None and (why.constraint, why.holders) == (Constraint.TERMINATING, (holder,))

        await eventually(is_explained)


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Laptop]:
    laptop = Laptop(tmp_path)
    try:
        yield laptop
    finally:
        await laptop.kill()
        kill_everything(tmp_path / "engine")


@pytest.mark.parametrize("restarted", [False, True], ids=["in one life", "after a restart of the service"])
async def test_the_place_of_a_replica_that_leaves_its_gang_is_free_when_it_is_gone(
    laptop: Laptop, restarted: bool
) -> None:
    await laptop.submit("elastic", replicas=PLACES, priority=10)

    async def all_ready() -> bool:
        return laptop.started("elastic") == PLACES

    await eventually(all_ready)
    await laptop.until("elastic", lambda job: job.phase is Phase.PROCESSING)
    await laptop.submit("urgent", replicas=1, priority=90)
    await laptop.until("elastic", lambda job: len(job.replicas) == 1)
    if restarted:
        await laptop.restart()
    await laptop.waits_for_what_terminates("urgent", "elastic")
    assert (await laptop.store.get(JobId("urgent"))).phase is Phase.QUEUED
    (laptop.root / "let go").touch()
    urgent = await laptop.until("urgent", lambda job: job.phase is Phase.PROCESSING)
    elastic = await laptop.store.get(JobId("elastic"))
    assert (urgent.attempt, elastic.attempt, elastic.phase, len(elastic.replicas)) == (1, 1, Phase.PROCESSING, 1)
