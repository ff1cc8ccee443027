"""Nodes kept in order for single replicas: the same choice as a search of all nodes, whatever happened before."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.model import Node
from gangline.scheduling import DEFAULT_POLICIES, Policies
from gangline.scheduling.demand.shapes import Shape
from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.nodes.table import Floats, Ints, table_of
from gangline.scheduling.placement.placer import WORTH_RANKING
from gangline.scheduling.placement.ranking import Ranking
from gangline.scheduling.plugins.scores import Pack
from tests.scheduling.builders import cycle, job, node, queue, role

SHAPES = [
    Shape(amounts=(("cpu_millis", 1000 * cpus), ("gpu_millis", 1000 * gpus), ("memory_mib", 10)))
    for cpus in (1, 3)
    for gpus in (0, 1, 2)
]


class SearchedPack:
    """Packing without the power to judge one node: every replica is placed by a search of all nodes."""

    def score(self, draft: Draft, need: Need, rows: Ints) -> Floats:
        return Pack().score(draft, need, rows)


@st.composite
def machines(draw: st.DrawFn) -> list[Node]:
    sizes = st.tuples(st.integers(0, 4), st.integers(1, 8))
    return [node(f"n{i:02d}", gpus=gpus, cpus=cpus) for i, (gpus, cpus) in enumerate(draw(st.lists(sizes, min_size=1)))]


def searched(draft: Draft, need: Need) -> int | None:
    rows = np.arange(len(draft.table))
    scores = np.where(draft.counts(need) > 0, Pack().score(draft, need, rows), np.inf)
    return int(scores.argmin()) if np.isfinite(scores).any() else None


@settings(max_examples=200, deadline=None)
@given(machines(), st.data())
def test_the_ranking_gives_the_node_that_a_search_gives(nodes: list[Node], data: st.DataObject) -> None:
    draft = Draft.empty(table_of(nodes))
    closed = data.draw(st.lists(st.booleans(), min_size=len(nodes), max_size=len(nodes)))
    needs = [
        Need.of(draft.table, shape, ~np.array(closed) if number == 0 else np.ones(len(nodes), dtype=np.bool_))
        for number, shape in enumerate(SHAPES)
    ]
    ranking = Ranking(draft, Pack(), needs[0])
    taken: list[tuple[Need, int]] = []
    for step in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["ask", "take", "take", "take", "release", "undo"]), label=f"step {step}")
        need = needs[data.draw(st.integers(0, len(needs) - 1))]
        row = ranking.best(need)
        assert row == searched(draft, need)
        if action == "release" and taken:
            old, where = taken.pop()
            draft.release(old, (where,))
        elif action != "ask" and row is not None:
            mark = draft.mark()
            draft.take(need, row)
            if action == "undo":
                draft.undo(mark)
            else:
                taken.append((need, row))


@settings(max_examples=200, deadline=None)
@given(machines(), st.lists(st.integers(0, 5), max_size=20))
def test_one_node_is_judged_as_all_are(nodes: list[Node], takes: list[int]) -> None:
    draft = Draft.empty(table_of(nodes))
    needs = [Need.of(draft.table, shape, np.ones(len(nodes), dtype=np.bool_)) for shape in SHAPES]
    for number in takes:
        row = searched(draft, needs[number])
        if row is not None:
            draft.take(needs[number], row)
    together = Pack().score(draft, needs[0], np.arange(len(nodes)))
    alone = [
        Pack().score_one(draft.free[row].tolist(), draft.table.capacity[row].tolist()) for row in range(len(nodes))
    ]
    assert together.tolist() == alone, "bit for bit"


@settings(max_examples=60, deadline=None)
@given(machines(), st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 0.5, 1, 2]), st.sampled_from("ab"))))
def test_many_single_replicas_are_placed_as_if_each_searched_all_nodes(
    nodes: list[Node], wanted: list[tuple[int, float, str]]
) -> None:
    jobs = [
        job(f"j{number:03d}", role(cpus=cpus, gpus=gpus), queue=name, age=1000 - number)
        for number, (cpus, gpus, name) in enumerate(wanted * 3)
    ]
    queues = (queue("a"), queue("b", weight=2))
    ranked, plain = (cycle(nodes, jobs, queues, each) for each in (DEFAULT_POLICIES, Policies(pack=SearchedPack())))
    assert ranked.starts == plain.starts
    assert ranked.explanations == plain.explanations


def test_a_cycle_with_many_singles_does_use_the_ranking() -> None:
    jobs = [job(f"j{number:03d}", role(cpus=1), age=1000 - number) for number in range(3 * WORTH_RANKING)]
    asked: list[int] = []

    class Counting(Pack):
        def score_one(self, free: object, capacity: object) -> float:
            asked.append(1)
            return super().score_one(free, capacity)

    decision = cycle([node("n0", gpus=64), node("n1", gpus=64)], jobs, policies=Policies(pack=Counting()))
    assert len(decision.starts) == len(jobs)
    assert asked
