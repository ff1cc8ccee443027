"""Who grows into what is left: one replica at a time to whoever has least, and beyond what was asked for at last."""

import pytest

from gangline.model import JobId
from gangline.scheduling import Constraint
from gangline.scheduling.surplus import SETTLING_SECONDS
from tests.scheduling.builders import NOW, Scenario, cycle, job, nodes, queue, role, running
from tests.scheduling.test_over_time import Course

MAKING_ROOM = Constraint.MAKING_ROOM
ELASTIC = role(8, minimum=1)

SHARED = [
    Scenario(
        "two equal gangs that start share what is left",
        nodes(1),
        [job("e", ELASTIC, age=9), job("f", ELASTIC)],
        starts={"e": 4, "f": 4},
    ),
    Scenario(
        "a gang that has less catches up with one that has more",
        nodes(1),
        [running(job("e", ELASTIC), {"n0": 3}), running(job("f", ELASTIC), {"n0": 1})],
        grows={"e": {"n0": 1}, "f": {"n0": 3}},
    ),
    Scenario(
        "when nothing is left, who has most gives to who has least",
        nodes(1),
        [running(job("e", ELASTIC), {"n0": 7}), running(job("f", ELASTIC), {"n0": 1})],
        shrinks={"e": ["worker-4", "worker-5", "worker-6"]},
    ),
    Scenario(
        "but not for a difference of one",
        nodes(1, gpus=7),
        [running(job("e", ELASTIC), {"n0": 4}), running(job("f", ELASTIC), {"n0": 3})],
    ),
    Scenario(
        "nor to one that is less important",
        nodes(1),
        [running(job("e", ELASTIC, priority=60), {"n0": 7}), running(job("f", ELASTIC), {"n0": 1})],
    ),
    Scenario(
        "nor where the other could not use it",
        [*nodes(1), *nodes(1, prefix="m", kind="h200", gpus=1)],
        [running(job("e", ELASTIC), {"n0": 8}), running(job("f", ELASTIC, kinds=["h200"]), {"m0": 1})],
    ),
    Scenario(
        "two queues share what is left, too",
        nodes(1),
        [job("e", ELASTIC, queue="a"), job("f", ELASTIC, queue="b")],
        [queue("a"), queue("b")],
        starts={"e": 4, "f": 4},
    ),
]

BEYOND = [
    Scenario(
        "a gang grows to its maximum when machines are free",
        nodes(1),
        [running(job("e", role(2, minimum=1, maximum=6)), {"n0": 2})],
        grows={"e": {"n0": 4}},
    ),
    Scenario(
        "but not before others have what they want",
        nodes(1),
        [running(job("e", role(2, minimum=1, maximum=8)), {"n0": 2}), running(job("f", ELASTIC), {"n0": 1})],
        grows={"f": {"n0": 5}},
    ),
    Scenario(
        "not past what its user has asked for since",
        nodes(1),
        [running(job("e", role(2, minimum=1, maximum=6), scale={"worker": 3}), {"n0": 2})],
        grows={"e": {"n0": 1}},
    ),
    Scenario(
        "what it has beyond its wish goes first, also to somebody less important of another queue",
        nodes(1),
        [
            running(job("e", role(2, minimum=2, maximum=8), queue="a", priority=90), {"n0": 7}),
            running(job("x", queue="b", priority=1), {"n0": 1}),
            job("j", role(2), queue="b", priority=10),
        ],
        [queue("a", guarantee={"gpus": 8}), queue("b")],
        waits={"j": MAKING_ROOM},
        shrinks={"e": ["worker-5", "worker-6"]},
    ),
    Scenario(
        "and to a gang that has less than it wants",
        nodes(1),
        [running(job("e", role(2, minimum=1, maximum=8)), {"n0": 6}), running(job("f", role(4, minimum=1)), {"n0": 2})],
        shrinks={"e": ["worker-4", "worker-5"]},
    ),
]


@pytest.mark.parametrize("scenario", [*SHARED, *BEYOND], ids=lambda scenario: scenario.id)
def test_surplus_goes_to_whoever_has_least(scenario: Scenario) -> None:
    scenario.check()


def test_equal_gangs_come_to_rest_with_equal_parts() -> None:
    course = Course(nodes(2), [job("e", role(16, minimum=1))])
    course.step()
    course.jobs[JobId("f")] = job("f", role(16, minimum=1))
    for _ in range(6):
        course.step()
    assert {name: len(each.replicas) for name, each in course.jobs.items()} == {"e": 8, "f": 8}
    decision = cycle(course.nodes, list(course.jobs.values()), now=course.now, memory=course.memory)
    assert not decision.shrinks
    assert not decision.grows


def test_a_gang_that_made_room_does_not_grow_back_at_once() -> None:
    """Where short jobs come one after the other it would change its size for each of them, and train for none."""
    gang = running(job("e", role(2, minimum=1, maximum=8)), {"n0": 8})
    first = cycle(nodes(1), [gang, job("short", role(4), priority=60)])
    assert [each.job_id for each in first.shrinks] == ["e"]
    left = running(job("e", role(2, minimum=1, maximum=8)), {"n0": 4})
    second = cycle(nodes(1), [left], memory=first.memory)
    assert not second.grows
    assert second.wake_at == NOW + SETTLING_SECONDS
    later = cycle(nodes(1), [left], memory=second.memory, now=second.wake_at)
    assert [each.job_id for each in later.grows] == ["e"]
