"""Scenarios as a specification: moving gangs, elastic roles, reservation and backfill."""

from dataclasses import replace

import pytest

from gangline.model import Phase, ReplicaState
from gangline.scheduling import Constraint, Policies
from gangline.scheduling.plugins.orders import ShortestFirst
from tests.scheduling.builders import AT_ONCE, Scenario, job, node, nodes, queue, role, running

RESOURCES = Constraint.RESOURCES
MAKING_ROOM = Constraint.MAKING_ROOM
BEHIND = Constraint.RESERVATION


def fill(name: str, count: int, on: str, **more: object) -> list:
    """``count`` running jobs of one GPU each on one node."""
    return [running(job(f"{name}{i}", **more), {on: 1}) for i in range(count)]


DEFRAGMENTATION = [
    Scenario(
        "a small gang moves so that a large one fits",
        nodes(2, gpus=2),
        [running(job("x"), {"n0": 1}), running(job("y"), {"n1": 1}), job("j", role(1, gpus=2))],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "nobody moves who would find no place",
        nodes(2, gpus=2),
        [*fill("x", 2, "n0"), *fill("y", 1, "n1"), job("j", role(1, gpus=2))],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "nobody more important moves",
        nodes(2, gpus=2),
        [
            running(job("x", priority=60), {"n0": 1}),
            running(job("y", priority=60), {"n1": 1}),
            job("j", role(1, gpus=2)),
        ],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "moving can be switched off",
        nodes(2, gpus=2),
        [running(job("x"), {"n0": 1}), running(job("y"), {"n1": 1}), job("j", role(1, gpus=2))],
        policies=Policies(defragmentation=False),
        waits={"j": RESOURCES},
    ),
    Scenario(
        "a gang that may not be stopped does not move either",
        nodes(2, gpus=2),
        [
            running(job("x", preemptible=False), {"n0": 1}),
            running(job("y", preemptible=False), {"n1": 1}),
            job("j", role(1, gpus=2)),
        ],
        waits={"j": RESOURCES},
    ),
]

ELASTIC = [
    Scenario("starts with what it wants", nodes(1), [job("e", role(4, minimum=1))], starts={"e": 4}),
    Scenario("and with no more at first", nodes(1), [job("e", role(4, minimum=1, maximum=6))], starts={"e": 4}),
    Scenario("starts with its minimum", nodes(1, gpus=2), [job("e", role(4, minimum=2))], starts={"e": 2}),
    Scenario("starts with as many as fit", nodes(1, gpus=3), [job("e", role(4, minimum=2))], starts={"e": 3}),
    Scenario(
        "not below its minimum", nodes(1, gpus=2), [job("e", role(4, minimum=3))], waits={"e": Constraint.TOO_LARGE}
    ),
    Scenario(
        "others' minimum before one's surplus",
        nodes(1, gpus=4),
        [job("e", role(4, minimum=1), age=9), job("j", role(2))],
        starts={"e": 2, "j": 2},
    ),
    Scenario(
        "a running gang grows when there is room",
        nodes(1, gpus=4),
        [running(job("e", role(4, minimum=1)), {"n0": 2})],
        grows={"e": ["worker-2", "worker-3"]},
    ),
    Scenario(
        "a gang grows beside itself first",
        nodes(2),
        [running(job("e", role(4, minimum=1)), {"n1": 2})],
        grows={"e": {"n1": 2}},
    ),
    Scenario(
        "a gang does not grow past what it can use",
        nodes(1),
        [running(job("e", role(2, minimum=1, maximum=4)), {"n0": 4})],
    ),
    Scenario(
        "a gang grows to what its user asks",
        nodes(1),
        [running(job("e", role(2, minimum=1, maximum=8), scale={"worker": 5}), {"n0": 2})],
        grows={"e": {"n0": 3}},
    ),
    Scenario(
        "a gang shrinks to what its user asks, highest first",
        nodes(1),
        [running(job("e", role(4, minimum=1), scale={"worker": 2}), {"n0": 4})],
        shrinks={"e": ["worker-3", "worker-2"]},
    ),
    Scenario(
        "what a user asks is bounded by minimum and maximum",
        nodes(1),
        [running(job("e", role(4, minimum=3), scale={"worker": 1}), {"n0": 4})],
        shrinks={"e": ["worker-3"]},
    ),
    Scenario(
        "a lost replica is replaced",
        nodes(1),
        [running(job("e", role(3, minimum=1)), {"n0": 3}, states={1: ReplicaState.LOST})],
        grows={"e": ["worker-1"]},
    ),
    Scenario(
        "a failed replica is not",
        nodes(1),
        [running(job("e", role(3, minimum=1)), {"n0": 3}, states={1: ReplicaState.FAILED})],
    ),
    Scenario(
        "a rigid gang never grows",
        nodes(1),
        [running(job("e", role(3)), {"n0": 3}, states={1: ReplicaState.LOST})],
    ),
    Scenario(
        "a gang that stores its results does not grow",
        nodes(1),
        [running(job("e", role(4, minimum=1)), {"n0": 2}, phase=Phase.STORING)],
    ),
    Scenario(
        "growth stays within the rack",
        nodes(4, racks=2, gpus=2),
        [running(job("e", role(6, minimum=1), within="rack"), {"n0": 1})],
        grows={"e": {"n0": 1, "n1": 2}},
    ),
    Scenario(
        "growth stops at the queue's limit",
        nodes(1),
        [running(job("e", role(6, minimum=1), queue="a"), {"n0": 1})],
        [queue("a", limit={"gpus": 3})],
        grows={"e": {"n0": 2}},
    ),
    Scenario(
        "surplus is given up before anybody is stopped",
        nodes(1, gpus=4),
        [
            running(job("e", role(3, minimum=1)), {"n0": 3}),
            running(job("x", priority=10), {"n0": 1}),
            job("j", role(2)),
        ],
        waits={"j": MAKING_ROOM},
        shrinks={"e": ["worker-1", "worker-2"]},
    ),
    Scenario(
        "surplus of a more important gang stays",
        nodes(1, gpus=3),
        [running(job("e", role(3, minimum=1), priority=60), {"n0": 3}), job("j", role(2))],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "surplus is given up even by a gang that has only just started",
        nodes(1, gpus=3),
        [running(job("e", role(3, minimum=1)), {"n0": 3}, since=1), job("j", role(2))],
        waits={"j": MAKING_ROOM},
        shrinks={"e": ["worker-1", "worker-2"]},
    ),
    Scenario(
        "a gang that would fall under its minimum is stopped whole",
        nodes(1, gpus=3),
        [running(job("e", role(3, minimum=2), priority=10), {"n0": 3}), job("j", role(2))],
        waits={"j": MAKING_ROOM},
        evicts={"e": "j"},
    ),
    Scenario(
        "a gang with a role it can do without",
        nodes(1, gpus=1),
        [job("e", role(1), role(2, name="evaluator", minimum=0))],
        starts={"e": 1},
    ),
    Scenario(
        "surplus does not take the place of the first in line",
        nodes(1, gpus=4),
        [
            running(job("x", role(2), expected_seconds=4000), {"n0": 2}),
            running(job("e", role(3, minimum=1), priority=60), {"n0": 1}),
            job("j", role(3)),
        ],
        waits={"j": RESOURCES},
    ),
]

BACKFILL = [
    Scenario(
        "a short job passes when it ends in time",
        nodes(1),
        [
            running(job("x", role(4), expected_seconds=7200), {"n0": 4}),
            job("first", role(8), age=9),
            job("short", role(4), expected_seconds=600),
        ],
        starts={"short": 4},
        waits={"first": RESOURCES},
    ),
    Scenario(
        "a long job does not pass",
        nodes(1),
        [
            running(job("x", role(4), expected_seconds=7200), {"n0": 4}),
            job("first", role(8), age=9),
            job("long", role(4), expected_seconds=9000),
        ],
        waits={"first": RESOURCES, "long": BEHIND},
    ),
    Scenario(
        "a job of unknown length does not pass",
        nodes(1),
        [
            running(job("x", role(4), expected_seconds=7200), {"n0": 4}),
            job("first", role(8), age=9),
            job("unknown", role(4)),
        ],
        waits={"first": RESOURCES, "unknown": BEHIND},
    ),
    Scenario(
        "a deadline is a promise, too",
        nodes(1),
        [
            running(job("x", role(4), expected_seconds=7200), {"n0": 4}),
            job("first", role(8), age=9),
            job("short", role(4), deadline_seconds=600),
        ],
        starts={"short": 4},
        waits={"first": RESOURCES},
    ),
    Scenario(
        "a long job passes beside the reserved place",
        nodes(2),
        [
            running(job("x", role(4), expected_seconds=7200), {"n0": 4}),
            running(job("y", role(2)), {"n1": 2}),
            job("first", role(8), within="node", age=9),
            job("long", role(4)),
        ],
        policies=replace(AT_ONCE, defragmentation=False),
        starts={"long": {"n1": 4}},
        waits={"first": Constraint.TOPOLOGY},
    ),
    Scenario(
        "what can never start holds nobody up",
        nodes(1),
        [job("huge", role(9), age=9), job("j", role(8))],
        starts={"j": 8},
        waits={"huge": Constraint.TOO_LARGE},
    ),
    Scenario(
        "without reservations everybody passes",
        nodes(1),
        [running(job("x", role(4)), {"n0": 4}), job("first", role(8), age=9), job("j", role(4))],
        policies=Policies(reservation=False),
        starts={"j": 4},
        waits={"first": RESOURCES},
    ),
    Scenario(
        "when patience is over nobody passes",
        nodes(2),
        [
            running(job("x", role(4), expected_seconds=7200), {"n0": 4}),
            job("first", role(16), age=30_000),
            job("short", role(4), expected_seconds=60),
        ],
        waits={"first": RESOURCES, "short": BEHIND},
    ),
    Scenario(
        "except on nodes that are not part of its place",
        nodes(2),
        [
            running(job("x", role(4), expected_seconds=7200), {"n0": 4}),
            running(job("y", role(4), expected_seconds=9000), {"n1": 4}),
            job("first", role(8), within="node", age=30_000),
            job("j", role(4)),
        ],
        policies=replace(AT_ONCE, defragmentation=False),
        starts={"j": {"n1": 4}},
        waits={"first": Constraint.TOPOLOGY},
    ),
    Scenario(
        "nor there if gangs start strictly in order",
        nodes(2),
        [
            running(job("x", role(4), expected_seconds=7200), {"n0": 4}),
            running(job("y", role(4), expected_seconds=9000), {"n1": 4}),
            job("first", role(8), within="node", age=9),
            job("j", role(4)),
        ],
        policies=Policies(defragmentation=False, in_order=True),
        waits={"first": Constraint.TOPOLOGY, "j": BEHIND},
    ),
    Scenario(
        "within the first two hours everybody passes",
        nodes(1),
        [running(job("x", role(4)), {"n0": 4}), job("first", role(8), age=7199), job("j", role(4))],
        policies=Policies(),
        starts={"j": 4},
        waits={"first": RESOURCES},
    ),
    Scenario(
        "after that nobody does, even if another has become the first in line",
        nodes(1),
        [
            running(job("x", role(4), preemptible=False), {"n0": 4}),
            job("first", role(7), age=9, priority=60),
            job("old", role(8), age=7200),
            job("j", role(4)),
        ],
        policies=Policies(),
        waits={"first": RESOURCES, "old": RESOURCES, "j": BEHIND},
    ),
    Scenario(
        "except where the first in line cannot go anyway",
        [node("n0"), node("n1", kind="h200")],
        [
            running(job("x", role(4), expected_seconds=7200), {"n0": 4}),
            job("first", role(8), kinds=["a100"], age=30_000),
            job("j", role(4), kinds=["h200"]),
        ],
        starts={"j": {"n1": 4}},
        waits={"first": RESOURCES},
    ),
    Scenario(
        "the place of a gang for which others are stopped is kept",
        nodes(1),
        [
            running(job("x", role(4), priority=10), {"n0": 4}),
            job("first", role(8), age=9),
            job("j", role(4), priority=20),
        ],
        waits={"first": MAKING_ROOM, "j": BEHIND},
        evicts={"x": "first"},
    ),
    Scenario(
        "the shortest first, if so wished",
        nodes(1),
        [
            job("long", role(8), age=9, expected_seconds=900),
            job("short", role(8), expected_seconds=60),
            job("unknown", role(8), age=99),
        ],
        policies=Policies(job_order=ShortestFirst()),
        starts={"short": 8},
        waits={"long": RESOURCES, "unknown": RESOURCES},
    ),
]


@pytest.mark.parametrize(
    "scenario",
    [*DEFRAGMENTATION, *ELASTIC, *BACKFILL],
    ids=lambda scenario: scenario.id,
)
def test_gangs_grow_move_and_pass_each_other_by_the_rules(scenario: Scenario) -> None:
    scenario.check()
