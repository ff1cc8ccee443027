"""Every engine keeps the one contract."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangline.engines.simulated import SimulatedEngine, Timeline
from gangline.model import Gang, GangId, GangReplica, JobSpec, LogLine, ReplicaId
from gangline.testing.builders import FakeClock, make_node
from gangline.testing.engine_suite import EngineSubject, EngineSuite, NewsReader, Program
from gangline.testing.scripted_engine import Outcome, ScriptedEngine
from tests.engines.local.machinery import LocalSubject
from tests.scheduling.builders import nodes


class TestLocalEngine(EngineSuite):
    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[EngineSubject]:
        async with LocalSubject.over(tmp_path) as subject:
            yield subject


class TestLocalEngineWithoutControlGroups(EngineSuite):
    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[EngineSubject]:
        async with LocalSubject.over(tmp_path, use_cgroups=False) as subject:
            yield subject


ENDS = {Program.SUCCEED: 0, Program.SPEAK: 0, Program.FAIL: 3}
"""Programs that end by themselves, and how; the others run until they are stopped."""

SILENT = "simulated replicas write nothing"
FORGETFUL = "simulated machines exist only in the engine's own memory: nothing survives it that could be found again"
PAINLESS = "simulated replicas end when they are told to; none is ever killed"
NOT_SIMULATED = {
    "test_output_is_read_with_its_stream_while_and_after_it_runs": SILENT,
    "test_logs_can_be_narrowed": SILENT,
    "test_following_ends_with_the_attempt": SILENT,
    "test_the_last_attempt_is_read_unless_another_is_asked_for": SILENT,
    "test_news_of_a_gang_that_is_not_stopped_is_repeated_after_a_restart": FORGETFUL,
    "test_what_runs_is_found_again_after_a_restart_and_not_started_twice": FORGETFUL,
    "test_a_replica_that_ignores_the_stop_signal_is_killed": PAINLESS,
}


class ProgramWork:
    """What the suite's programs do, as a workload model: they end at once or never."""

    def seconds_left(self, gang: Gang) -> float:
        return 0.0 if any(self.exit_code(gang, replica) is not None for replica in gang.replicas) else float("inf")

    def advance(self, gang: Gang, seconds: float) -> None:
        del gang, seconds

    def exit_code(self, gang: Gang, replica: GangReplica) -> int | None:
        return ENDS.get(Program(gang.spec.role(replica.id.role).command[-1]))


class SimulatedSubject(EngineSubject):
    """A simulated engine whose clock is moved on as soon as nobody has anything else to do."""

    speaks = False

    def __init__(self) -> None:
        self.timeline = Timeline()
        self._open()
        self._mover = asyncio.create_task(self._move())

    def _open(self) -> None:
        self.engine = SimulatedEngine(nodes(2), self.timeline, ProgramWork(), start_seconds=20.0, stop_seconds=5.0)
        self.news = NewsReader(self.engine)

    async def restart(self) -> None:
        await self.news.close()
        self._open()

    async def close(self) -> None:
        self._mover.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._mover
        await self.news.close()

    async def _move(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            following = self.timeline.next
            if following is not None and following < float("inf"):
                self.timeline.move_to(following)


class TestSimulatedEngine(EngineSuite):
    @pytest.fixture
    async def subject(self, request: pytest.FixtureRequest) -> AsyncIterator[EngineSubject]:
        if request.node.name in NOT_SIMULATED:
            pytest.skip(NOT_SIMULATED[request.node.name])
        subject = SimulatedSubject()
        yield subject
        await subject.close()


NOT_SCRIPTED = {name: reason for name, reason in NOT_SIMULATED.items() if reason is not SILENT}


def play(spec: JobSpec, replica: ReplicaId) -> Outcome | None:
    """What the suite's programs do, as a script."""
    program = Program(spec.role(replica.role).command[-1])
    if program is Program.SPEAK:
        return Outcome(output=["one", "three"], errors=["two"])
    return Outcome(exit_code=ENDS[program]) if program in ENDS else None


class ScriptedSubject(EngineSubject):
    """A scripted engine; what runs until it is stopped says nothing by itself, so the subject lets it speak."""

    def __init__(self) -> None:
        self._open()

    def _open(self) -> None:
        self.engine = ScriptedEngine([make_node("a"), make_node("b")], FakeClock(), play)
        self.news = NewsReader(self.engine)

    async def lines(self, **query: object) -> list[LogLine]:
        for usage in (await self.engine.usage()).replicas:
            known = await super().lines(job_id=usage.job_id)
            if usage.replica not in {line.replica for line in known}:
                gang_id = GangId(usage.job_id, 1)
                self.engine.report(gang_id, usage.replica, Outcome(output=["serving 0"]))
        return await super().lines(**query)

    async def restart(self) -> None:
        await self.news.close()
        self._open()


class TestScriptedEngine(EngineSuite):
    @pytest.fixture
    async def subject(self, request: pytest.FixtureRequest) -> AsyncIterator[EngineSubject]:
        if request.node.name in NOT_SCRIPTED:
            pytest.skip(NOT_SCRIPTED[request.node.name])
        subject = ScriptedSubject()
        yield subject
        await subject.news.close()


def test_what_is_not_simulated_is_part_of_the_suite() -> None:
    assert set(NOT_SIMULATED) <= set(vars(EngineSuite))
