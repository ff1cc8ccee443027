"""Where a gang stands in line, and whether what is said to be ahead of it is."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gangline.model import Job, JobId, Phase, PhaseEntry, PlaceInLine, Queue, Tenant, Timestamp
from gangline.scheduling import Line, Policies
from gangline.scheduling.plugins.orders import PriorityThenAge, ShortestFirst
from tests.scheduling.builders import AT_ONCE, NOW, cycle, fill, job, node, queue, role, running

FULL = running(job("full", role(8), priority=100), {"n0": 8}, since=10.0)


def line_of(jobs: Sequence[Job], queues: Sequence[Queue] = (), policies: Policies = AT_ONCE) -> Line:
    decision = cycle([node("n0")], jobs, queues, policies)
    nominated = {each.job_id for each in decision.memory.nominations}
    return Line(decision.explanations, {each.id: each for each in jobs}, nominated, policies, NOW)


def place(jobs: Sequence[Job], name: str, queues: Sequence[Queue] = (), policies: Policies = AT_ONCE) -> PlaceInLine:
    found = line_of([*jobs], queues, policies).place_of(JobId(name))
    assert found is not None
    return found


def waits(name: str, *, tenant: str = "default", **more: object) -> Job:
    each = job(name, role(2), **more)  # type: ignore[arg-type]
    return replace(each, spec=replace(each.spec, tenant=Tenant(tenant)))


def test_the_place_is_counted_in_the_queue_and_in_all() -> None:
    queues = [queue("a", weight=3), queue("b")]
    jobs = [FULL, *(waits(f"a{n}", queue="a", age=10 - n) for n in range(3)), waits("b0", queue="b")]
    full = replace(FULL, spec=replace(FULL.spec, queue=queues[1].name))
    found = place([full, *jobs[1:]], "a2", queues)
    assert (found.place_in_queue, found.waiting_in_queue, found.waiting) == (3, 3, 4)
    assert {each.job_id for each in found.ahead} >= {"a0", "a1"}
    assert found.place == len(found.ahead) + 1
    assert f"number {found.place} of 4 in all" in found.words()[0]
    last = place([full, *jobs[1:]], "b0", queues)
    assert (last.place_in_queue, last.waiting_in_queue) == (1, 1)


@pytest.mark.parametrize(
    ("first", "second", "policies", "want"),
    [
        pytest.param(waits("x", priority=75), waits("y", age=9), AT_ONCE, "its priority is 75, not 50", id="priority"),
        pytest.param(waits("x", age=9), waits("y", age=2), AT_ONCE, "it was submitted earlier", id="age"),
        pytest.param(
            waits("x", expected_seconds=10.0),
            waits("y", age=9, expected_seconds=20.0),
            replace(AT_ONCE, job_order=ShortestFirst()),
            "the order of the queue puts it first",
            id="another order",
        ),
    ],
)
def test_what_is_ahead_says_why(first: Job, second: Job, policies: Policies, want: str) -> None:
    (ahead,) = place([FULL, first, second], "y", policies=policies).ahead
    assert (ahead.job_id, ahead.reason) == ("x", want)
    assert (ahead.replicas, ahead.gpu_millis) == (2, 2000)


def test_a_user_who_has_less_comes_first_and_it_is_said() -> None:
    jobs = [FULL, waits("old", age=9), waits("second", age=8), waits("other", age=2, tenant="vision")]
    assert [each.reason for each in place(jobs, "second").ahead] == [
        "vision has less in the queue than default",
        "it was submitted earlier",
    ]


def test_a_gang_that_has_had_much_stands_behind_one_that_has_not() -> None:
    served = waits("served", age=100_000)
    at = Timestamp(NOW - 90_000)
    stopped = Timestamp(NOW - 10)
    history = (
        *served.history,
        PhaseEntry(phase=Phase.PROCESSING, at=at, reason="Started"),
        PhaseEntry(phase=Phase.RESUMED, at=stopped, reason="Preempted"),
    )
    served = replace(served, history=history, checkpoint_at=stopped)
    (ahead,) = place([FULL, served, waits("fresh")], "served").ahead
    assert (ahead.job_id, ahead.reason) == ("fresh", "it has had less machine time")


def test_whoever_room_is_made_for_comes_first() -> None:
    small = fill("small", 8, "n0", priority=10)
    jobs = [*small, waits("critical", priority=100), waits("rest", priority=10)]
    found = place(jobs, "rest", policies=replace(AT_ONCE, job_order=PriorityThenAge()))
    assert [(each.job_id, each.reason) for each in found.ahead] == [("critical", "room is being made for it")]


def test_only_the_first_few_are_named_and_the_rest_is_counted() -> None:
    jobs = [FULL, *(waits(f"j{n}", age=20 - n) for n in range(9))]
    found = place(jobs, "j8")
    assert [each.job_id for each in found.ahead] == ["j0", "j1", "j2", "j3", "j4"]
    assert found.words()[-1] == "3 more are ahead of it."


def test_whoever_is_in_no_line_has_no_place_and_is_ahead_of_nobody() -> None:
    jobs = [FULL, waits("lost", queue="nowhere", age=99), waits("later", retry_at=NOW + 60, age=99), waits("here")]
    line = line_of(jobs)
    assert line.place_of(JobId("lost")) is None
    assert line.place_of(JobId("later")) is None
    assert line.place_of(JobId("full")) is None
    here = line.place_of(JobId("here"))
    assert here is not None
    assert (here.place, here.waiting, here.ahead) == (1, 1, ())


@pytest.mark.parametrize("priority", [10, 50])
def test_a_small_gang_that_the_share_covers_is_said_to_be_ahead_for_that(priority: int) -> None:
    queues = [queue("a"), queue("b")]
    full = running(job("full", role(8), queue="b", preemptible=False), {"n0": 8})
    jobs = [full, waits("small", queue="a", priority=priority), job("large", role(6), queue="a", age=9)]
    (ahead,) = place(jobs, "large", queues).ahead
    assert (ahead.job_id, ahead.reason) == ("small", "what queue 'a' deserves is enough for it")
