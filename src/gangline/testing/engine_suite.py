"""The proof that an engine keeps its contract. Every engine's tests subclass ``EngineSuite`` and hand it a subject.

The suite knows engines only through ``gangline.engines.interface``. What a replica does is named by a ``Program``;
the subject says what that is in its engine's world.
"""
# ruff: noqa: D102  -- the names of tests are sentences already

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from gangline.engines.interface import Engine, EngineEvent, LogQuery
from gangline.lifecycle.events import (
    GangEvent,
    GangStopped,
    OutputsStored,
    ReplicaExited,
    ReplicaLost,
    ReplicaStarted,
)
from gangline.model import (
    Gang,
    GangId,
    GangReplica,
    JobId,
    JobSpec,
    LogLine,
    NodeName,
    Policy,
    ReplicaId,
    RoleName,
    RoleSpec,
)
from gangline.testing.builders import make_role, make_spec

PATIENCE_SECONDS = 60.0
EventT = TypeVar("EventT", bound=EngineEvent)


class Program(StrEnum):
    """What a replica does, whatever the engine."""

    SUCCEED = "exit 0"
    FAIL = "exit 3"
    SPEAK = "echo one; echo two >&2; echo three"
    """Writes three lines, the second to standard error, and exits with 0."""
    SERVE = "echo serving $GANGLINE_INCARNATION; trap 'exit 143' TERM; sleep 1000 & wait"
    """Says which incarnation it is, runs until it is stopped, and ends at once when asked to."""
    IGNORE_STOP = "trap '' TERM; echo deaf; while true; do sleep 0.05; done"
    """Runs on when asked to stop."""


class NewsReader:
    """Reads an engine's events in the background and lets a test wait for one."""

    def __init__(self, engine: Engine) -> None:
        self.seen: list[EngineEvent] = []
        self._arrived = asyncio.Condition()
        self._task = asyncio.create_task(self._read(engine))

    async def wait_for(
        self,
        kind: type[EventT],
        *,
        count: int = 1,
        where: Callable[[EventT], bool] = bool,
        seconds: float = PATIENCE_SECONDS,
    ) -> list[EventT]:
        """Return the first ``count`` events of a kind that satisfy a condition; fails with what came instead."""
        try:
            async with asyncio.timeout(seconds), self._arrived:
                await self._arrived.wait_for(lambda: len(self.of(kind, where)) >= count or self._task.done())
        except TimeoutError:
            raise AssertionError(f"{count} x {kind.__name__} did not come; came: {self.seen}") from None
        if self._task.done():
            await self._task
        return self.of(kind, where)[:count]

    def of(self, kind: type[EventT], where: Callable[[EventT], bool] = bool) -> list[EventT]:
        """Return the events of a kind seen so far."""
        return [event for event in self.seen if isinstance(event, kind) and where(event)]

    async def close(self) -> None:
        """Stop reading."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _read(self, engine: Engine) -> None:
        async for event in engine.events():
            async with self._arrived:
                self.seen.append(event)
                self._arrived.notify_all()


class EngineSubject(ABC):
    """An engine under test with what the suite needs to know of its world. Made and closed by a fixture."""

    engine: Engine
    news: NewsReader
    speaks: bool = True
    """Whether replicas write output that can be read; simulated ones write nothing."""

    @abstractmethod
    async def restart(self) -> None:
        """Replace the engine by a new one over the same world, as after kill -9 of the controller; read its news."""

    def command(self, program: Program) -> tuple[str, ...]:
        """Return the command that does what the program says; by default the program is a shell's."""
        return ("sh", "-c", program.value)

    async def node(self) -> NodeName:
        """Return a node that gangs may be put on."""
        return (await self.engine.nodes())[0].name

    def role(self, name: str, program: Program, replicas: int = 1, **fields: object) -> RoleSpec:
        """Return a role whose replicas do that."""
        return make_role(name, command=self.command(program), replicas=replicas, **fields)

    async def gang(self, *roles: RoleSpec, job_id: str = "job-1", attempt: int = 1, grace_seconds: float = 5.0) -> Gang:
        """Return a gang with every replica of these roles on one node."""
        spec = make_spec(roles=roles, policy=Policy(grace_seconds=grace_seconds))
        return place(spec, await self.node(), job_id=job_id, attempt=attempt)

    async def lines(self, **query: object) -> list[LogLine]:
        """Read logs of the suite's job to their end."""
        job_id = JobId(str(query.pop("job_id", "job-1")))
        wanted = LogQuery(job_id=job_id, **query)  # type: ignore[arg-type]  # fields of a query, by name
        return [line async for line in self.engine.logs(wanted)]


def place(spec: JobSpec, node: NodeName, *, job_id: str = "job-1", attempt: int = 1) -> Gang:
    """Return a gang with every replica of a job on one node."""
    replicas = tuple(
        GangReplica(id=ReplicaId(role.name, index), node=node) for role in spec.roles for index in range(role.replicas)
    )
    return Gang(id=GangId(JobId(job_id), attempt), spec=spec, replicas=replicas)


def with_replicas(gang: Gang, replicas: Sequence[GangReplica]) -> Gang:
    """Return the same attempt with other replicas."""
    return Gang(id=gang.id, spec=gang.spec, replicas=tuple(replicas))


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds that nobody announces."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.02)


class EngineSuite:
    """Subclass it, and provide a fixture ``subject`` that yields an EngineSubject."""

    async def test_nodes_are_described_in_a_stable_order(self, subject: EngineSubject) -> None:
        nodes = await subject.engine.nodes()
        assert nodes
        assert [node.name for node in await subject.engine.nodes()] == [node.name for node in nodes]
        assert all(node.capacity.cpu_millis > 0 and node.capacity.memory_mib > 0 for node in nodes)

    async def test_every_start_and_every_exit_is_reported(self, subject: EngineSubject) -> None:
        gang = await subject.gang(
            subject.role("worker", Program.SUCCEED, replicas=2), subject.role("evaluator", Program.FAIL)
        )
        await subject.engine.run(gang)
        exits = await subject.news.wait_for(ReplicaExited, count=3)
        assert {(str(event.replica), event.exit_code) for event in exits} == {
            ("worker-0", 0),
            ("worker-1", 0),
            ("evaluator-0", 3),
        }
        assert {event.replica for event in subject.news.of(ReplicaStarted)} == {event.replica for event in exits}
        assert all((event.job_id, event.attempt, event.incarnation) == ("job-1", 1, 0) for event in exits)

    async def test_a_start_comes_before_its_exit(self, subject: EngineSubject) -> None:
        await subject.engine.run(await subject.gang(subject.role("worker", Program.SUCCEED)))
        await subject.news.wait_for(ReplicaExited)
        kinds = [type(event) for event in subject.news.seen if isinstance(event, ReplicaStarted | ReplicaExited)]
        assert kinds == [ReplicaStarted, ReplicaExited]

    async def test_running_a_gang_again_starts_nothing_twice(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SERVE, replicas=2))
        await asyncio.gather(*(subject.engine.run(gang) for _ in range(3)))
        await subject.news.wait_for(ReplicaStarted, count=2)
        started = tuple(GangReplica(id=each.id, node=each.node, started=True) for each in gang.replicas)
        await subject.engine.run(with_replicas(gang, started))
        await self._have_spoken(subject, replicas=2)
        await self._stop(subject, gang)
        assert len(subject.news.of(ReplicaStarted)) == 2
        if subject.speaks:
            assert [line.text for line in await subject.lines()] == ["serving 0", "serving 0"]

    async def test_a_finished_replica_is_not_run_again(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SPEAK))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaExited)
        await subject.engine.run(gang)
        await self._stop(subject, gang)
        assert len(subject.news.of(ReplicaStarted)) == 1
        if subject.speaks:
            assert len(await subject.lines()) == 3

    async def test_a_started_replica_without_a_trace_is_lost(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SPEAK))
        replica = gang.replicas[0]
        await subject.engine.run(with_replicas(gang, [GangReplica(id=replica.id, node=replica.node, started=True)]))
        (lost,) = await subject.news.wait_for(ReplicaLost)
        assert lost.replica == replica.id
        await self._stop(subject, gang)
        assert not subject.news.of(ReplicaStarted)
        assert await subject.lines() == []

    async def test_stop_ends_every_replica_and_reports_it(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SERVE, replicas=2))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted, count=2)
        await self._stop(subject, gang)
        assert (await subject.engine.usage()).replicas == ()

    async def test_an_unknown_gang_is_reported_as_stopped(self, subject: EngineSubject) -> None:
        await subject.engine.stop(GangId(JobId("nobody"), 4), 30.0)
        (stopped,) = await subject.news.wait_for(GangStopped)
        assert (stopped.job_id, stopped.attempt) == ("nobody", 4)

    async def test_stopping_again_reports_again(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SUCCEED))
        await subject.engine.run(gang)
        await self._stop(subject, gang)
        await subject.restart()
        await self._stop(subject, gang)

    async def test_a_replica_that_ignores_the_stop_signal_is_killed(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.IGNORE_STOP))
        await subject.engine.run(gang)
        await self._have_spoken(subject)
        await subject.engine.stop(gang.id, 0.2)
        (exited,) = await subject.news.wait_for(ReplicaExited)
        assert exited.exit_code == 128 + 9
        await subject.news.wait_for(GangStopped)

    async def test_a_later_stop_shortens_the_grace_period(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.IGNORE_STOP))
        await subject.engine.run(gang)
        await self._have_spoken(subject)
        await subject.engine.stop(gang.id, 3600.0)
        await subject.engine.stop(gang.id, 0.2)
        await subject.news.wait_for(GangStopped)

    async def test_a_higher_incarnation_starts_again_in_place(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SERVE), subject.role("chief", Program.FAIL))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaExited, where=lambda event: event.replica.role == "chief")
        worker, chief = gang.replicas
        again = GangReplica(id=chief.id, node=chief.node, incarnation=1)
        await subject.engine.run(with_replicas(gang, [worker, again]))
        (exited,) = await subject.news.wait_for(ReplicaExited, where=lambda event: event.incarnation == 1)
        assert (exited.replica, exited.exit_code) == (chief.id, 3)
        assert not subject.news.of(ReplicaExited, lambda event: event.replica == worker.id)
        await self._stop(subject, gang)

    async def test_a_replica_that_is_no_longer_listed_is_stopped(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SERVE, replicas=2))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted, count=2)
        await subject.engine.run(with_replicas(gang, gang.replicas[:1]))

        async def one_is_left() -> bool:
            return len((await subject.engine.usage()).replicas) == 1

        await eventually(one_is_left)
        (left,) = (await subject.engine.usage()).replicas
        assert left.replica == gang.replicas[0].id
        await self._stop(subject, gang)

    async def test_a_gang_grows_by_running_it_with_more_replicas(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SERVE, replicas=2))
        await subject.engine.run(with_replicas(gang, gang.replicas[:1]))
        await subject.news.wait_for(ReplicaStarted)
        await subject.engine.run(gang)
        started = await subject.news.wait_for(ReplicaStarted, count=2)
        assert [event.replica for event in started] == [replica.id for replica in gang.replicas]
        await self._stop(subject, gang)

    async def test_finish_stops_what_still_serves_and_reports_the_outputs(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("chief", Program.SUCCEED), subject.role("ps", Program.SERVE))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted, count=2)
        await subject.news.wait_for(ReplicaExited, where=lambda event: event.replica.role == "chief")
        await subject.engine.finish(gang)
        await subject.news.wait_for(OutputsStored)
        assert (await subject.engine.usage()).replicas == ()
        await self._stop(subject, gang)

    async def test_output_is_read_with_its_stream_while_and_after_it_runs(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SPEAK))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaExited)
        running = await subject.lines()
        await self._stop(subject, gang)
        kept = await subject.lines()
        assert running == kept
        assert sorted((line.text, line.stream.value) for line in kept) == [
            ("one", "stdout"),
            ("three", "stdout"),
            ("two", "stderr"),
        ]
        assert all(line.attempt == 1 and str(line.replica) == "worker-0" for line in kept)

    async def test_logs_can_be_narrowed(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SPEAK, replicas=2), subject.role("ps", Program.SPEAK))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaExited, count=3)
        assert len(await subject.lines()) == 9
        assert {str(line.replica) for line in await subject.lines(role=RoleName("worker"))} == {"worker-0", "worker-1"}
        assert {str(line.replica) for line in await subject.lines(role=RoleName("worker"), index=1)} == {"worker-1"}
        assert len(await subject.lines(tail=1)) == 3
        last = max(line.at for line in await subject.lines())
        assert {line.at for line in await subject.lines(since=last)} == {last}
        assert await subject.lines(attempt=7) == []
        assert await subject.lines(job_id="nobody") == []
        await self._stop(subject, gang)

    async def test_following_ends_with_the_attempt(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SERVE))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted)
        async with asyncio.timeout(PATIENCE_SECONDS):
            following = asyncio.create_task(subject.lines(follow=True))
            await self._have_spoken(subject)
            await self._stop(subject, gang)
            assert [line.text for line in await following] == ["serving 0"]

    async def test_the_last_attempt_is_read_unless_another_is_asked_for(self, subject: EngineSubject) -> None:
        for attempt, program in ((1, Program.SPEAK), (2, Program.FAIL)):
            gang = await subject.gang(subject.role("worker", program), attempt=attempt)
            await subject.engine.run(gang)
            await subject.news.wait_for(ReplicaExited, count=attempt)
            await self._stop(subject, gang)
        assert await subject.lines() == []
        assert len(await subject.lines(attempt=1)) == 3

    async def test_news_of_a_gang_that_is_not_stopped_is_repeated_after_a_restart(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SERVE), subject.role("chief", Program.FAIL))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted, count=2)
        before = (await subject.news.wait_for(ReplicaExited))[0]
        await subject.restart()
        assert (await subject.news.wait_for(ReplicaExited))[0] == before
        started = await subject.news.wait_for(ReplicaStarted, count=2)
        assert {event.replica for event in started} == {replica.id for replica in gang.replicas}
        await self._stop(subject, gang)

    async def test_what_runs_is_found_again_after_a_restart_and_not_started_twice(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SERVE, replicas=2))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted, count=2)
        await subject.restart()
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted, count=2)
        assert len((await subject.engine.usage()).replicas) == 2
        await self._have_spoken(subject, replicas=2)
        await self._stop(subject, gang)
        assert [line.text for line in await subject.lines()] == ["serving 0", "serving 0"]

    async def test_usage_names_every_running_replica(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SERVE, replicas=2))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted, count=2)
        usage = await subject.engine.usage()
        assert {(each.job_id, each.replica, each.node) for each in usage.replicas} == {
            ("job-1", replica.id, replica.node) for replica in gang.replicas
        }
        assert {each.node for each in usage.nodes} == {node.name for node in await subject.engine.nodes()}
        await self._stop(subject, gang)

    async def test_forgetting_removes_the_output(self, subject: EngineSubject) -> None:
        gang = await subject.gang(subject.role("worker", Program.SPEAK))
        await subject.engine.run(gang)
        await self._stop(subject, gang)
        await subject.engine.forget(gang.id.job_id)
        assert await subject.lines(attempt=1) == []
        await subject.engine.forget(gang.id.job_id)

    async def _stop(self, subject: EngineSubject, gang: Gang) -> None:
        seen = len(subject.news.of(GangStopped))
        await subject.engine.stop(gang.id, 5.0)
        stopped = await subject.news.wait_for(GangStopped, count=seen + 1)
        assert isinstance(stopped[-1], GangEvent)
        assert GangId(stopped[-1].job_id, stopped[-1].attempt) == gang.id

    async def _have_spoken(self, subject: EngineSubject, replicas: int = 1) -> None:
        """Wait until the programs themselves have spoken: a replica is started before its program has done anything."""
        if not subject.speaks:
            await subject.news.wait_for(ReplicaStarted, count=replicas)
            return

        async def all_have() -> bool:
            return len({line.replica for line in await subject.lines()}) == replicas

        await eventually(all_have)
