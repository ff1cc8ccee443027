"""What a schedule calls for: every time has one run at most, whatever happens in between."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangline.model import Timestamp
from gangline.model.kinds.pipeline import PipelineRun, PipelineStatus
from gangline.model.kinds.schedule import Schedule, ScheduleSpec, ScheduleStatus
from gangline.model.record import RecordId
from gangline.pipelines.scheduling import plan_schedule
from gangline.testing.builders import make_run


def make_schedule(**fields: Any) -> Schedule:
    when = {} if "cron" in fields else {"every_seconds": 10.0}
    spec = ScheduleSpec(name="nightly", pipeline=make_run().spec, **{**when, **fields})
    return Schedule(id=RecordId("s1"), spec=spec, status=ScheduleStatus(), created_at=Timestamp(1000.0))


class World:
    """A schedule, its runs, and a driver that may be killed between making a run and noting it."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.runs: dict[str, PipelineRun] = {}

    def look(self, now: float, *, killed: bool = False) -> None:
        for _ in range(3):
            plan = plan_schedule(self.schedule, tuple(self.runs.values()), Timestamp(now))
            for made, spec in plan.make:
                self.runs.setdefault(
                    made, PipelineRun(id=made, spec=spec, status=PipelineStatus(), created_at=Timestamp(now))
                )
            if killed:
                return
            self.schedule = replace(self.schedule, status=plan.status)

    def finish(self) -> None:
        ended = PipelineStatus(finished_at=Timestamp(1.0))
        self.runs = {made: replace(run, status=ended) for made, run in self.runs.items()}

    @property
    def times(self) -> list[float]:
        return sorted(run.spec.scheduled_at or 0.0 for run in self.runs.values())

    @property
    def unfinished(self) -> int:
        return sum(not run.status.settled for run in self.runs.values())


def test_each_time_has_a_run_that_is_named_after_it() -> None:
    world = World(make_schedule(at_most=5))
    for now in (1000.0, 1009.9, 1010.0, 1015.0, 1020.5):
        world.look(now)
    assert world.times == [1010.0, 1020.0]
    run = world.runs["s1-1010"]
    assert (run.name, run.spec.schedule) == ("nightly-1010", "nightly")
    assert world.schedule.status.next_at == 1030.0


def test_of_missed_times_only_the_latest_counts_unless_it_catches_up() -> None:
    for catch_up, want in ((False, [1040.0]), (True, [1010.0, 1020.0, 1030.0, 1040.0])):
        world = World(make_schedule(at_most=9, catch_up=catch_up))
        world.look(1045.0)
        assert world.times == want


def test_no_more_run_at_once_than_allowed() -> None:
    world = World(make_schedule(at_most=2, catch_up=True))
    world.look(1045.0)
    assert world.times == [1010.0, 1020.0]
    world.look(1046.0)
    assert world.unfinished == 2
    world.finish()
    world.look(1047.0)
    assert world.times == [1010.0, 1020.0, 1030.0, 1040.0]


def test_a_pause_begins_nothing_and_forgets_nothing() -> None:
    world = World(make_schedule(paused=True, catch_up=True, at_most=9))
    world.look(1045.0)
    assert (world.times, world.schedule.status.next_at) == ([], None)
    world.schedule = replace(world.schedule, spec=replace(world.schedule.spec, paused=False))
    world.look(1045.0)
    assert len(world.times) == 4


def test_it_begins_with_its_start_and_is_settled_after_its_end() -> None:
    world = World(make_schedule(start="1970-01-01T00:18:20Z", end="1970-01-01T00:18:45Z", at_most=9))
    for now in range(1000, 1200, 5):
        world.look(now)
    assert world.times == [1100.0, 1110.0, 1120.0]
    assert not world.schedule.status.settled
    world.finish()
    world.look(1200.0)
    assert world.schedule.status.settled


def test_a_run_that_was_deleted_is_not_made_again() -> None:
    world = World(make_schedule(at_most=9))
    world.look(1010.0)
    world.runs.clear()
    world.look(1011.0)
    assert (world.times, world.schedule.status.active) == ([], ())


@given(
    st.booleans(),
    st.integers(1, 3),
    st.lists(st.tuples(st.floats(0.1, 40.0), st.booleans(), st.booleans()), min_size=1, max_size=25),
)
def test_no_time_is_lost_and_none_has_two_runs_however_often_it_is_killed(
    catch_up: bool, at_most: int, history: list[tuple[float, bool, bool]]
) -> None:
    world, now = World(make_schedule(catch_up=catch_up, at_most=at_most)), 1000.0
    noted: set[float] = set()
    for passed, killed, finished in history:
        now += passed
        world.look(now, killed=killed)
        noted |= {each.at for each in world.schedule.status.active}
        assert world.unfinished <= at_most
        if finished:
            world.finish()
    world.look(now)
    noted |= {each.at for each in world.schedule.status.active}
    assert len(set(world.times)) == len(world.times)
    assert noted <= set(world.times)
    if catch_up:
        assert world.times == [1010.0 + 10 * number for number in range(len(world.times))]
