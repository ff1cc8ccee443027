"""The engine without machines: what it reports, and when."""

import pytest

from gangline.engines.interface import LogQuery, NodesChanged
from gangline.engines.simulated import FixedWork, SimulatedEngine, Timeline
from gangline.lifecycle.events import OutputsStored, ReplicaExited, ReplicaLost, ReplicaStarted
from gangline.model import Gang, GangId, GangReplica, JobId, NodeName, ReplicaId, Retry, RoleName
from tests.scheduling.builders import job, nodes, role

WORKER = RoleName("worker")


def gang(*indexes: int, started: bool = False, replicas: int = 2, on: str = "n0", attempt: int = 1) -> Gang:
    spec = job("a", role(replicas, minimum=1)).spec
    members = tuple(GangReplica(id=ReplicaId(WORKER, i), node=NodeName(on), started=started) for i in indexes)
    return Gang(id=GangId(JobId("a"), attempt), spec=spec, replicas=members)


class World:
    """An engine, its timeline, and what has been reported at which moment."""

    def __init__(self, *, seconds: float = 100.0, **times: float) -> None:
        self.timeline = Timeline()
        self.engine = SimulatedEngine(nodes(2), self.timeline, FixedWork({JobId("a"): seconds}), **times)

    def at(self, moment: float) -> list[tuple[str, float]]:
        """Move to a moment; return the kinds of news since, with their times."""
        self.timeline.move_to(moment)
        return [(type(each).__name__, getattr(each, "at", 0.0)) for each in self.engine.take_news()]


async def test_a_gang_starts_works_and_ends() -> None:
    world = World(start_seconds=30.0)
    await world.engine.run(gang(0, 1))
    assert world.at(29) == []
    assert world.at(30) == [("ReplicaStarted", 30.0)] * 2
    assert world.at(1000) == [("ReplicaExited", 130.0)] * 2


async def test_a_replica_that_should_never_end_goes_on_when_the_work_is_done() -> None:
    world = World()
    spec = job("a", role(name="ps", retry=Retry.ALWAYS), role(name="worker")).spec
    members = tuple(GangReplica(id=ReplicaId(RoleName(name), 0), node=NodeName("n0")) for name in ("ps", "worker"))
    await world.engine.run(Gang(id=GangId(JobId("a"), 1), spec=spec, replicas=members))
    world.timeline.move_to(1000)
    ended = [each.replica for each in world.engine.take_news() if isinstance(each, ReplicaExited)]
    assert ended == [ReplicaId(WORKER, 0)]


async def test_the_same_order_again_changes_nothing() -> None:
    world = World()
    await world.engine.run(gang(0, 1))
    world.at(10)
    await world.engine.run(gang(0, 1, started=True))
    assert world.at(1000) == [("ReplicaExited", 100.0)] * 2


async def test_half_a_gang_takes_twice_as_long_and_growth_counts_from_then_on() -> None:
    world = World()
    await world.engine.run(gang(0))
    world.at(100)
    await world.engine.run(gang(0, 1))
    assert world.at(1000) == [("ReplicaStarted", 100.0), ("ReplicaExited", 150.0), ("ReplicaExited", 150.0)]


async def test_a_stopped_gang_goes_on_from_where_it_was() -> None:
    world = World(stop_seconds=5.0)
    await world.engine.run(gang(0, 1))
    world.at(60)
    await world.engine.stop(GangId(JobId("a"), 1), 30.0)
    assert world.at(70) == [("GangStopped", 65.0)]
    await world.engine.run(gang(0, 1, attempt=2))
    assert world.at(1000)[-1] == ("ReplicaExited", 110.0)


async def test_an_unknown_gang_is_stopped_at_once() -> None:
    world = World(stop_seconds=5.0)
    await world.engine.stop(GangId(JobId("b"), 3), 30.0)
    assert world.at(0) == [("GangStopped", 0.0)]


async def test_the_grace_period_bounds_the_stop() -> None:
    world = World(stop_seconds=50.0)
    await world.engine.run(gang(0, 1))
    world.at(1)
    await world.engine.stop(GangId(JobId("a"), 1), 10.0)
    assert world.at(100) == [("GangStopped", 11.0)]


async def test_a_replica_that_had_started_and_is_unknown_is_lost() -> None:
    world = World()
    await world.engine.run(gang(0, started=True))
    assert world.at(0)[0] == ("ReplicaLost", 0.0)


async def test_a_lost_node_takes_its_replicas_along() -> None:
    world = World()
    await world.engine.run(gang(0, 1))
    world.at(10)
    world.engine.set_nodes(nodes(2)[1:])
    news = world.engine.take_news()
    assert [type(each) for each in news] == [NodesChanged, ReplicaLost, ReplicaLost]
    assert [each.name for each in await world.engine.nodes()] == ["n1"]


async def test_outputs_are_stored_at_once_and_work_stops() -> None:
    world = World()
    await world.engine.run(gang(0, 1))
    world.at(10)
    await world.engine.finish(gang(0, 1))
    assert [type(each) for each in world.engine.take_news()] == [OutputsStored]
    assert world.at(1000) == []


async def test_usage_is_what_was_asked_for() -> None:
    world = World()
    await world.engine.run(gang(0, 1))
    world.at(0)
    usage = await world.engine.usage()
    assert [(each.node, each.used.gpus) for each in usage.nodes] == [("n0", 2.0), ("n1", 0.0)]
    assert len(usage.replicas) == 2


async def test_events_can_be_listened_to() -> None:
    world = World()
    await world.engine.run(gang(0))
    world.timeline.move_to(500)
    events = world.engine.events()
    assert [type(await anext(events)) for _ in range(2)] == [ReplicaStarted, ReplicaExited]


async def test_there_are_no_logs_and_nothing_to_forget() -> None:
    world = World()
    assert [line async for line in world.engine.logs(LogQuery(job_id=JobId("a")))] == []
    await world.engine.forget(JobId("a"))
    assert world.at(0) == []


def test_jobs_without_a_known_duration_take_what_they_declare_or_the_default() -> None:
    declared = gang(0, 1)
    assert FixedWork({}, otherwise=7.0).seconds_left(declared) == 7.0
    assert FixedWork({JobId("a"): 3.0}).seconds_left(declared) == pytest.approx(3.0)


def test_what_is_cancelled_does_not_happen() -> None:
    timeline = Timeline()
    done: list[str] = []
    first = timeline.after(5, lambda: done.append("first"))
    timeline.after(6, lambda: done.append("second"))
    timeline.cancel(first)
    assert timeline.next == 6.0
    timeline.move_to(10)
    assert (done, timeline.now(), timeline.next) == (["second"], 10.0, None)


async def test_an_order_repeated_before_the_start_neither_loses_nor_delays_it() -> None:
    world = World(start_seconds=30.0)
    await world.engine.run(gang(0, 1))
    world.at(20)
    await world.engine.run(gang(0, 1))
    assert world.at(30) == [("ReplicaStarted", 30.0)] * 2
    assert world.at(1000) == [("ReplicaExited", 130.0)] * 2


async def test_the_time_that_a_start_takes_is_no_work() -> None:
    world = World(start_seconds=30.0)
    await world.engine.run(gang(0, 1))
    world.at(20)
    await world.engine.stop(GangId(JobId("a"), 1), 0.0)
    await world.engine.run(gang(0, 1, attempt=2))
    world.at(21)
    assert world.at(1000) == [("ReplicaStarted", 50.0)] * 2 + [("ReplicaExited", 150.0)] * 2


async def test_a_lost_replica_does_not_end_with_the_others() -> None:
    world = World()
    await world.engine.run(gang(0, 1, started=True))
    assert world.at(1000) == [("ReplicaLost", 0.0)] * 2
