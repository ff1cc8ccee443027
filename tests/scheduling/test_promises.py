"""What the scheduler promises, it keeps: the place of the first in line, of those others make way for, and of these."""

from dataclasses import replace

import pytest

from gangline.lifecycle.events import GangEvicted
from gangline.model import JobId, Timestamp
from gangline.scheduling import Constraint
from tests.scheduling.builders import AT_ONCE, NOW, Scenario, cycle, fill, job, nodes, queue, role, running
from tests.scheduling.test_over_time import Course

MAKING_ROOM = Constraint.MAKING_ROOM
RESOURCES = Constraint.RESOURCES
A_B = [queue("a"), queue("b")]

RESERVED = [
    Scenario(
        "a critical gang takes the place of one of its own queue that a lesser one has reserved",
        nodes(1),
        [
            running(job("x", role(8), queue="b", priority=10), {"n0": 8}),
            job("first", role(8), queue="a", priority=10, age=99),
            job("critical", role(8), queue="b", priority=90),
        ],
        A_B,
        waits={"first": RESOURCES, "critical": MAKING_ROOM},
        evicts={"x": "critical"},
    ),
    Scenario(
        "one that is no more important than the first in line does not",
        nodes(1),
        [
            running(job("x", role(8), queue="b", priority=10), {"n0": 8}),
            job("first", role(8), queue="a", priority=90, age=99),
            job("critical", role(8), queue="b", priority=90),
        ],
        A_B,
        waits={"first": RESOURCES, "critical": RESOURCES},
    ),
    Scenario(
        "where a dearer victim leaves the first in line its place, that one goes",
        nodes(2),
        [
            running(job("early", role(8), queue="b", priority=10, expected_seconds=4000), {"n0": 8}, since=3600),
            running(job("late", role(8), queue="b", priority=20, expected_seconds=90_000), {"n1": 8}, since=3600),
            job("first", role(8), queue="a", priority=90, within="node", age=99),
            job("rest", role(8), queue="a", priority=90, within="node"),
            job("second", role(8), queue="b", priority=50, within="node"),
        ],
        [queue("a", weight=3), queue("b")],
        replace(AT_ONCE, reclaim=False),
        waits={"first": Constraint.TOPOLOGY, "rest": Constraint.TOPOLOGY, "second": MAKING_ROOM},
        evicts={"late": "second"},
    ),
    Scenario(
        "a more important gang starts in that place if its share is enough, and nobody gives anything up for it",
        nodes(1, gpus=5),
        [
            running(job("x", role(2, minimum=1), queue="a"), {"n0": 2}),
            job("first", role(2, gpus=2), queue="b", priority=10, age=99),
            job("huge", role(4, gpus=2), queue="a", priority=90),
            job("j", role(3), queue="a"),
        ],
        [queue("a", guarantee={"gpus": 2}), queue("b")],
        starts={"j": 3},
        waits={"first": RESOURCES, "huge": Constraint.TOO_LARGE},
    ),
]


@pytest.mark.parametrize("scenario", RESERVED, ids=lambda scenario: scenario.id)
def test_a_reservation_yields_only_to_somebody_more_important(scenario: Scenario) -> None:
    scenario.check()


def test_the_first_in_line_counts_on_those_who_start_in_the_same_cycle() -> None:
    jobs = [
        running(job("x", role(8), expected_seconds=6000), {"n0": 8}),
        job("short", role(8), priority=90, expected_seconds=600),
        job("first", role(8), within="node", age=9),
    ]
    decision = cycle(nodes(2), jobs)
    assert [start.job_id for start in decision.starts] == ["short"]
    assert decision.explanations[JobId("first")].predicted_start_at == NOW + 600


def test_the_first_in_line_has_a_place_even_if_it_waits_for_somebody_who_only_starts_now() -> None:
    jobs = [
        running(job("x", role(4), expected_seconds=4000), {"n0": 4}),
        job("early", role(8), priority=90, age=9),
        job("first", role(16), age=9),
        job("long", role(4)),
    ]
    decision = cycle(nodes(2), jobs)
    assert [start.job_id for start in decision.starts] == ["early"]
    assert decision.explanations[JobId("long")].constraint is Constraint.RESERVATION


def start_of_the_first(machines: int) -> float:
    """When a gang that needs a whole node starts; nobody has said how long those take that come with it."""
    jobs = [
        running(job("x", role(4), expected_seconds=4200), {"n0": 4}, since=3600),
        job("unknown", role(8), priority=90),
        job("first", role(8), within="node", age=9),
        *(job(f"long{number}", role(4)) for number in range(3)),
    ]
    course = Course(nodes(machines), jobs)
    left = {JobId("x"): 600.0, JobId("unknown"): 2400.0}
    ends = {JobId("x"): course.now + 600.0}
    for _ in range(60):
        for name in [each for each, at in ends.items() if at <= course.now]:
            course.end(name)
            del course.jobs[name], ends[name]
        began = course.now
        decision = course.step(50.0)
        ends |= {start.job_id: began + left.get(start.job_id, 5000.0) for start in decision.starts}
        if JobId("first") in ends:
            return began - NOW
    raise AssertionError("it never starts")


def test_the_time_that_was_promised_is_kept_whatever_else_seems_to_end_before() -> None:
    assert start_of_the_first(2) == 600.0


def test_more_nodes_let_nobody_start_later() -> None:
    starts = [start_of_the_first(count) for count in (2, 3, 4)]
    assert starts == sorted(starts, reverse=True)


MOVED = [
    Scenario(
        "the new place of a gang that is moved is kept for it",
        nodes(2, gpus=2),
        [running(job("x"), {"n0": 1}), running(job("y"), {"n1": 1}), job("j", role(gpus=2), age=9), job("other")],
        waits={"j": MAKING_ROOM, "other": Constraint.RESERVATION},
        evicts={"x": "j"},
    ),
    Scenario(
        "an elastic gang above its minimum can be moved",
        nodes(2, gpus=4),
        [
            running(job("e", role(3, minimum=2)), {"n0": 3}),
            running(job("y", role(2), preemptible=False), {"n1": 2}),
            job("j", role(gpus=4)),
        ],
        waits={"j": MAKING_ROOM},
        evicts={"e": "j"},
    ),
    Scenario(
        "a gang is moved to complete a rack that is required",
        nodes(4, racks=2, gpus=2),
        [
            running(job("x"), {"n0": 1}),
            running(job("y"), {"n2": 1}),
            job("j", role(2, gpus=2), within="rack"),
        ],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "nobody is moved to a GPU type of which its queue may have no more",
        [*nodes(1, gpus=2), *nodes(1, gpus=2, prefix="m", kind="h200")],
        [
            running(job("x", queue="a"), {"n0": 1}),
            running(job("y", queue="a", preemptible=False), {"m0": 1}),
            job("j", role(gpus=2), queue="b"),
        ],
        [queue("a", limit={"extended": {"gpu_millis.h200": 1000}}), queue("b")],
        waits={"j": RESOURCES},
    ),
]


@pytest.mark.parametrize("scenario", MOVED, ids=lambda scenario: scenario.id)
def test_a_gang_is_moved_if_it_finds_another_place(scenario: Scenario) -> None:
    scenario.check()


def test_a_gang_that_is_moved_finds_its_place_however_long_it_takes_to_stop() -> None:
    jobs = [running(job("x"), {"n0": 1}), running(job("y"), {"n1": 1}), job("j", role(gpus=2), age=9), job("other")]
    course = Course(nodes(2, gpus=2), jobs)
    first = course.decide()
    course.memory = first.memory
    (eviction,) = first.evictions
    course.tell(GangEvicted(job_id=eviction.job_id, at=Timestamp(course.now), reason=eviction.reason))
    course.now += 10.0
    assert not course.decide().starts, "it is still there"
    course.memory = course.decide().memory
    course.end(eviction.job_id)
    assert {start.job_id for start in course.step().starts} == {"j", eviction.job_id}


def test_whom_a_cycle_does_not_reach_comes_first_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangline.scheduling.preemption.making_room.PLANS_PER_CYCLE", 2)
    waiting = [job(f"j{number}", role(1, cpus=1 + number), queue="b", age=9 - number) for number in range(4)]
    course = Course(nodes(1), [*fill("x", 8, "n0", queue="a"), *waiting], tuple(A_B))
    first = course.step()
    assert {each.beneficiary for each in first.evictions} == {"j0", "j1"}
    assert first.memory.unreached == {"j2", "j3"}
    assert first.wake_at == NOW + 1
    assert "Who could make room for it has not been looked at yet" in first.explanations[JobId("j3")].words()[-1]
    second = course.step()
    assert {start.job_id for start in second.starts} == {"j0", "j1"}
    assert {each.beneficiary for each in second.evictions} == {"j2", "j3"}
    assert not second.memory.unreached
