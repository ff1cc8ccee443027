"""Queues, their shares and limits: the specification, one scenario a line or two."""

import pytest

from gangline.scheduling import Constraint, Policies
from tests.scheduling.builders import Scenario, fill, job, node, nodes, queue, role, running

RESOURCES = Constraint.RESOURCES
LIMIT = Constraint.QUEUE_LIMIT
SHARE = Constraint.QUEUE_SHARE
A_B = [queue("a"), queue("b")]
QUIET = Policies(preemption=False, reclaim=False, defragmentation=False)

QUEUES = [
    Scenario("an unknown queue", nodes(1), [job("j", queue="c")], A_B, waits={"j": Constraint.UNKNOWN_QUEUE}),
    Scenario("no queues configured: there is the default one", nodes(1), [job("j")], [], starts={"j": 1}),
    Scenario(
        "a queue with queues below it takes no jobs",
        nodes(1),
        [job("j", queue="a")],
        [queue("a"), queue("b", parent="a")],
        waits={"j": Constraint.NOT_A_LEAF},
    ),
    Scenario(
        "a queue for other tenants",
        nodes(1),
        [job("j", queue="a")],
        [queue("a", tenants=["somebody"])],
        waits={"j": Constraint.CLOSED_QUEUE},
    ),
    Scenario(
        "a queue for the tenant below one for others",
        nodes(1),
        [job("j", queue="b")],
        [queue("a", tenants=["somebody"]), queue("b", parent="a", tenants=["default"])],
        waits={"j": Constraint.CLOSED_QUEUE},
    ),
    Scenario(
        "a queue for the tenant among others",
        nodes(1),
        [job("j", queue="a")],
        [queue("a", tenants=["somebody", "default"])],
        starts={"j": 1},
    ),
    Scenario(
        "a parent that does not exist", nodes(1), [job("j", queue="b")], [queue("b", parent="x")], starts={"j": 1}
    ),
    Scenario(
        "parents in a circle",
        nodes(1),
        [job("j", queue="c")],
        [queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="a")],
        starts={"j": 1},
    ),
    Scenario("a limit", nodes(1), [job("j", role(3), queue="a")], [queue("a", limit={"gpus": 2})], waits={"j": LIMIT}),
    Scenario(
        "up to the limit", nodes(1), [job("j", role(2), queue="a")], [queue("a", limit={"gpus": 2})], starts={"j": 2}
    ),
    Scenario(
        "a limit counts what runs",
        nodes(1),
        [*fill("x", 2, "n0", queue="a"), job("j", queue="a")],
        [queue("a", limit={"gpus": 2})],
        waits={"j": LIMIT},
    ),
    Scenario(
        "a limit counts what starts in the same cycle",
        nodes(1),
        [job("i", queue="a", age=9), job("j", queue="a")],
        [queue("a", limit={"gpus": 1})],
        starts={"i": 1},
        waits={"j": LIMIT},
    ),
    Scenario(
        "a limit on processors",
        nodes(1),
        [job("j", role(3), queue="a")],
        [queue("a", limit={"cpus": 2})],
        waits={"j": LIMIT},
    ),
    Scenario(
        "a limit of the queue above",
        nodes(1),
        [job("j", role(3), queue="b")],
        [queue("a", limit={"gpus": 2}), queue("b", parent="a")],
        waits={"j": LIMIT},
    ),
    Scenario(
        "a gang at its queue's limit does not hold up others",
        nodes(1),
        [job("j", role(3), queue="a", age=9), job("k", queue="b")],
        [queue("a", limit={"gpus": 2}), queue("b")],
        starts={"k": 1},
        waits={"j": LIMIT},
    ),
    Scenario(
        "a limit per GPU type closes the nodes of that type",
        [node("n0", kind="h200"), node("n1")],
        [job("j", role(4), queue="a", kinds=["h200", "a100"])],
        [queue("a", limit={"extended": {"gpu_millis.h200": 2000}})],
        starts={"j": {"n1": 4}},
    ),
    Scenario(
        "a limit per GPU type that leaves nothing",
        [node("n0", kind="h200")],
        [job("j", role(4), queue="a")],
        [queue("a", limit={"extended": {"gpu_millis.h200": 2000}})],
        waits={"j": LIMIT},
    ),
    Scenario(
        "a limit per GPU type counts what runs",
        [node("n0", kind="h200")],
        [running(job("x", role(2), queue="a"), {"n0": 2}), job("j", role(1), queue="a")],
        [queue("a", limit={"extended": {"gpu_millis.h200": 2000}})],
        waits={"j": LIMIT},
    ),
    Scenario(
        "a gang at the limit of a GPU type does not hold up others",
        [node("n0", kind="h200")],
        [job("j", role(4), queue="a", age=9), job("k", role(8), queue="b")],
        [queue("a", limit={"extended": {"gpu_millis.h200": 2000}}), queue("b")],
        starts={"k": 8},
        waits={"j": LIMIT},
    ),
    Scenario(
        "a gang is not split over a type of which its queue has too little left",
        [node("n0", kind="h200"), node("n1", gpus=2)],
        [job("j", role(4), queue="a")],
        [queue("a", limit={"extended": {"gpu_millis.h200": 2000}})],
        waits={"j": LIMIT},
    ),
    Scenario(
        "a queue that may not borrow stops at its own share",
        nodes(1),
        [job("j", role(5), queue="a")],
        [queue("a", may_borrow=False), queue("b")],
        waits={"j": SHARE},
    ),
    Scenario(
        "a queue that may not borrow has its own share",
        nodes(1),
        [job("j", role(4), queue="a")],
        [queue("a", may_borrow=False), queue("b")],
        starts={"j": 4},
    ),
    Scenario(
        "a queue that may not borrow has its guarantee",
        nodes(1),
        [job("j", role(6), queue="a")],
        [queue("a", may_borrow=False, guarantee={"gpus": 6}), queue("b", weight=3)],
        starts={"j": 6},
    ),
    Scenario("borrowing what nobody else asks for", nodes(1), [job("j", role(8), queue="a")], A_B, starts={"j": 8}),
    Scenario(
        "the smaller share first",
        nodes(1),
        [*fill("x", 4, "n0", queue="a"), job("ja", role(3), queue="a", age=9), job("jb", role(3), queue="b")],
        A_B,
        QUIET,
        starts={"jb": 3},
        waits={"ja": RESOURCES},
    ),
    Scenario(
        "taking turns",
        nodes(1, gpus=4),
        [*(job(f"a{i}", queue="a", age=9) for i in range(4)), *(job(f"b{i}", queue="b") for i in range(4))],
        A_B,
        starts={"a0": 1, "a1": 1, "b0": 1, "b1": 1},
        waits={"a2": RESOURCES, "a3": RESOURCES, "b2": RESOURCES, "b3": RESOURCES},
    ),
    Scenario(
        "weights",
        nodes(1, gpus=4),
        [*(job(f"a{i}", queue="a") for i in range(4)), *(job(f"b{i}", queue="b") for i in range(4))],
        [queue("a", weight=3), queue("b")],
        starts={"a0": 1, "a1": 1, "a2": 1, "b0": 1},
        waits={"a3": RESOURCES, "b1": RESOURCES, "b2": RESOURCES, "b3": RESOURCES},
    ),
    Scenario(
        "the dominant share, not the GPU share",
        nodes(1, gpus=8, cpus=16),
        [
            running(job("x", role(1, gpus=0, cpus=12), queue="a"), {"n0": 1}),
            running(job("y", role(2), queue="b"), {"n0": 2}),
            job("ja", role(1, cpus=2), queue="a", age=9),
            job("jb", role(1, cpus=2), queue="b"),
        ],
        A_B,
        QUIET,
        starts={"jb": 1},
        waits={"ja": RESOURCES},
    ),
    Scenario(
        "a queue below its guarantee goes first",
        nodes(1, gpus=4),
        [*fill("x", 1, "n0", queue="b"), job("ja", role(3), queue="a", age=9), job("jb", role(3), queue="b")],
        [queue("a"), queue("b", guarantee={"gpus": 4})],
        QUIET,
        starts={"jb": 3},
        waits={"ja": RESOURCES},
    ),
    Scenario(
        "shares at every level",
        nodes(1, gpus=4),
        [
            *(job(f"a{i}", queue="a1") for i in range(3)),
            *(job(f"b{i}", queue="a2") for i in range(3)),
            *(job(f"c{i}", queue="c") for i in range(3)),
        ],
        [queue("a"), queue("a1", parent="a"), queue("a2", parent="a"), queue("c")],
        starts={"a0": 1, "b0": 1, "c0": 1, "c1": 1},
        waits={"a1": RESOURCES, "a2": RESOURCES, "b1": RESOURCES, "b2": RESOURCES, "c2": RESOURCES},
    ),
]


@pytest.mark.parametrize("scenario", QUEUES, ids=lambda scenario: scenario.id)
def test_queues_share_as_their_tree_says(scenario: Scenario) -> None:
    scenario.check()
