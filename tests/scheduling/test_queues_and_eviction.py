"""Shares, limits, who makes room, who may pass: the specification, one scenario a line or two."""

import pytest

from gangline.model import Phase
from gangline.scheduling import Constraint, Policies
from gangline.scheduling.plugins.orders import LeastAttained
from tests.scheduling.builders import Scenario, job, node, nodes, queue, role, running

RESOURCES = Constraint.RESOURCES
MAKING_ROOM = Constraint.MAKING_ROOM
LIMIT = Constraint.QUEUE_LIMIT
SHARE = Constraint.QUEUE_SHARE
A_B = [queue("a"), queue("b")]
QUIET = Policies(preemption=False, reclaim=False, defragmentation=False)


def fill(name: str, count: int, on: str, **more: object) -> list:
    """``count`` running jobs of one GPU each on one node."""
    return [running(job(f"{name}{i}", **more), {on: 1}) for i in range(count)]  # type: ignore[arg-type]


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

PREEMPTION = [
    Scenario(
        "a more important gang stops a less important one of its queue",
        nodes(1),
        [running(job("x", role(8), priority=10), {"n0": 8}), job("j", role(8))],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "equal importance stops nobody",
        nodes(1),
        [running(job("x", role(8)), {"n0": 8}), job("j", role(8))],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "a gang that may not be stopped",
        nodes(1),
        [running(job("x", role(8), priority=10, preemptible=False), {"n0": 8}), job("j", role(8))],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "a gang that has only just started",
        nodes(1),
        [running(job("x", role(8), priority=10), {"n0": 8}, since=30), job("j", role(8))],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "nobody is stopped when that would not be enough",
        nodes(2),
        [running(job("x", role(8), priority=10), {"n0": 8}), running(job("y", role(8)), {"n1": 8}), job("j", role(16))],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "nobody is stopped on nodes that do not help",
        [node("n0", kind="h200"), node("n1")],
        [
            running(job("x", role(8), priority=10), {"n0": 8}),
            running(job("y", role(8)), {"n1": 8}),
            job("j", role(8), kinds=["a100"]),
        ],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "no more than needed",
        nodes(1),
        [*fill("x", 8, "n0", priority=10), job("j", role(2))],
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j", "x1": "j"},
    ),
    Scenario(
        "what is free already is used first",
        nodes(1),
        [*fill("x", 7, "n0", priority=10), job("j", role(2))],
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j"},
    ),
    Scenario(
        "the least important first",
        nodes(1, gpus=2),
        [running(job("x", priority=20), {"n0": 1}), running(job("y", priority=10), {"n0": 1}), job("j")],
        waits={"j": MAKING_ROOM},
        evicts={"y": "j"},
    ),
    Scenario(
        "the least work lost first",
        nodes(1, gpus=2),
        [
            running(job("x", priority=10), {"n0": 1}, since=500),
            running(job("y", priority=10), {"n0": 1}, since=900),
            job("j"),
        ],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "a gang that has just saved its work loses the least, however long it has run",
        nodes(1, gpus=2),
        [
            running(job("x", priority=10), {"n0": 1}, since=500),
            running(job("y", priority=10), {"n0": 1}, since=900, checkpoint=30),
            job("j"),
        ],
        waits={"j": MAKING_ROOM},
        evicts={"y": "j"},
    ),
    Scenario(
        "a checkpoint of an earlier attempt saves nothing of this one",
        nodes(1, gpus=2),
        [
            running(job("x", priority=10), {"n0": 1}, since=500),
            running(job("y", priority=10), {"n0": 1}, since=900, checkpoint=5000),
            job("j"),
        ],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "one large cheap gang rather than a node of dear ones",
        nodes(2),
        [
            running(job("x", role(8), priority=10), {"n0": 8}, since=100),
            *fill("y", 8, "n1", priority=10),
            job("j", role(8, gpus=1), within="node"),
        ],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "a gang is stopped whole, wherever its replicas are",
        nodes(2),
        [running(job("x", role(16), priority=10), {"n0": 8, "n1": 8}), job("j", role(1))],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "a node is emptied rather than a little everywhere",
        nodes(2, gpus=2),
        [*fill("x", 2, "n0", priority=10), *fill("y", 2, "n1", priority=10), job("j", role(1, gpus=2))],
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j", "x1": "j"},
    ),
    Scenario(
        "two waiting gangs never stop the same victim",
        nodes(1, gpus=2),
        [*fill("x", 2, "n0", priority=10), job("j", age=9), job("k")],
        waits={"j": MAKING_ROOM, "k": MAKING_ROOM},
        evicts={"x0": "j", "x1": "k"},
    ),
    Scenario(
        "nobody more is stopped while others are on their way out",
        nodes(1, gpus=2),
        [running(job("x", priority=10), {"n0": 1}, phase=Phase.HALTING), *fill("y", 1, "n0", priority=10), job("j")],
        waits={"j": MAKING_ROOM},
    ),
    Scenario(
        "preemption can be switched off",
        nodes(1),
        [running(job("x", role(8), priority=10), {"n0": 8}), job("j", role(8))],
        policies=QUIET,
        waits={"j": RESOURCES},
    ),
    Scenario(
        "inside a queue that is at its limit",
        nodes(1),
        [*fill("x", 2, "n0", queue="a", priority=10), job("j", queue="a")],
        [queue("a", limit={"gpus": 2})],
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j"},
    ),
    Scenario(
        "a queue at its limit whose gangs are as important",
        nodes(1),
        [*fill("x", 2, "n0", queue="a"), job("j", queue="a")],
        [queue("a", limit={"gpus": 2})],
        waits={"j": LIMIT},
    ),
    Scenario(
        "a queue at its limit waits for what is on its way out",
        nodes(1),
        [running(job("x", queue="a"), {"n0": 1}, phase=Phase.HALTING), job("j", queue="a")],
        [queue("a", limit={"gpus": 1})],
        waits={"j": MAKING_ROOM},
    ),
    Scenario(
        "room for a gang of two shapes",
        nodes(1, gpus=4, cpus=8),
        [
            running(job("x", role(4), priority=10), {"n0": 4}),
            job("j", role(1, name="ps", gpus=0, cpus=5), role(1, gpus=2)),
        ],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "parts of a GPU are freed, too",
        nodes(1, gpus=1),
        [running(job("x", role(2, gpus=0.5), priority=10), {"n0": 2}), job("j", role(1, gpus=0.6))],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "who has had little may stop who has had much",
        nodes(1),
        [running(job("x", role(8)), {"n0": 8}, since=9000), job("j", role(8))],
        policies=Policies(job_order=LeastAttained()),
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
]

RECLAIM = [
    Scenario(
        "a queue takes back what it deserves",
        nodes(1),
        [*fill("x", 8, "n0", queue="a"), job("j", role(4), queue="b")],
        A_B,
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j", "x1": "j", "x2": "j", "x3": "j"},
    ),
    Scenario(
        "but not more than it deserves",
        nodes(1),
        [*fill("x", 8, "n0", queue="a"), job("j", role(5), queue="b"), job("k", role(1), queue="a")],
        A_B,
        waits={"j": RESOURCES, "k": RESOURCES},
    ),
    Scenario(
        "a queue at its share gives nothing",
        nodes(1),
        [*fill("x", 4, "n0", queue="a"), *fill("y", 4, "n0", queue="b"), job("j", queue="b"), job("k", queue="a")],
        A_B,
        waits={"j": RESOURCES, "k": RESOURCES},
    ),
    Scenario(
        "a gang that is too large to go without hurting its queue stays",
        nodes(1),
        [running(job("x", role(8), queue="a"), {"n0": 8}), job("j", role(4), queue="b")],
        A_B,
        waits={"j": RESOURCES},
    ),
    Scenario(
        "a guarantee is never reclaimed",
        nodes(1),
        [*fill("x", 8, "n0", queue="a"), job("j", role(4), queue="b")],
        [queue("a", guarantee={"gpus": 8}), queue("b")],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "down to the guarantee",
        nodes(1),
        [*fill("x", 8, "n0", queue="a"), job("j", role(2), queue="b")],
        [queue("a", guarantee={"gpus": 6}), queue("b", guarantee={"gpus": 2})],
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j", "x1": "j"},
    ),
    Scenario(
        "importance does not protect what is borrowed",
        nodes(1),
        [*fill("x", 8, "n0", queue="a", priority=99), job("j", role(1), queue="b", priority=1)],
        A_B,
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j"},
    ),
    Scenario(
        "reclaim can be switched off",
        nodes(1),
        [*fill("x", 8, "n0", queue="a"), job("j", role(4), queue="b")],
        A_B,
        Policies(reclaim=False),
        waits={"j": RESOURCES},
    ),
    Scenario(
        "between branches of the tree",
        nodes(1),
        [*fill("x", 8, "n0", queue="a1"), job("j", role(4), queue="b1")],
        [queue("a"), queue("a1", parent="a"), queue("b"), queue("b1", parent="b")],
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j", "x1": "j", "x2": "j", "x3": "j"},
    ),
    Scenario(
        "between siblings deep in the tree",
        nodes(1),
        [*fill("x", 8, "n0", queue="a1"), job("j", role(4), queue="a2")],
        [queue("a"), queue("a1", parent="a"), queue("a2", parent="a")],
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j", "x1": "j", "x2": "j", "x3": "j"},
    ),
    Scenario(
        "what is on its way out is not counted twice",
        nodes(1),
        [
            *(running(job(f"h{i}", queue="a"), {"n0": 1}, phase=Phase.HALTING) for i in range(4)),
            *fill("x", 4, "n0", queue="a"),
            job("j", role(4), queue="b", age=9),
            job("k", role(1), queue="b"),
        ],
        A_B,
        waits={"j": MAKING_ROOM, "k": RESOURCES},
    ),
]


@pytest.mark.parametrize(
    "scenario",
    [*QUEUES, *PREEMPTION, *RECLAIM],
    ids=lambda scenario: scenario.id,
)
def test_sharing(scenario: Scenario) -> None:
    scenario.check()
