"""Replicas that lie evenly over domains, as topology spread constraints ask for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.model import JobId, NodeRule, RoleSpec, TopologySpread
from gangline.scheduling import Constraint
from gangline.scheduling.nodes.table import table_of
from gangline.scheduling.placement.topology_spread import evenly
from tests.scheduling.builders import Scenario, cycle, job, node, nodes, role, running

RACK, NODE = TopologySpread(level="rack"), TopologySpread(level="node")
LONG = {"expected_seconds": 100_000.0}


def topology_spread(replicas: int, *rules: TopologySpread, minimum: int | None = None) -> RoleSpec:
    return role(replicas, placement=NodeRule(topology_spread=rules), minimum=minimum)


SCENARIOS = [
    Scenario("over racks", nodes(4, racks=2), [job("a", topology_spread(4, RACK))], starts={"a": {"n0": 2, "n2": 2}}),
    Scenario(
        "over racks, with one left over",
        nodes(4, racks=2),
        [job("a", topology_spread(5, RACK))],
        starts={"a": {"n0": 3, "n2": 2}},
    ),
    Scenario(
        "over racks and nodes",
        nodes(4, racks=2),
        [job("a", topology_spread(4, RACK, NODE))],
        starts={"a": {"n0": 1, "n1": 1, "n2": 1, "n3": 1}},
    ),
    Scenario(
        "a full rack counts too, and allows the others one more than it has",
        nodes(4, racks=2),
        [running(job("x", role(15), **LONG), {"n0": 8, "n1": 7}), job("a", topology_spread(4, RACK))],
        waits={"a": Constraint.RESOURCES},
    ),
    Scenario(
        "as far as a nearly full rack allows",
        nodes(4, racks=2),
        [running(job("x", role(15), **LONG), {"n0": 8, "n1": 7}), job("a", topology_spread(3, RACK))],
        starts={"a": {"n1": 1, "n2": 2}},
    ),
    Scenario(
        "with more difference where that is allowed",
        nodes(4, racks=2),
        [
            running(job("x", role(15), **LONG), {"n0": 8, "n1": 7}),
            job("a", topology_spread(4, TopologySpread(level="rack", skew=2))),
        ],
        starts={"a": {"n1": 1, "n2": 3}},
    ),
    Scenario(
        "nodes outside every domain are not used",
        [*nodes(1), *nodes(2, racks=1, prefix="r")],
        [job("a", topology_spread(2, RACK))],
        starts={"a": {"r0": 1, "r1": 1}},
    ),
    Scenario(
        "as it grows",
        nodes(3),
        [running(job("a", topology_spread(5, NODE, minimum=1)), {"n1": 1})],
        grows={"a": {"n0": 2, "n2": 2}},
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_replicas_are_spread_as_evenly_as_they_ask(scenario: Scenario) -> None:
    scenario.check()


def test_it_is_explained() -> None:
    why = cycle(nodes(1), [job("a", topology_spread(9, NODE))]).explanations[JobId("a")]
    assert why.constraint is Constraint.TOO_LARGE
    assert "No node may have over 1 more 'worker' replicas than another." in why.helps


@given(
    room=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=8),
    present=st.lists(st.integers(0, 7), max_size=4),
    wanted=st.integers(1, 20),
    skew=st.integers(1, 3),
)
def test_whatever_is_chosen_has_room_and_is_even(
    room: list[tuple[int, int]], present: list[int], wanted: int, skew: int
) -> None:
    machines = [node(f"n{number}", topology={"rack": f"r{rack}"}) for number, (rack, _) in enumerate(room)]
    table = table_of(machines)
    counts = np.array([free for _, free in room])
    there = [row for row in present if row < len(room)]
    everywhere = np.ones(len(room), dtype=np.bool_)
    rules = [TopologySpread(level="rack", skew=skew)]
    chosen = evenly(table, rules, counts, usable=everywhere, present=there, wanted=wanted)
    assert (chosen >= 0).all()
    assert (chosen <= counts).all()
    assert chosen.sum() <= wanted
    totals = {rack: 0 for rack, _ in room}
    for row in there:
        totals[room[row][0]] += 1
    got = dict.fromkeys(totals, 0)
    for (rack, _), more in zip(room, chosen.tolist(), strict=True):
        got[rack] += more
    least = min(totals[rack] + got[rack] for rack in totals)
    assert all(totals[rack] + got[rack] - least <= skew for rack in totals if got[rack])
