"""What one cycle leaves to the next, what it tells people, and which parts can be replaced."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from gangline.compose.plugins import chosen_policies
from gangline.errors import InvalidInputError
from gangline.model import Job, JobId, Phase, PhaseEntry, Prefer, Queue, QueueName, Resources, Timestamp
from gangline.scheduling import BUILT_IN, Constraint, Excluded, Policies, decide, policies_from, take_snapshot
from gangline.scheduling.demand.shapes import Shape
from gangline.scheduling.gangs.holdings import Held
from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.nodes.table import WHOLE_GPUS, Floats, Ints, NodeTable, table_of
from gangline.scheduling.plugins.fragmentation import FragmentationGradient
from gangline.scheduling.plugins.interface import Refusal
from gangline.scheduling.plugins.orders import LeastAttained, ShortestFirst, Tiresias
from tests.scheduling.builders import NOW, cycle, job, node, nodes, queue, role, running, where


def requeued(gang: Job) -> Job:
    """The gang after it was stopped: it waits again, and keeps its age."""
    history = (*gang.history, PhaseEntry(phase=Phase.RESUMED, at=NOW, reason="Requeued"))
    return replace(gang, history=history, holding=False, replicas=())


def test_the_beneficiary_gets_the_place_even_though_the_moved_gang_is_older() -> None:
    machines = nodes(2, gpus=2)
    small = [running(job("x", age=500), {"n0": 1}), running(job("y", age=500), {"n1": 1})]
    large = job("j", role(1, gpus=2))
    first = cycle(machines, [*small, large])
    assert [each.job_id for each in first.evictions] == ["x"]
    second = cycle(machines, [requeued(small[0]), small[1], large], memory=first.memory)
    assert {start.job_id: where(start.placement) for start in second.starts} == {"j": {"n0": 1 * 1}, "x": {"n1": 1}}
    assert not second.evictions


def test_nobody_takes_the_place_while_victims_are_still_stopping() -> None:
    victim = running(job("x", role(4), priority=10), {"n0": 4})
    large = job("j", role(8))
    first = cycle(nodes(1), [victim, large])
    halting = replace(victim, history=(*victim.history, PhaseEntry(phase=Phase.HALTING, at=NOW, reason="Preempted")))
    newcomer = job("k", role(4), age=900)
    second = cycle(nodes(1), [halting, large, newcomer], memory=first.memory)
    assert not second.starts
    assert not second.evictions
    assert second.explanations[JobId("k")].constraint is Constraint.RESERVATION


def test_a_nomination_expires() -> None:
    victim = running(job("x", role(8), priority=10), {"n0": 8})
    first = cycle(nodes(1), [victim, job("j", role(8))])
    assert [each.job_id for each in first.memory.nominations] == ["j"]
    later = cycle(nodes(1), [job("j", role(8)), job("k", role(8), age=900)], now=NOW + 1000, memory=first.memory)
    assert [start.job_id for start in later.starts] == ["k"]


def test_an_evicted_gang_does_not_evict_its_evictor() -> None:
    victim = running(job("x", role(8), priority=10, age=900), {"n0": 8})
    winner = running(job("j", role(8)), {"n0": 8}, since=1000)
    decision = cycle(nodes(1), [requeued(victim), winner])
    assert not decision.evictions


def test_wake_at_is_the_end_of_a_back_off_or_of_a_minimum_run_time() -> None:
    young = running(job("x", role(8), priority=10), {"n0": 8}, since=20)
    decision = cycle(nodes(1), [young, job("j", role(8)), job("b", retry_at=NOW + 100)])
    assert decision.wake_at == NOW + 40
    assert cycle(nodes(1), [job("b", retry_at=NOW + 100)]).wake_at == NOW + 100
    assert cycle(nodes(1), [job("j")]).wake_at is None


def test_yesterdays_heavy_user_waits_today() -> None:
    queues = [queue("a"), queue("b")]
    policies = Policies(usage_half_life_seconds=3600.0)
    heavy = running(job("x", role(8), queue="a"), {"n0": 8})
    memory = cycle(nodes(1), [heavy], queues, policies).memory
    memory = cycle(nodes(1), [heavy], queues, policies, now=NOW + 3600, memory=memory).memory
    assert {name: past.share for name, past in memory.usage.items()} == pytest.approx({"a": 0.5, "b": 0.0})
    # What it had until it ended counts, though nobody looked in between.
    ended = cycle(nodes(1), [], queues, policies, now=NOW + 7200, memory=memory).memory
    assert ended.usage[QueueName("a")].share == pytest.approx(0.75)
    both = [job("ja", role(8), queue="a", age=900), job("jb", role(8), queue="b")]
    assert [
        start.job_id for start in cycle(nodes(1), both, queues, policies, now=NOW + 3601, memory=memory).starts
    ] == ["jb"]
    assert [start.job_id for start in cycle(nodes(1), both, queues, Policies(), now=NOW + 3601).starts] == ["ja"]


def test_a_snapshot_reuses_what_has_not_changed() -> None:
    machines = nodes(2)
    jobs = [running(job("x", role(4)), {"n0": 4}), job("j", role(2))]
    first = take_snapshot(nodes=machines, jobs=jobs, queues=(), now=NOW)
    memory = decide(first).memory
    second = take_snapshot(nodes=list(machines), jobs=jobs, queues=(), now=NOW, memory=memory)
    assert second.table is first.table
    assert second.held[JobId("x")] is first.held[JobId("x")]
    assert second.waiting[JobId("j")] is first.waiting[JobId("j")]
    third = take_snapshot(nodes=nodes(3), jobs=jobs, queues=(), now=NOW, memory=memory)
    assert third.table is not first.table


def test_a_decision_does_not_change_its_snapshot() -> None:
    snapshot = take_snapshot(nodes=nodes(2), jobs=[job("j", role(9))], queues=(), now=NOW)
    assert decide(snapshot) == decide(snapshot)


def test_an_explanation_speaks_to_people() -> None:
    machines = [node("n0", labels={"zone": "a"}), node("n1", ready=False)]
    busy = running(job("x", role(7)), {"n0": 7})
    why = cycle(machines, [busy, job("j", role(4), selector={"zone": "a"})]).explanations[JobId("j")]
    assert why.words() == (
        "Not enough is free: 1 of the 4 'worker' replicas that it needs fit now.",
        "1 of 2 nodes: not ready.",
        "1 of 2 nodes: label zone is not a.",
        "Missing: 3 GPU.",
        "Held by: x.",
        "With 1 instead of 4 'worker' replicas it would start now.",
        "1 more empty node of the largest suitable kind would do.",
    )
    assert why.predicted_start_at == NOW + 3600


def test_an_explanation_says_which_rule_to_drop() -> None:
    machines = [node("n0"), node("n1", labels={"zone": "a"}, gpus=1)]
    busy = running(job("x"), {"n1": 1})
    why = cycle(machines, [busy, job("j", selector={"zone": "a"})]).explanations[JobId("j")]
    assert "It would start now if this did not exclude nodes: label zone is not a." in why.words()


@pytest.mark.parametrize(
    ("jobs", "queues", "want"),
    [
        ([job("j", queue="reserch")], [queue("research")], "There is no queue 'reserch'. Did you mean 'research'?"),
        (
            [job("j", queue="a")],
            [queue("a"), queue("b", parent="a")],
            "Queue 'a' has queues below it and takes no jobs itself; use for example 'b'.",
        ),
        ([job("j", retry_at=NOW + 9)], [], "It failed and waits before its next attempt."),
        (
            [job("j", role(3), queue="a")],
            [queue("a", limit={"gpus": 2})],
            "It asks for more than queue 'a' may have at all: 3 GPU of at most 2 GPU.",
        ),
        (
            [job("j", role(5), queue="a")],
            [queue("a", may_borrow=False), queue("b")],
            "It asks for more than queue 'a' may have without borrowing: 5 GPU of at most 4 GPU.",
        ),
        (
            [running(job("x", role(4), queue="a"), {"n0": 4}), job("j", queue="a")],
            [queue("a", may_borrow=False), queue("b")],
            "Queue 'a' may not borrow and has used its own share.",
        ),
        ([job("j", kinds=["h200"])], [], "No node may run its 'worker' replicas."),
        (
            [job("j", role(9))],
            [],
            "It would not fit even if everything else stopped: 8 of 9 'worker' replicas would.",
        ),
    ],
    ids=["unknown queue", "not a leaf", "back-off", "limit", "own share", "share", "nodes", "too large"],
)
def test_the_first_sentence_names_the_constraint(jobs: list[Job], queues: list, want: str) -> None:
    assert cycle(nodes(1), jobs, queues).explanations[JobId("j")].words()[0] == want


def test_missing_amounts_are_named_as_people_write_them() -> None:
    machines = [node("n0", gpus=1, cpus=2, memory=100, extended={"rdma": 1})]
    big = job("j", role(1, gpus=2, cpus=3, memory=150, extended={"rdma": 2}))
    sentences = cycle(machines, [big]).explanations[JobId("j")].words()
    assert "Missing: 1 CPU, 1 GPU, 50 MiB memory, 1 rdma." in sentences


def test_settings_choose_plugins_by_name() -> None:
    policies = chosen_policies(
        {
            "job_order": "shortest-first",
            "pack": "fragmentation",
            "filters": ["node-health", "gpu-type"],
            "victim_cost": "gangline.scheduling.plugins.costs:WorkLost",
            "preemption": False,
            "patience_seconds": 60.0,
        }
    )
    assert isinstance(policies.pack, FragmentationGradient)
    assert (len(policies.filters), policies.preemption, policies.patience_seconds) == (2, False, 60.0)
    assert set(BUILT_IN) >= {"pack", "spread", "fragmentation", "least-attained"}


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        pytest.param({"job_ordr": "x"}, "did you mean 'job_order'", id="setting"),
        pytest.param({"pack": "spred"}, "did you mean 'spread'", id="plugin"),
        pytest.param({"pack": "gangline.nowhere:Best"}, "scheduling.pack.*cannot be made", id="module"),
        pytest.param({"pack": "gangline.errors:Best"}, "scheduling.pack.*cannot be made", id="class"),
        pytest.param({"victim_cost": "pack"}, "scheduling.victim_cost.*'pack' cannot cost", id="wrong verb"),
        pytest.param({"job_order": 5}, "scheduling.job_order.*no scheduling plugin '5'", id="no name"),
        pytest.param({"filters": "gpu-type"}, "scheduling.filters.*a list of plugins", id="no list"),
        pytest.param({"preemption": "no"}, "scheduling.preemption.*true or false", id="no flag"),
        pytest.param({"patience_seconds": -1}, "scheduling.patience_seconds.*seconds", id="no number"),
        pytest.param({"patience_seconds": float("nan")}, "scheduling.patience_seconds.*seconds", id="nan"),
        pytest.param({"usage_half_life_seconds": 0}, "scheduling.usage_half_life_seconds.*above 0", id="half-life"),
        pytest.param({"pack": ["spread"]}, "scheduling.pack.*no scheduling plugin", id="list"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(settings: dict[str, object], want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        chosen_policies(settings)


class LargestFirst:
    """Plugins as a user would write them, one verb each."""

    def rank(self, job: Job, now: Timestamp) -> float:
        return -job.spec.roles[0].replicas

    def key(self, job: Job, now: Timestamp) -> tuple[float, ...]:
        return ()


class AlphabetBackwards:
    def key(self, queue: Queue, share: float, *, below_guarantee: bool) -> tuple[float, ...]:
        return (-ord(queue.name[0]),)


class NotTheFirst:
    def refuse(self, table: NodeTable, shape: Shape) -> Iterable[Refusal]:
        yield Refusal("it is the first", np.arange(len(table)) == 0)


class LastNode:
    def score(self, draft: Draft, need: Need, rows: Ints) -> Floats:
        return -rows.astype(np.float64)


class Alphabetical:
    def cost(self, gang: Held, now: Timestamp) -> float:
        return float(ord(gang.job.name[0]))


def test_every_rule_can_be_replaced_by_a_class_of_ones_own() -> None:
    here = "tests.scheduling.test_cycles"
    policies = chosen_policies({"job_order": f"{here}:LargestFirst"})
    assert [str(each.job_id) for each in cycle(nodes(2), [job("a"), job("b", role(3))], policies=policies).starts] == [
        "b",
        "a",
    ]
    policies = chosen_policies({"queue_order": f"{here}:AlphabetBackwards"})
    lines = cycle(nodes(2), [job("a", queue="x"), job("b", queue="y")], [queue("x"), queue("y")], policies)
    assert [str(each.job_id) for each in lines.starts] == ["b", "a"]
    policies = chosen_policies({"filters": [f"{here}:NotTheFirst"], "pack": f"{here}:LastNode"})
    decision = cycle(nodes(3), [job("a"), job("b", role(24))], policies=policies)
    assert where(decision.starts[0].placement) == {"n2": 1}
    assert decision.explanations[JobId("b")].excluded[0] == Excluded("it is the first", 1)
    policies = chosen_policies({"spread": f"{here}:LastNode"})
    assert where(cycle(nodes(3), [job("a", prefer=Prefer.SPREAD)], policies=policies).starts[0].placement) == {"n2": 1}
    policies = chosen_policies({"victim_cost": f"{here}:Alphabetical"})
    held = [running(job(name, role(8), priority=1), {spot: 8}) for name, spot in (("y", "n0"), ("x", "n1"))]
    assert [str(each.job_id) for each in cycle(nodes(2), [*held, job("a")], policies=policies).evictions] == ["x"]


def test_fragmentation_keeps_whole_gpus_whole() -> None:
    table = table_of([node("n0", gpus=2), node("n1", gpus=2)])
    draft = Draft.empty(table)
    half = Need.of(table, Shape(amounts=(("gpu_millis", 500),)), np.ones(2, dtype=np.bool_))
    draft.take(half, 1)
    scores = FragmentationGradient().score(draft, half, np.arange(2))
    assert scores[1] < scores[0]


def test_attained_service_counts_gpus_and_time() -> None:
    order = LeastAttained(threshold_gpu_seconds=8 * 3600.0)
    gang = running(job("x", role(8, cpus=0)), {"n0": 8}, since=3500, checkpoint=3500)
    fresh = order.rank(job("y"), NOW)
    assert order.rank(gang, Timestamp(NOW + 99)) == fresh
    assert order.rank(gang, Timestamp(NOW + 100)) > fresh
    assert order.changes_at(gang, NOW) == NOW + 100
    # What is saved counts double.
    assert order.rank(replace(gang, checkpoint_at=Timestamp(NOW - 3500 + 200)), NOW) > fresh
    assert order.rank(replace(gang, checkpoint_at=Timestamp(NOW - 3500 + 99)), NOW) == fresh
    assert order.rank(job("z", priority=51), NOW) < fresh
    assert Tiresias().rank(gang, NOW) == gang.created_at


def test_shared_gpus_are_given_back_to_the_slot_they_came_from() -> None:
    table = table_of([node("n0", gpus=2)])
    draft = Draft.empty(table)
    part = Need.of(table, Shape(amounts=(("gpu_millis", 600),)), np.ones(1, dtype=np.bool_))
    slots = draft.take(part, 0, 2)
    assert (slots, draft.free[0, WHOLE_GPUS]) == ((0, 1), 0)
    draft.release(part, [0], slots[:1])
    assert draft.free[0, WHOLE_GPUS] == 1
    draft.retake(part, [0], slots[:1])
    assert draft.shared[0].tolist() == [400, 400]
    draft.undo(0)
    assert draft.shared[0].tolist() == [-1, -1]


def test_a_node_that_lost_its_gpus_under_its_replicas_does_not_break_the_cycle() -> None:
    shrunken = node("n0", gpus=0)
    held = running(job("x", role(2, gpus=0.5)), {"n0": 2})
    decision = cycle([shrunken, node("n1")], [held, job("j")])
    assert where(decision.starts[0].placement) == {"n1": 1}


def test_foreign_use_beyond_capacity_leaves_nothing() -> None:
    full = node("n0", gpus=1, foreign=Resources(cpu_millis=10**6, gpu_millis=5000))
    assert cycle([full], [job("j")]).explanations[JobId("j")].constraint is Constraint.TOO_LARGE


def test_the_scheduler_leaves_it_to_others_to_import_plugins() -> None:
    asked: list[str] = []

    def find(name: str) -> type[ShortestFirst]:
        asked.append(name)
        return ShortestFirst

    policies = policies_from({"job_order": "no.such.module:Order"}, find)
    assert (asked, type(policies.job_order)) == (["no.such.module:Order"], ShortestFirst)
