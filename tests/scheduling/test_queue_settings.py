"""What a queue may set besides its share: what it borrows and lends, GPU types, and what may not be stopped."""

from collections.abc import Sequence

import pytest

from gangline.model import Job, JobId, Queue
from gangline.scheduling import Constraint, Decision
from tests.scheduling.builders import NOW, Scenario, cycle, fill, job, node, nodes, queue, role, running, typed


def evicted(decision: Decision) -> dict[str, str | None]:
    return {str(each.job_id): each.beneficiary for each in decision.evictions}


def said(machines: Sequence[object], jobs: Sequence[Job], queues: Sequence[Queue], name: str) -> tuple[str, ...]:
    return cycle(machines, jobs, queues).explanations[JobId(name)].words()  # type: ignore[arg-type]


BORROWING = [
    Scenario(
        "a queue borrows up to its borrowing limit and no further",
        nodes(1),
        [*fill("x", 5, "n0", queue="a"), job("one", queue="a", age=9), job("two", queue="a")],
        [queue("a", guarantee={"gpus": 4}, borrowing={"gpus": 2}), queue("b")],
        starts={"one": 1},
        waits={"two": Constraint.BORROWING_LIMIT},
    ),
    Scenario(
        "a borrowing limit of nothing leaves the guarantee",
        nodes(1),
        [job("one", role(4), queue="a", age=9), job("two", queue="a")],
        [queue("a", guarantee={"gpus": 4}, borrowing={"gpus": 0}), queue("b")],
        starts={"one": 4},
        waits={"two": Constraint.BORROWING_LIMIT},
    ),
    Scenario(
        "what a borrowing limit does not name is not limited",
        nodes(1),
        [job("one", role(4, cpus=8), queue="a")],
        [queue("a", guarantee={"gpus": 4}, borrowing={"gpus": 0}), queue("b")],
        starts={"one": 4},
    ),
    Scenario(
        "the borrowing limit of a queue above counts for all below it",
        nodes(1),
        [*fill("x", 2, "n0", queue="a"), job("one", role(2), queue="b", age=9), job("two", queue="b")],
        [queue("p", guarantee={"gpus": 2}, borrowing={"gpus": 2}), queue("a", parent="p"), queue("b", parent="p")],
        starts={"one": 2},
        waits={"two": Constraint.BORROWING_LIMIT},
    ),
    Scenario(
        "an elastic gang grows within the borrowing limit",
        nodes(1),
        [job("one", role(8, minimum=1), queue="a")],
        [queue("a", guarantee={"gpus": 4}, borrowing={"gpus": 2}), queue("b")],
        starts={"one": 6},
    ),
    Scenario(
        "somebody more important stops others of a queue that may borrow no more",
        nodes(1),
        [*fill("x", 6, "n0", queue="a", priority=10), job("one", queue="a", priority=90)],
        [queue("a", guarantee={"gpus": 4}, borrowing={"gpus": 2}), queue("b")],
        evicts={"x0": "one"},
        waits={"one": Constraint.MAKING_ROOM},
    ),
]

LENDING = [
    Scenario(
        "what a queue does not lend stays free for it",
        nodes(1),
        [job("one", role(5), queue="b", age=9), job("two", queue="b")],
        [queue("a", guarantee={"gpus": 4}, lending={"gpus": 1}), queue("b")],
        starts={"one": 5},
        waits={"two": Constraint.LENDING_LIMIT},
    ),
    Scenario(
        "a queue has what it does not lend at once",
        nodes(1),
        [*fill("x", 5, "n0", queue="b"), job("one", role(3), queue="a")],
        [queue("a", guarantee={"gpus": 4}, lending={"gpus": 1}), queue("b")],
        starts={"one": 3},
    ),
    Scenario(
        "what it lent it gets back by reclaim",
        nodes(1),
        [*fill("x", 5, "n0", queue="b"), job("one", role(4), queue="a")],
        [queue("a", guarantee={"gpus": 4}, lending={"gpus": 1}), queue("b")],
        evicts={"x0": "one"},
        waits={"one": Constraint.MAKING_ROOM},
    ),
    Scenario(
        "without a lending limit all of it is lent",
        nodes(1),
        [job("one", role(8), queue="b")],
        [queue("a", guarantee={"gpus": 4}), queue("b")],
        starts={"one": 8},
    ),
    Scenario(
        "a queue below another keeps its own from the rest of the cluster",
        nodes(1),
        [job("one", role(6), queue="b"), job("two", role(7), queue="b", age=0.5)],
        [queue("p"), queue("a", parent="p", guarantee={"gpus": 2}, lending={"gpus": 0}), queue("b")],
        starts={"one": 6},
        waits={"two": Constraint.LENDING_LIMIT},
    ),
    Scenario(
        "siblings below the same queue, too",
        nodes(1),
        [job("one", role(7), queue="b")],
        [queue("p"), queue("a", parent="p", guarantee={"gpus": 2}, lending={"gpus": 0}), queue("b", parent="p")],
        waits={"one": Constraint.LENDING_LIMIT},
    ),
    Scenario(
        "an elastic gang does not grow into what is not lent",
        nodes(1),
        [job("one", role(8, minimum=1), queue="b")],
        [queue("a", guarantee={"gpus": 4}, lending={"gpus": 1}), queue("b")],
        starts={"one": 5},
    ),
    Scenario(
        "nobody who keeps anything is named when the cluster is simply full",
        nodes(1),
        [*fill("x", 4, "n0", queue="a"), *fill("y", 4, "n0", queue="b"), job("one", queue="b")],
        [queue("a", guarantee={"gpus": 4}, lending={"gpus": 0}), queue("b")],
        waits={"one": Constraint.RESOURCES},
    ),
]

TWO_TYPES = [node("a0", gpus=4, kind="a100"), node("t0", gpus=4, kind="t4")]

TYPES = [
    Scenario(
        "a guarantee of one type is reclaimed though other GPUs are free",
        TWO_TYPES,
        [*fill("x", 4, "a0", queue="b"), job("one", role(2), queue="a", kinds=["a100"])],
        [queue("a", guarantee=typed(a100=2)), queue("b")],
        evicts={"x0": "one", "x1": "one"},
        waits={"one": Constraint.MAKING_ROOM},
    ),
    Scenario(
        "beyond the guarantee of a type nothing is reclaimed that others have a right to",
        TWO_TYPES,
        [*fill("x", 2, "a0", queue="b"), *fill("y", 2, "a0", queue="a"), job("one", queue="a", kinds=["a100"])],
        [queue("a", guarantee=typed(a100=2)), queue("b", guarantee=typed(a100=2))],
        waits={"one": Constraint.RESOURCES},
    ),
    Scenario(
        "a job that accepts both falls back to the second type before anybody is stopped",
        TWO_TYPES,
        [*fill("x", 4, "a0", queue="b"), job("one", role(2), queue="a", kinds=["a100", "t4"])],
        [queue("a", guarantee=typed(a100=2)), queue("b")],
        starts={"one": {"t0": 2}},
    ),
    Scenario(
        "a job falls back when what its queue may borrow of the first type is used up",
        TWO_TYPES,
        [*fill("x", 2, "a0", queue="a"), job("one", role(2), queue="a", kinds=["a100", "t4"])],
        [queue("a", guarantee=typed(a100=2), borrowing={"a100": 0}), queue("b")],
        starts={"one": {"t0": 2}},
    ),
    Scenario(
        "a job that accepts only that type waits",
        TWO_TYPES,
        [*fill("x", 2, "a0", queue="a"), job("one", role(2), queue="a", kinds=["a100"])],
        [queue("a", guarantee=typed(a100=2), borrowing={"a100": 0}), queue("b")],
        waits={"one": Constraint.BORROWING_LIMIT},
    ),
    Scenario(
        "with both full it reclaims of the type that it is guaranteed",
        TWO_TYPES,
        [
            *fill("x", 4, "a0", queue="b"),
            *fill("y", 4, "t0", queue="b", priority=10),
            job("one", queue="a", kinds=["a100", "t4"]),
        ],
        [queue("a", guarantee=typed(t4=2)), queue("b", guarantee=typed(a100=4))],
        evicts={"y0": "one"},
        waits={"one": Constraint.MAKING_ROOM},
    ),
    Scenario(
        "a type that is not lent stays free",
        TWO_TYPES,
        [job("one", role(3), queue="b", kinds=["a100"]), job("two", role(3), queue="b", kinds=["a100", "t4"], age=0.5)],
        [queue("a", guarantee=typed(a100=2), lending={"a100": 0}), queue("b")],
        starts={"two": {"t0": 3}},
        waits={"one": Constraint.LENDING_LIMIT},
    ),
]

FIXED = [
    Scenario(
        "a job that may not be stopped waits for room in the guarantee",
        nodes(1),
        [
            running(job("x", role(3), queue="a", preemptible=False), {"n0": 3}),
            job("one", queue="a", preemptible=False, age=9),
            job("two", queue="a", preemptible=False),
            job("three", queue="a", age=0.5),
        ],
        [
            queue("a", guarantee={"gpus": 4, "cpus": 8, "memory": 99}, non_preemptible_within_guarantee=True),
            queue("b"),
        ],
        starts={"one": 1, "three": 1},
        waits={"two": Constraint.NOT_GUARANTEED},
    ),
    Scenario(
        "others that may be stopped make way in the guarantee",
        nodes(1),
        [*fill("x", 8, "n0", queue="a", priority=10), job("one", queue="a", preemptible=False, priority=90)],
        [queue("a", guarantee={"gpus": 1, "cpus": 8, "memory": 99}, non_preemptible_within_guarantee=True)],
        evicts={"x0": "one"},
        waits={"one": Constraint.MAKING_ROOM},
    ),
    Scenario(
        "without the setting it may borrow like any other",
        nodes(1),
        [job("one", role(8), queue="a", preemptible=False)],
        [queue("a", guarantee={"gpus": 4}), queue("b")],
        starts={"one": 8},
    ),
    Scenario(
        "its surplus stays within the guarantee, too",
        nodes(1),
        [job("one", role(8, minimum=1), queue="a", preemptible=False)],
        [queue("a", guarantee={"gpus": 4, "cpus": 8, "memory": 99}, non_preemptible_within_guarantee=True)],
        starts={"one": 4},
    ),
]


@pytest.mark.parametrize("scenario", [*BORROWING, *LENDING, *TYPES, *FIXED], ids=lambda each: each.id)
def test_queue_settings(scenario: Scenario) -> None:
    scenario.check()


def test_the_reason_says_what_a_queue_may_have() -> None:
    lent = [queue("a", guarantee={"gpus": 4}, lending={"gpus": 1}), queue("b")]
    assert said(nodes(1), [job("one", role(6), queue="b")], lent, "one")[:2] == (
        "Queue 'a' keeps what is left of its guarantee for itself and lends no more.",
        "Missing: 1 GPU.",
    )
    borrows = [queue("a", guarantee={"gpus": 4}, borrowing={"gpus": 2}), queue("b")]
    assert said(nodes(1), [job("one", role(7), queue="a")], borrows, "one")[0] == (
        "It asks for more than queue 'a' may have with all that it may borrow: 7 GPU of at most 6 GPU."
    )
    assert said(nodes(1), [*fill("x", 6, "n0", queue="a"), job("one", queue="a")], borrows, "one")[0] == (
        "With it queue 'a' would have more than its guarantee and all that it may borrow."
    )
    fixed = [queue("a", guarantee={"gpus": 2, "cpus": 9, "memory": 9}, non_preemptible_within_guarantee=True)]
    assert said(nodes(1), [job("one", role(3), queue="a", preemptible=False)], fixed, "one")[0] == (
        "It may not be stopped (preemptible: false), and queue 'a' takes such jobs only within its guarantee: "
        "3 GPU of at most 2 GPU."
    )
    holder = running(job("x", role(2), queue="a", preemptible=False), {"n0": 2})
    assert said(nodes(1), [holder, job("one", queue="a", preemptible=False)], fixed, "one") == (
        "It may not be stopped (preemptible: false), and the guarantee of queue 'a' is taken by others that may not.",
        "Missing: 1 GPU.",
        "Held by: x.",
    )


@pytest.mark.parametrize(
    ("queues", "want"),
    [
        ([queue("a", minimum_run_seconds=600.0)], {}),
        ([queue("a", minimum_run_seconds=300.0)], {"x": "one"}),
        ([queue("p", minimum_run_seconds=600.0), queue("a", parent="p")], {}),
        ([queue("p", minimum_run_seconds=600.0), queue("a", parent="p", minimum_run_seconds=0.0)], {"x": "one"}),
        ([queue("a")], {"x": "one"}),
    ],
    ids=["too young", "old enough", "the queue above says", "the nearest queue says", "as for everybody"],
)
def test_a_job_runs_for_the_minimum_that_its_queue_says(queues: list[Queue], want: dict[str, str]) -> None:
    held = running(job("x", role(8), queue="a", priority=10), {"n0": 8}, since=400)
    decision = cycle(nodes(1), [held, job("one", queue="a", priority=90)], queues)
    assert evicted(decision) == want
    if not want:
        assert decision.wake_at == NOW + 200
