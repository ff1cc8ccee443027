"""Which of several good choices is made: outcomes alone would not tell them apart."""

from gangline.model import Phase, ReplicaId, RoleName
from gangline.scheduling import Constraint
from tests.scheduling.builders import NOW, Scenario, cycle, job, node, nodes, role, running


def test_a_part_of_a_gpu_goes_to_the_fullest_one_with_room() -> None:
    held = [
        running(job("half", role(gpus=0.5)), {"n0": 1}, slots={0: 0}),
        running(job("most", role(gpus=0.75)), {"n0": 1}, slots={0: 1}),
        running(job("whole", role(gpus=0.9)), {"n0": 1}, slots={0: 2}),
    ]
    (start,) = cycle([node("n0", gpus=4)], [*held, job("j", role(gpus=0.25))]).starts
    assert start.gpu_slots == {ReplicaId(RoleName("worker"), 0): 1}


def test_of_victims_that_are_not_all_needed_the_dearest_is_spared() -> None:
    """The three least important have to be looked at before there is room; the first and the third are enough."""
    Scenario(
        "",
        nodes(1, gpus=6),
        [
            running(job("a", role(gpus=1), priority=10), {"n0": 1}),
            running(job("b", role(gpus=2), priority=20), {"n0": 1}),
            running(job("c", role(gpus=3), priority=30), {"n0": 1}),
            job("j", role(gpus=4)),
        ],
        waits={"j": Constraint.MAKING_ROOM},
        evicts={"a": "j", "c": "j"},
    ).check()


def test_a_nomination_that_needs_more_room_runs_out_when_it_would_have() -> None:
    """Otherwise a gang for which others are stopped again and again would keep its claim forever."""
    x, k = job("x", priority=10), job("k", priority=10)
    j = job("j", role(2))
    first = cycle(nodes(1, gpus=2), [running(x, {"n0": 1}), j])
    assert [each.job_id for each in first.evictions] == ["x"]
    leaving = running(x, {"n0": 1}, phase=Phase.HALTING)
    again = cycle(nodes(1, gpus=2), [leaving, running(k, {"n0": 1}), j], now=NOW + 10, memory=first.memory)
    assert [each.job_id for each in again.evictions] == ["k"]
    assert again.memory.nominations == first.memory.nominations
