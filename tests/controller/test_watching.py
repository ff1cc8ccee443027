"""What the controller makes of what it sees of running jobs."""

from collections.abc import Mapping

import pytest

from gangline.controller.watching import RunWatch, look_seconds
from gangline.engines.interface import Watchful
from gangline.lifecycle.events import Event, GangStalled, ReplicaNoticed
from gangline.lifecycle.watching import Pulse
from gangline.model import GangId, Job, JobId, Metric, Policy, ReplicaId, RoleName, StallAction, StallRule, Timestamp
from gangline.testing.builders import START, make_role, make_running_job, make_spec

WORKER = ReplicaId(RoleName("worker"), 0)


class FakeEngine:
    """Shows what a test says, and counts how often stacks were asked for."""

    def __init__(self) -> None:
        self.pulse = Pulse(cpu_seconds=0.0)
        self.asked = 0

    async def pulses(self, gang_id: GangId) -> Mapping[ReplicaId, Pulse]:
        return {WORKER: self.pulse}

    async def keep_stacks(self, gang_id: GangId) -> Mapping[ReplicaId, str]:
        self.asked += 1
        return {WORKER: "train.py:12 step"}


_conforms: type[Watchful] = FakeEngine


def job_with(action: StallAction = StallAction.TELL, attempt: int = 1) -> Job:
    policy = Policy(stalled=StallRule(after_seconds=40, action=action))
    return make_running_job(make_spec(roles=(make_role(replicas=1),), policy=policy))


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


async def look(watch: RunWatch, job: Job, seconds: float) -> list[Event]:
    return await watch.look([job], Timestamp(START + seconds))


async def test_a_job_that_stalls_is_told_once_with_the_line_where_it_is(engine: FakeEngine) -> None:
    watch, job = RunWatch(engine), job_with()
    assert await look(watch, job, 0) == []
    (told,) = await look(watch, job, 40)
    assert isinstance(told, ReplicaNoticed)
    assert told.message.startswith("stalled: ")
    assert told.message.endswith(", in train.py:12 step")
    assert await look(watch, job, 50) == []
    assert engine.asked == 1


async def test_a_job_that_goes_on_is_told_to_be_well_and_may_stall_again(engine: FakeEngine) -> None:
    watch, job = RunWatch(engine), job_with()
    for seconds in (0, 40):
        await look(watch, job, seconds)
    engine.pulse = Pulse(cpu_seconds=5.0)
    (told,) = await look(watch, job, 50)
    assert isinstance(told, ReplicaNoticed)
    assert told.message == ""
    assert len(await look(watch, job, 90)) == 1
    assert engine.asked == 2


@pytest.mark.parametrize("action", [StallAction.RESTART, StallAction.FAIL])
async def test_where_the_policy_wants_more_the_gang_is_said_to_have_stalled(
    engine: FakeEngine, action: StallAction
) -> None:
    watch, job = RunWatch(engine), job_with(action)
    await look(watch, job, 0)
    _, stalled = await look(watch, job, 40)
    assert isinstance(stalled, GangStalled)
    assert stalled.message.startswith("worker-0 stalled: ")


async def test_steps_that_were_reported_before_the_first_look_count(engine: FakeEngine) -> None:
    watch, job = RunWatch(engine), job_with()
    metric = Metric(job_id=JobId("job-1"), replica=WORKER, name="loss", value=1.0, step=3, at=Timestamp(START))
    watch.hear(job, metric, Timestamp(START))
    engine.pulse = Pulse(cpu_seconds=1.0)
    await look(watch, job, 1)
    engine.pulse = Pulse(cpu_seconds=39.0)
    (told,) = await look(watch, job, 40)
    assert isinstance(told, ReplicaNoticed)
    assert "since step 3" in told.message


def test_it_is_looked_at_four_times_within_the_shortest_time_of_all() -> None:
    assert look_seconds([]) == 30
    assert look_seconds([job_with()]) == 10
