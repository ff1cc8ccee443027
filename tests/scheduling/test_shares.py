"""One definition of share: who is next, who gives something up and who grows all follow from it."""

from collections import Counter
from random import Random

import pytest

from gangline.model import JobId
from gangline.scheduling import Constraint
from tests.scheduling.builders import NOW, Scenario, cycle, fill, job, nodes, queue, role, running
from tests.scheduling.test_over_time import Course

MAKING_ROOM = Constraint.MAKING_ROOM
RESOURCES = Constraint.RESOURCES
OWNER = [queue("guest"), queue("owner", guarantee={"gpus": 7})]

RECOVERED = [
    Scenario(
        "a guarantee is recovered from a rigid gang larger than what its queue borrowed",
        nodes(1),
        [running(job("x", role(8), queue="guest", priority=0), {"n0": 8}), job("j", role(7), queue="owner")],
        OWNER,
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "one gang at a time: whoever borrows nothing any more keeps the rest",
        nodes(1),
        [
            running(job("x", role(4), queue="guest"), {"n0": 4}, since=900),
            running(job("y", role(4), queue="guest"), {"n0": 4}, since=4000),
            job("j", role(4), queue="owner"),
        ],
        [queue("guest"), queue("owner", guarantee={"gpus": 4})],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "small gangs that leave their queue its share go before a large one that does not",
        nodes(2),
        [
            running(job("x", role(8), queue="guest"), {"n0": 8}, since=100),
            *fill("y", 8, "n1", queue="guest"),
            job("j", role(4), queue="owner"),
        ],
        OWNER,
        waits={"j": MAKING_ROOM},
        evicts={"y0": "j", "y1": "j", "y2": "j", "y3": "j"},
    ),
    Scenario(
        "a guarantee gives way to another guarantee only where its own gang is larger than it",
        nodes(1),
        [running(job("x", role(8), queue="guest"), {"n0": 8}), job("j", role(5), queue="owner")],
        [queue("guest", guarantee={"gpus": 2}), queue("owner", guarantee={"gpus": 6})],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "a guarantee does not give way to a mere share",
        nodes(1),
        [running(job("x", role(8), queue="guest"), {"n0": 8}), job("j", role(1), queue="owner")],
        [queue("guest", guarantee={"gpus": 4}), queue("owner", weight=3)],
        waits={"j": RESOURCES},
    ),
]


@pytest.mark.parametrize("scenario", RECOVERED, ids=lambda scenario: scenario.id)
def test_a_queue_that_borrows_gives_back(scenario: Scenario) -> None:
    scenario.check()


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")], ids=["light first", "heavy first"])
def test_queues_get_their_guarantee_and_their_weight_whatever_they_are_called(names: tuple[str, str]) -> None:
    light, heavy = names
    queues = [queue(light, guarantee={"gpus": 2}), queue(heavy, guarantee={"gpus": 2}, weight=4)]
    jobs = [job(f"{name}{number}", queue=name) for name in names for number in range(10)]
    decision = cycle(nodes(1, gpus=11), jobs, queues)
    got = Counter(start.job_id[0] for start in decision.starts)
    assert got == {light: 3, heavy: 8}


def test_a_gang_beyond_the_share_of_its_queue_lets_those_within_theirs_go_first() -> None:
    jobs = [job("large", role(8), queue="a", age=900), *(job(f"b{i}", queue="b") for i in range(4))]
    decision = cycle(nodes(1), jobs, [queue("a"), queue("b")])
    assert {start.job_id for start in decision.starts} == {"b0", "b1", "b2", "b3"}


def test_nobody_starts_who_would_be_stopped_again_for_somebody_in_line() -> None:
    queues = [queue("owner", guarantee={"gpus": 6}), queue("guest")]
    held = [*fill("o", 7, "n0", queue="owner"), *fill("g", 2, "n0", queue="guest")]
    waiting = [
        *(job(f"own{i}", queue="owner", age=9) for i in range(3)),
        *(job(f"more{i}", queue="guest", age=99) for i in range(9)),
    ]
    decision = cycle(nodes(1, gpus=10), [*held, *waiting], queues)
    assert [start.job_id for start in decision.starts] == ["own0"], "8 and 2 is what they deserve"
    assert not decision.evictions


def test_nobody_is_stopped_for_a_job_that_waited_when_it_started() -> None:
    """400 jobs come faster than they can run. What starts is covered by the share of its queue, or nobody else is."""
    random = Random(2)
    queues = (queue("owner", guarantee={"gpus": 6}), queue("guest"))
    course = Course(nodes(1, gpus=10), [], queues)
    ends: dict[JobId, float] = {}
    left: dict[JobId, float] = {}
    passed: dict[JobId, set[JobId]] = {}
    in_vain = []
    while len(left) < 400 or course.jobs:
        for _ in range(random.randint(0, 3) if len(left) < 400 else 0):
            name = JobId(f"j{len(left)}")
            course.jobs[name] = job(name, queue=random.choice(queues).name, age=NOW - course.now)
            left[name] = random.choice([100.0, 500.0, 2000.0])
        for name in [each for each, at in ends.items() if at <= course.now]:
            course.end(name)
            del course.jobs[name], ends[name]
        began = course.now
        decision = course.step()
        for eviction in decision.evictions:
            in_vain += [eviction] if eviction.beneficiary in passed[eviction.job_id] else []
            left[eviction.job_id] = ends.pop(eviction.job_id) - began
        ends |= {start.job_id: began + left[start.job_id] for start in decision.starts}
        passed |= {start.job_id: set(decision.explanations) for start in decision.starts}
    assert in_vain == []
