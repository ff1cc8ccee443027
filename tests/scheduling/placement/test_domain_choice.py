"""Nested levels, and groups that lie in domains of their own."""

from dataclasses import replace

import pytest

from gangline.model import JobId, Node, ReplicaId, RoleName, Within
from gangline.scheduling import Constraint
from tests.scheduling.builders import AT_ONCE, Scenario, cycle, job, node, role, running, where

ZONE, RACK = Within("zone"), Within("rack")
RATHER_RACK, RATHER_ZONE = Within("rack", required=False), Within("zone", required=False)


def racks(*sizes: int, per_zone: int = 2) -> list[Node]:
    """One node per rack, r0, r1, ... with so many GPUs each; ``per_zone`` racks share a zone."""
    return [
        node(f"r{i}", gpus=size, topology={"rack": f"r{i}", "zone": f"z{i // per_zone}"})
        for i, size in enumerate(sizes)
    ]


CASES = [
    Scenario("a rack in a zone", racks(4, 3, 3, 3), [job("a", role(3), within=(ZONE, RACK))], starts={"a": {"r2": 3}}),
    Scenario(
        "a zone without a rack, if a rack is only preferred",
        racks(4, 2, 3, 3),
        [job("a", role(6), within=(ZONE, RATHER_RACK))],
        starts={"a": {"r0": 4, "r1": 2}},
    ),
    Scenario(
        "a roomier zone, if only there is the rack that is preferred",
        racks(2, 2, 4, 4),
        [job("a", role(4), within=(ZONE, RATHER_RACK))],
        starts={"a": {"r2": 4}},
    ),
    Scenario(
        "the zone is kept to when the rack has to be given up",
        racks(3, 1, 2, 2),
        [job("a", role(4), within=(RATHER_ZONE, RATHER_RACK))],
        starts={"a": {"r0": 3, "r1": 1}},
    ),
    Scenario(
        "anywhere, when both are given up",
        racks(2, 1, 2, 1),
        [job("a", role(4), within=(RATHER_ZONE, RATHER_RACK))],
        starts={"a": {"r0": 2, "r2": 2}},
    ),
    Scenario(
        "a rack is required that no zone has",
        racks(3, 3, 3, 3),
        [job("a", role(4), within=(ZONE, RACK))],
        waits={"a": Constraint.TOO_LARGE},
    ),
    Scenario(
        "each group in a rack",
        racks(2, 2, 3, 1),
        [job("a", role(6, groups=3, within=(RACK,)))],
        starts={"a": {"r0": 2, "r1": 2, "r2": 2}},
    ),
    Scenario(
        "groups may share a rack",
        racks(4, 2),
        [job("a", role(6, groups=3, within=(RACK,)))],
        starts={"a": {"r0": 4, "r1": 2}},
    ),
    Scenario(
        "room enough, but not in racks",
        racks(3, 3),
        [job("a", role(6, groups=3, within=(RACK,)))],
        waits={"a": Constraint.TOO_LARGE},
    ),
    Scenario(
        "stages of different sizes: the tightest rack first would leave the large one outside",
        racks(4, 3),
        [job("a", role(3, name="small", within=(RACK,)), role(4, name="large", within=(RACK,)))],
        starts={"a": {"r0": 4, "r1": 3}},
    ),
    Scenario(
        "all groups in one zone",
        racks(2, 1, 2, 2),
        [job("a", role(4, groups=2, within=(RACK,)), within=(ZONE,))],
        starts={"a": {"r2": 2, "r3": 2}},
    ),
    Scenario(
        "the minimum of every group first, then what is left to the group that has fewest",
        racks(2, 1),
        [job("a", role(4, groups=2, minimum=2, within=(RACK,)))],
        starts={"a": {"r0": 2, "r1": 1}},
    ),
]


@pytest.mark.parametrize("scenario", CASES, ids=lambda case: case.id)
def test_domains_are_chosen(scenario: Scenario) -> None:
    scenario.check()


def test_replicas_of_a_group_have_consecutive_indexes() -> None:
    (start,) = cycle(racks(2, 2, 2), [job("a", role(6, groups=3, within=(RACK,)))]).starts
    for group in range(3):
        assert len({start.placement[ReplicaId(RoleName("worker"), 2 * group + i)] for i in range(2)}) == 1


def test_a_running_group_grows_in_its_own_rack() -> None:
    spec = job("a", role(4, groups=2, minimum=2, within=(RACK,)))
    gang = running(spec, {"r0": 1, "r1": 1})
    # Of the second group it is index 2 that runs.
    second = replace(gang.replicas[1], id=ReplicaId(RoleName("worker"), 2))
    gang = replace(gang, replicas=(gang.replicas[0], second))
    (grow,) = cycle(racks(1, 2), [gang]).grows
    assert {str(replica): spot for replica, spot in grow.added.items()} == {"worker-3": "r1"}


def test_a_gang_is_told_what_fits_in_the_best_rack() -> None:
    busy = [running(job(f"b{i}", role(size), priority=90), {f"r{i}": size}) for i, size in enumerate((3, 1))]
    why = cycle(racks(4, 4), [*busy, job("a", role(4), within=(ZONE, RACK))]).explanations[JobId("a")]
    assert why.constraint is Constraint.TOPOLOGY
    assert why.words()[0] == (
        "No single rack has room for all of it: 3 of the 4 'worker' replicas that it needs fit now in the best one."
    )


def test_a_group_is_told_what_fits_beside_the_rest() -> None:
    busy = [running(job("b", role(1)), {"r1": 1})]
    why = cycle(racks(4, 4), [*busy, job("a", role(8, groups=2, within=(RACK,)))]).explanations[JobId("a")]
    assert why.constraint is Constraint.TOPOLOGY
    assert why.words()[0] == (
        "No single rack has room for all its 'worker/0' replicas beside the rest of it: 3 of 4 fit now in the best one."
    )
    assert why.missing == {"gpu_millis": 1000}


def test_a_node_in_no_zone_is_not_used_and_that_is_said() -> None:
    why = cycle([node("n0", topology={"rack": "r0"})], [job("a", within=(ZONE, RACK))]).explanations[JobId("a")]
    assert why.constraint is Constraint.NODES
    assert "1 of 1 nodes: in no zone." in why.words()


def test_others_are_stopped_for_a_gang_of_groups() -> None:
    low = [running(job(f"low{i}", role(2), priority=10), {f"r{i}": 2}) for i in range(2)]
    decision = cycle(racks(2, 2), [*low, job("a", role(4, groups=2, within=(RACK,)), priority=90)], policies=AT_ONCE)
    assert {each.job_id for each in decision.evictions} == {"low0", "low1"}


def test_many_groups_are_placed_without_trying_every_choice() -> None:
    (start,) = cycle(racks(*[2] * 40), [job("a", role(80, groups=40, within=(RACK,)))]).starts
    assert set(where(start.placement).values()) == {2}
    why = cycle(racks(*[2] * 40), [job("a", role(82, groups=41, within=(RACK,)))]).explanations[JobId("a")]
    assert why.constraint is Constraint.TOO_LARGE


def test_a_gang_lives_only_while_every_group_has_its_minimum() -> None:
    stages = role(4, groups=2, minimum=2)
    assert stages.has_enough([0, 2])
    assert not stages.has_enough([0, 1])
