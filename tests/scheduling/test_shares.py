"""One definition of share: who is next, who gives something up and who grows all follow from it."""

from collections import Counter
from random import Random

import pytest

from gangline.model import JobId
from gangline.scheduling import Constraint, Policies
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
        "though a smaller gang, with which its queue keeps its share, is not enough",
        nodes(1, gpus=6),
        [
            running(job("kept", role(1), queue="owner", preemptible=False), {"n0": 1}),
            running(job("small", role(1), queue="guest"), {"n0": 1}),
            running(job("large", role(4), queue="guest", priority=10), {"n0": 4}),
            job("j", role(1, gpus=2), queue="owner"),
        ],
        [queue("guest", weight=4), queue("owner", guarantee={"gpus": 3})],
        waits={"j": MAKING_ROOM},
        evicts={"large": "j"},
    ),
    Scenario(
        "what is idle goes to the queue of the highest priority first, whatever the weights",
        nodes(1),
        [*(job(f"a{i}", queue="a", age=99) for i in range(8)), *(job(f"b{i}", queue="b") for i in range(6))],
        [queue("a", weight=9, guarantee={"gpus": 1}), queue("b", priority=1)],
        starts={"a0": 1, "a1": 1} | {f"b{i}": 1 for i in range(6)},
        waits={f"a{i}": RESOURCES for i in range(2, 8)},
    ),
    Scenario(
        "and is taken back for it, but no guarantee is",
        nodes(1, gpus=2),
        [
            *fill("x", 2, "n0", queue="a"),
            job("b0", queue="b", age=9),
            job("b1", queue="b"),
        ],
        [queue("a", guarantee={"gpus": 1}), queue("b", priority=1)],
        waits={"b0": MAKING_ROOM, "b1": RESOURCES},
        evicts={"x0": "b0"},
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
        "a share of exactly two GPUs covers a gang of two, whatever the division leaves behind the point",
        nodes(1, gpus=5),
        [*fill("x", 1, "n0", queue="a"), *fill("y", 4, "n0", queue="c"), job("j", role(2), queue="b")],
        [queue("a"), queue("b"), queue("c")],
        waits={"j": MAKING_ROOM},
        evicts={"y0": "j", "y1": "j"},
    ),
    Scenario(
        "a guarantee does not give way to a mere share",
        nodes(1),
        [running(job("x", role(8), queue="guest"), {"n0": 8}), job("j", role(1), queue="owner")],
        [queue("guest", guarantee={"gpus": 4}), queue("owner", weight=3)],
        waits={"j": RESOURCES},
    ),
]

IN_TURN = [
    Scenario(
        "what a stopped gang leaves beyond its beneficiary goes to whoever was passed over, not to the next in line",
        nodes(1, gpus=4),
        [
            running(job("x", role(4), queue="a"), {"n0": 4}),
            job("first", queue="b"),
            job("urgent", role(3), queue="a", priority=90),
            job("next", queue="a"),
        ],
        [queue("a", guarantee={"gpus": 2}), queue("b")],
        waits={"first": MAKING_ROOM, "urgent": MAKING_ROOM, "next": RESOURCES},
        evicts={"x": "urgent"},
    ),
    Scenario(
        "also when a place in the future was reserved for it",
        nodes(1, gpus=4),
        [
            running(job("x", role(4), queue="a", expected_seconds=9000.0), {"n0": 4}),
            job("first", queue="b", age=9000.0),
            job("urgent", role(3), queue="a", priority=90),
            job("next", queue="a"),
        ],
        [queue("a", guarantee={"gpus": 2}), queue("b")],
        waits={"first": MAKING_ROOM, "urgent": MAKING_ROOM, "next": RESOURCES},
        evicts={"x": "urgent"},
    ),
    Scenario(
        "a gang that its share covers takes from who has too much, not from its own queue, which would take it back",
        nodes(1, gpus=3),
        [
            *fill("fixed", 1, "n0", queue="guest", priority=90, preemptible=False),
            *fill("x", 1, "n0", queue="guest", priority=90),
            *fill("own", 1, "n0", queue="owner"),
            job("j", queue="owner", priority=90),
        ],
        [queue("guest"), queue("owner", guarantee={"gpus": 2})],
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j"},
    ),
    Scenario(
        "and from its own queue what others do not have too much of",
        nodes(1, gpus=3),
        [
            *fill("fixed", 2, "n0", queue="guest", preemptible=False),
            *fill("own", 1, "n0", queue="owner"),
            job("j", queue="owner", priority=90),
        ],
        [queue("guest"), queue("owner", guarantee={"gpus": 2})],
        waits={"j": MAKING_ROOM},
        evicts={"own0": "j"},
    ),
    Scenario(
        "a gang that its share covers once others have made way comes before gangs beyond theirs",
        nodes(1, gpus=2),
        [
            running(job("x", role(2), queue="b", priority=10), {"n0": 2}),
            job("urgent", queue="b", priority=90),
            job("guest", queue="c", age=99),
            job("j", queue="a"),
        ],
        [
            queue("p", guarantee={"gpus": 2}),
            queue("a", parent="p", guarantee={"gpus": 1}),
            queue("b", parent="p", guarantee={"gpus": 1}),
            queue("c", weight=4),
        ],
        waits={"urgent": MAKING_ROOM, "j": MAKING_ROOM, "guest": RESOURCES},
        evicts={"x": "urgent"},
    ),
    Scenario(
        "a lesser gang within the share does not take what a more important one of its queue gets from what is idle",
        nodes(1, gpus=4),
        [
            running(job("x", role(4), queue="a", priority=10), {"n0": 4}),
            job("small", queue="b"),
            job("large", role(3), queue="b", priority=90),
            job("urgent", queue="a"),
        ],
        [queue("a", guarantee={"gpus": 1}), queue("b")],
        waits={"urgent": MAKING_ROOM, "large": MAKING_ROOM, "small": RESOURCES},
        evicts={"x": "urgent"},
    ),
    Scenario(
        "but gets its place if the more important one does not",
        nodes(1, gpus=4),
        [
            running(job("x", role(3), queue="a"), {"n0": 3}),
            job("small", queue="b"),
            job("large", role(3), queue="b", priority=90),
        ],
        [queue("a", guarantee={"gpus": 3}), queue("b")],
        starts={"small": {"n0": 1}},
        waits={"large": RESOURCES},
    ),
    Scenario(
        "a gang that makes way within its queue's share is not moved as well, as if it left twice",
        [*nodes(1, gpus=4), *nodes(1, gpus=1, prefix="m")],
        [
            *fill("x", 1, "n0", queue="a", priority=10),
            job("three", role(3), queue="b", priority=90),
            job("four", role(4), queue="b"),
            job("j", role(gpus=2), queue="a", priority=90),
        ],
        [queue("a", weight=2), queue("b", weight=2, guarantee={"gpus": 1}), queue("c", weight=2)],
        Policies(reserve_after_seconds=3600.0, defragmentation=True),
        starts={"three": {"n0": 3}},
        waits={"four": RESOURCES, "j": RESOURCES},
    ),
    Scenario(
        "a more important gang may have the place of the first in line out of what its queue gives up and what is free",
        [*nodes(1, gpus=3), *nodes(1, gpus=2, prefix="m")],
        [
            running(job("c0", queue="c"), {"n0": 1}),
            running(job("b0", queue="b"), {"n0": 1}),
            running(job("b1", role(2), queue="b"), {"m0": 2}, since=7200),
            job("first", role(2, gpus=2), queue="c", age=99.0, priority=10),
            job("urgent", role(2, gpus=2), queue="b", priority=90),
        ],
        [queue("b"), queue("c", weight=4, guarantee={"gpus": 1})],
        waits={"first": RESOURCES, "urgent": MAKING_ROOM},
        evicts={"b0": "urgent", "b1": "urgent"},
    ),
]


TAKEN_BACK = [
    Scenario(
        "a gang beyond its share has nobody stopped for a place that somebody within its share would take back",
        [*nodes(1, gpus=4), *nodes(1, gpus=1, prefix="m")],
        [
            running(job("x", role(3), queue="c"), {"n0": 3}),
            running(job("guest", queue="a"), {"n0": 1}),
            job("first", role(gpus=2), queue="b", age=99.0),
            job("urgent", role(4), queue="c", priority=90),
        ],
        [queue("a"), queue("b", guarantee={"gpus": 3}), queue("c", guarantee={"gpus": 3})],
        waits={"first": RESOURCES, "urgent": RESOURCES},
    ),
    Scenario(
        "but does where the place is of no use to that one",
        [*nodes(4, gpus=1), *nodes(1, gpus=2, prefix="m")],
        [
            *(running(job(f"x{number}", queue="c"), {f"n{number}": 1}) for number in range(3)),
            running(job("guest", role(gpus=2), queue="a", preemptible=False), {"m0": 1}),
            job("first", role(gpus=2), queue="b", age=99.0),
            job("urgent", role(4), queue="c", priority=90),
        ],
        [queue("a"), queue("b", guarantee={"gpus": 3}), queue("c", guarantee={"gpus": 3})],
        waits={"first": RESOURCES, "urgent": MAKING_ROOM},
        evicts={"x0": "urgent", "x1": "urgent", "x2": "urgent"},
    ),
]


@pytest.mark.parametrize("scenario", TAKEN_BACK, ids=lambda scenario: scenario.id)
def test_nobody_is_stopped_for_a_gang_that_would_be_stopped_again(scenario: Scenario) -> None:
    scenario.check()


@pytest.mark.parametrize("scenario", IN_TURN, ids=lambda scenario: scenario.id)
def test_nobody_gets_what_is_taken_back_in_the_next_cycle(scenario: Scenario) -> None:
    scenario.check()


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


EXCHANGED = [
    Scenario(
        "a small gang does not slip past a more important one of its queue that takes the place of another",
        nodes(1, gpus=5),
        [
            running(job("x", queue="a"), {"n0": 1}),
            running(job("minor", queue="b", priority=10), {"n0": 1}),
            job("small", queue="b", priority=10, age=9),
            job("large", role(4), queue="b"),
        ],
        [queue("a", guarantee={"gpus": 1}), queue("b", guarantee={"gpus": 2})],
        waits={"large": Constraint.MAKING_ROOM, "small": Constraint.RESERVATION},
        evicts={"minor": "large"},
    ),
    Scenario(
        "what other queues have too much comes on top of what its own gives up for it",
        nodes(1, gpus=5),
        [
            running(job("x", queue="a"), {"n0": 1}),
            running(job("guest", role(3), queue="b"), {"n0": 3}),
            running(job("top", queue="a", priority=90), {"n0": 1}),
            job("small", queue="b"),
            job("large", role(3), queue="a", priority=90),
        ],
        [queue("a", guarantee={"gpus": 3}), queue("b")],
        waits={"large": Constraint.MAKING_ROOM, "small": Constraint.MAKING_ROOM},
        evicts={"x": "large", "guest": "large"},
    ),
    Scenario(
        "it has at once what a lesser gang of its queue takes back, if it would stop that one for it next",
        nodes(1, gpus=2),
        [
            running(job("guest", role(2), queue="b"), {"n0": 2}),
            job("lesser", queue="a", priority=10),
            job("large", role(2), queue="a"),
        ],
        [queue("a", guarantee={"gpus": 1}), queue("b")],
        waits={"large": Constraint.MAKING_ROOM, "lesser": Constraint.RESOURCES},
        evicts={"guest": "large"},
    ),
    Scenario(
        "but not if somebody else's share covers what it would need besides",
        nodes(1, gpus=2),
        [
            running(job("guest", role(2), queue="b"), {"n0": 2}),
            job("lesser", queue="a", priority=10),
            job("large", role(2), queue="a"),
            job("other", queue="c"),
        ],
        [queue("a", guarantee={"gpus": 1}), queue("b"), queue("c", guarantee={"gpus": 1})],
        waits={
            "lesser": Constraint.MAKING_ROOM,
            "large": Constraint.RESOURCES,
            "other": Constraint.MAKING_ROOM,
        },
        evicts={"guest": "lesser"},
    ),
    Scenario(
        "nobody is stopped for it where there is room beyond its share that nobody else can use",
        nodes(1, gpus=6),
        [
            running(job("minor", queue="b", priority=10), {"n0": 1}),
            job("huge", role(7), queue="a"),
            job("large", role(3), queue="b"),
        ],
        [queue("a"), queue("b")],
        starts={"large": 3},
        waits={"huge": Constraint.TOO_LARGE},
    ),
]


@pytest.mark.parametrize("scenario", EXCHANGED, ids=lambda scenario: scenario.id)
def test_an_important_gang_takes_the_place_of_lesser_ones_within_the_share(scenario: Scenario) -> None:
    scenario.check()
