"""Who makes room for whom: the specification, one scenario a line or two."""

import pytest

from gangline.model import Phase
from gangline.scheduling import Constraint, Policies
from tests.scheduling.builders import Scenario, fill, job, node, nodes, queue, role, running

RESOURCES = Constraint.RESOURCES
MAKING_ROOM = Constraint.MAKING_ROOM
LIMIT = Constraint.QUEUE_LIMIT
A_B = [queue("a"), queue("b")]
QUIET = Policies(preemption=False, reclaim=False, defragmentation=False)

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
        "only who is on nodes that help is stopped",
        [node("n0", kind="h200"), node("n1")],
        [
            running(job("x", role(8), priority=10), {"n0": 8}),
            running(job("y", role(8), priority=10), {"n1": 8}),
            job("j", role(8), kinds=["a100"]),
        ],
        waits={"j": MAKING_ROOM},
        evicts={"y": "j"},
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
        [running(job("x", role(8)), {"n0": 8}, since=15_000, checkpoint=15_000), job("j", role(8))],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "but not who would lose all of it",
        nodes(1),
        [running(job("x", role(8)), {"n0": 8}, since=900_000), job("j", role(8))],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "a gang whose nodes are gone has nothing to give",
        nodes(1, gpus=1),
        [
            running(job("x", priority=90, preemptible=False), {"n0": 1}),
            running(job("ghost", priority=10), {"gone": 1}),
            job("j", priority=90),
        ],
        waits={"j": RESOURCES},
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
        "a gang larger than what its queue borrows goes, too",
        nodes(1),
        [running(job("x", role(8), queue="a"), {"n0": 8}), job("j", role(4), queue="b")],
        A_B,
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
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
    Scenario(
        "nobody takes what the first in line counts on, nor parts of it",
        nodes(1, gpus=2),
        [
            *fill("x", 1, "n0", queue="a"),
            *fill("y", 1, "n0", queue="a", preemptible=False),
            job("first", role(2), queue="b"),
            job("j", role(gpus=0.3), role(name="ps", gpus=0.3), queue="c"),
        ],
        [queue("a"), queue("b", guarantee={"gpus": 2}), queue("c", guarantee={"gpus": 1})],
        waits={"first": RESOURCES, "j": RESOURCES},
    ),
]

LIMITED = [queue("p", limit={"gpus": 8}), queue("a", parent="p"), queue("b", parent="p"), queue("c")]
A100_LIMITED = [queue("default", limit={"extended": {"gpu_millis.a100": 2000}})]

CEILINGS = [
    Scenario(
        "at a limit, surplus makes way for a gang of its own importance",
        nodes(2),
        [running(job("x", role(8, minimum=1)), {"n0": 8}), job("j")],
        [queue("default", limit={"gpus": 8})],
        waits={"j": MAKING_ROOM},
        shrinks={"x": ["worker-7"]},
    ),
    Scenario(
        "at a limit, surplus of a less important gang goes before the gang itself",
        nodes(2),
        [running(job("x", role(8, minimum=4), priority=10), {"n0": 8}), job("j", role(4))],
        [queue("default", limit={"gpus": 8})],
        waits={"j": MAKING_ROOM},
        shrinks={"x": ["worker-4", "worker-5", "worker-6", "worker-7"]},
    ),
    Scenario(
        "at a limit, a gang whose surplus is not enough stops whole",
        nodes(2),
        [running(job("x", role(8, minimum=4), priority=10), {"n0": 8}), job("j", role(5))],
        [queue("default", limit={"gpus": 8})],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "at a limit, nothing is stopped that has none of what is short",
        nodes(2),
        [
            running(job("cpu", role(gpus=0), priority=1), {"n0": 1}),
            running(job("x", role(8), priority=10), {"n0": 8}),
            job("j"),
        ],
        [queue("default", limit={"gpus": 8})],
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "below a limit that siblings share, each takes back what it deserves",
        nodes(4),
        [*fill("x", 8, "n0", queue="a"), job("j", role(4), queue="b")],
        LIMITED,
        waits={"j": MAKING_ROOM},
        evicts={"x0": "j", "x1": "j", "x2": "j", "x3": "j"},
    ),
    Scenario(
        "but not more, and others outside that limit have nothing to do with it",
        nodes(4),
        [*fill("x", 8, "n0", queue="a"), *fill("y", 8, "n1", queue="c"), job("j", role(5), queue="b")],
        LIMITED,
        waits={"j": LIMIT},
    ),
    Scenario(
        "the limit is kept for whom others are stopped for",
        nodes(4),
        [
            running(job("x", role(4), priority=10), {"n0": 4}),
            job("j", role(8), priority=90),
            job("small", role(2), priority=10),
        ],
        [queue("default", limit={"gpus": 8})],
        waits={"j": MAKING_ROOM, "small": LIMIT},
        evicts={"x": "j"},
    ),
    Scenario(
        "but not twice: what those give back whom it replaces is not used up by it",
        [node("n0", gpus=4), node("n1", gpus=4, kind="h200")],
        [
            running(job("x", role(4), priority=10), {"n0": 4}),
            job("j", role(4), priority=90, kinds=["a100"]),
            job("other", role(4), priority=10, kinds=["h200"]),
        ],
        [queue("default", limit={"gpus": 8})],
        starts={"other": 4},
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "the place is kept while those who were stopped for it are on their way out",
        nodes(1),
        [
            running(job("x", role(4), queue="a", priority=10), {"n0": 4}, phase=Phase.HALTING),
            job("j", role(8), queue="a", priority=90),
            job("other", role(4), queue="b"),
        ],
        [queue("a", limit={"gpus": 8}, guarantee={"gpus": 8}), queue("b")],
        waits={"j": MAKING_ROOM, "other": Constraint.RESERVATION},
    ),
    Scenario(
        "at the limit of a GPU type, a less important gang makes way",
        nodes(2),
        [running(job("x", role(2), priority=10), {"n0": 2}), job("j", role(2))],
        A100_LIMITED,
        waits={"j": MAKING_ROOM},
        evicts={"x": "j"},
    ),
    Scenario(
        "at the limit of a GPU type, nobody is stopped for whom it would still be passed",
        nodes(2, gpus=2),
        [
            running(job("x", role(2), queue="a", priority=10), {"n0": 2}),
            running(job("z", role(2), queue="b"), {"n1": 2}),
            job("j", role(2), queue="a", priority=90),
            job("k", role(2), queue="a", priority=80),
        ],
        [queue("a", guarantee={"gpus": 4}, limit={"extended": {"gpu_millis.a100": 2000}}), queue("b")],
        waits={"j": MAKING_ROOM, "k": RESOURCES},
        evicts={"x": "j"},
    ),
    Scenario(
        "at a limit, who is stopped for the nodes counts for the limit, too",
        [node("n0", gpus=2), node("n1", gpus=2, kind="h200")],
        [
            running(job("x", role(2), priority=10), {"n0": 2}, since=100),
            running(job("y", role(2), priority=10), {"n1": 2}),
            job("j", role(2), kinds=["h200"]),
        ],
        [queue("default", limit={"gpus": 4})],
        waits={"j": MAKING_ROOM},
        evicts={"y": "j"},
    ),
    Scenario(
        "surplus passes no limit of a GPU type",
        nodes(2),
        [job("j", role(4, minimum=1))],
        A100_LIMITED,
        starts={"j": {"n0": 2}},
    ),
    Scenario(
        "whom a gang wants beside it is not stopped for it",
        nodes(1, gpus=2),
        [
            running(job("base", role(2), labels={"app": "base"}, priority=10), {"n0": 2}),
            job("j", near={"app": "base"}, priority=90),
        ],
        waits={"j": RESOURCES},
    ),
    Scenario(
        "nobody is moved to where somebody keeps it away",
        nodes(2, gpus=2),
        [
            running(job("x", labels={"app": "x"}), {"n0": 1}),
            running(job("loner", away={"app": "x"}), {"n1": 1}),
            job("j", role(gpus=2)),
        ],
        waits={"j": RESOURCES},
    ),
]


@pytest.mark.parametrize("scenario", [*PREEMPTION, *RECLAIM, *CEILINGS], ids=lambda scenario: scenario.id)
def test_a_gang_is_stopped_only_for_one_with_a_better_claim(scenario: Scenario) -> None:
    scenario.check()
