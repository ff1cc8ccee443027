"""Scenarios as a specification: replicas apart, and gangs near or away from others."""

import pytest

from gangline.model import JobId, Prefer
from gangline.scheduling import Constraint
from tests.scheduling.builders import NOW, Scenario, cycle, job, node, nodes, role, running

RESOURCES = Constraint.RESOURCES
TOO_LARGE = Constraint.TOO_LARGE
LONG = {"expected_seconds": 100_000.0}

APART = [
    Scenario(
        "apart: one replica a node",
        nodes(3),
        [job("a", role(3), apart="node")],
        starts={"a": {"n0": 1, "n1": 1, "n2": 1}},
    ),
    Scenario("apart: more replicas than nodes", nodes(2), [job("a", role(3), apart="node")], waits={"a": TOO_LARGE}),
    Scenario(
        "apart: a full node does not count",
        nodes(2),
        [running(job("x", role(8), **LONG), {"n0": 8}), job("a", role(2), apart="node")],
        waits={"a": RESOURCES},
    ),
    Scenario(
        "apart: one replica a rack",
        nodes(4, racks=2),
        [job("a", role(2), apart="rack")],
        starts={"a": {"n0": 1, "n2": 1}},
    ),
    Scenario(
        "apart: the rack's roomy node is found",
        nodes(4, racks=2),
        [running(job("x", role(16), **LONG), {"n0": 8, "n2": 8}), job("a", role(2, gpus=8), apart="rack")],
        starts={"a": {"n1": 1, "n3": 1}},
    ),
    Scenario(
        "apart: more replicas than racks", nodes(4, racks=2), [job("a", role(3), apart="rack")], waits={"a": TOO_LARGE}
    ),
    Scenario(
        "apart: nodes outside every rack are not used", nodes(2), [job("a", apart="rack")], waits={"a": TOO_LARGE}
    ),
    Scenario(
        "apart: nodes apart within one rack",
        nodes(4, racks=2),
        [job("a", role(2), apart="node", within="rack")],
        starts={"a": {"n0": 1, "n1": 1}},
    ),
    Scenario(
        "apart: each role on its own",
        nodes(2),
        [job("a", role(2, name="ps", gpus=0), role(2), apart="node")],
        starts={"a": {"n0": 2, "n1": 2}},
    ),
    Scenario(
        "apart: roles that only fit in one mixture",
        [node("n0", gpus=4, cpus=4), node("n1", gpus=3, cpus=8), node("n2", gpus=1, cpus=4)],
        [job("a", role(1, name="chief", gpus=3), role(2, gpus=1, cpus=4), apart="node")],
        starts={"a": {"n0": 1, "n1": 1, "n2": 1}},
    ),
    Scenario(
        "apart: roles that only fit in one arrangement of racks",
        [
            node("n0", gpus=4, topology={"rack": "r0"}),
            node("n1", gpus=4, topology={"rack": "r1"}),
            node("n2", gpus=2, topology={"rack": "r1"}),
        ],
        [job("a", role(1, name="chief", gpus=4), role(2, gpus=2), apart="rack")],
        starts={"a": {"n0": 1, "n1": 1, "n2": 1}},
    ),
    Scenario(
        "apart: roles for which no arrangement of racks exists",
        nodes(4, racks=2, gpus=4),
        [job("a", role(2, name="chief", gpus=4), role(3, gpus=2), apart="rack")],
        waits={"a": TOO_LARGE},
    ),
    Scenario(
        "apart: surplus goes to other nodes",
        nodes(3),
        [job("a", role(5, minimum=2), apart="node")],
        starts={"a": {"n0": 1, "n1": 1, "n2": 1}},
    ),
    Scenario(
        "apart: a running gang grows to other nodes",
        nodes(3),
        [running(job("a", role(3, minimum=1), apart="node"), {"n1": 1})],
        grows={"a": {"n0": 1, "n2": 1}},
    ),
    Scenario(
        "apart: room is made on as many nodes as it takes",
        nodes(2),
        [
            running(job("x", role(8, cpus=1), priority=1), {"n0": 8}),
            running(job("y", role(8), priority=1), {"n1": 8}),
            job("a", role(2), apart="node"),
        ],
        waits={"a": Constraint.MAKING_ROOM},
        evicts={"x": "a", "y": "a"},
    ),
]

CACHE, OTHER = {"app": "cache"}, {"app": "other"}
NEIGHBOURS = Constraint.NEIGHBOURS

NEIGHBOURHOOD = [
    Scenario(
        "near: only beside a job with the label",
        nodes(3),
        [running(job("x", labels=CACHE), {"n2": 1}), job("a", role(2), near=CACHE)],
        starts={"a": {"n2": 2}},
    ),
    Scenario("near: nobody has the label", nodes(2), [job("a", near=CACHE)], waits={"a": NEIGHBOURS}),
    Scenario(
        "near: one job must have all of the labels",
        nodes(2),
        [
            running(job("x", labels=CACHE), {"n0": 1}),
            running(job("y", labels={"tier": "1"}), {"n0": 1}),
            job("a", near={**CACHE, "tier": "1"}),
        ],
        waits={"a": NEIGHBOURS},
    ),
    Scenario(
        "near: the first of a group begins anywhere, and the second joins it in the same cycle",
        nodes(2),
        [job("a", role(2), age=9, labels=CACHE, near=CACHE, prefer=Prefer.SPREAD), job("b", labels=CACHE, near=CACHE)],
        starts={"a": {"n0": 1, "n1": 1}, "b": 1},
    ),
    Scenario(
        "near: no room beside the job",
        nodes(2),
        [running(job("x", role(8), labels=CACHE, **LONG), {"n0": 8}), job("a", near=CACHE)],
        waits={"a": NEIGHBOURS},
    ),
    Scenario(
        "away: not beside a job with the label",
        nodes(2),
        [running(job("x", labels=OTHER), {"n0": 1}), job("a", away=OTHER)],
        starts={"a": {"n1": 1}},
    ),
    Scenario(
        "away: nowhere else to go",
        nodes(1),
        [running(job("x", labels=OTHER, **LONG), {"n0": 1}), job("a", away=OTHER)],
        waits={"a": NEIGHBOURS},
    ),
    Scenario(
        "away: the others keep away, too",
        nodes(2),
        [running(job("x", away=OTHER), {"n0": 1}), job("a", labels=OTHER), job("b", labels=CACHE)],
        starts={"a": {"n1": 1}, "b": {"n0": 1}},
    ),
    Scenario(
        "away: jobs that start in one cycle keep away from each other",
        nodes(2),
        [job(name, labels=OTHER, away=OTHER, age=age) for name, age in (("a", 3), ("b", 2), ("c", 1))],
        starts={"a": {"n0": 1}, "b": {"n1": 1}},
        waits={"c": NEIGHBOURS},
    ),
    Scenario(
        "away: replicas of one gang do not repel each other",
        nodes(1),
        [job("a", role(2), labels=OTHER, away=OTHER)],
        starts={"a": {"n0": 2}},
    ),
    Scenario(
        "away: a gang grows only where it may start",
        nodes(2),
        [running(job("x", labels=OTHER), {"n0": 1}), running(job("a", role(4, minimum=1), away=OTHER), {"n1": 1})],
        grows={"a": {"n1": 3}},
    ),
    Scenario(
        "away: nobody is stopped for it",
        nodes(1),
        [running(job("x", labels=OTHER, priority=1), {"n0": 1}), job("a", away=OTHER, priority=90)],
        waits={"a": NEIGHBOURS},
    ),
    Scenario(
        "near and away together",
        nodes(3),
        [
            running(job("x", role(2), labels=CACHE), {"n0": 1, "n1": 1}),
            running(job("y", labels=OTHER), {"n0": 1}),
            job("a", near=CACHE, away=OTHER),
        ],
        starts={"a": {"n1": 1}},
    ),
]


def test_wishes_about_neighbours_are_explained() -> None:
    busy = running(job("x", labels=OTHER, **LONG), {"n0": 1})
    why = cycle(nodes(2), [busy, job("a", near=CACHE, away=OTHER)]).explanations[JobId("a")]
    assert [(each.rule, each.nodes) for each in why.excluded] == [
        ("no job with app=cache runs there", 2),
        ("a job with app=other runs there", 1),
    ]
    assert why.words()[0].startswith("No node with room")


def test_a_gang_that_keeps_away_is_first_in_line_until_the_others_are_gone() -> None:
    busy = running(job("x", role(1), labels=OTHER, expected_seconds=5000), {"n0": 1}, since=1000)
    decision = cycle(nodes(1), [busy, job("a", role(8), age=9, away=OTHER), job("late", role(1), **LONG)])
    assert not decision.starts
    assert decision.explanations[JobId("a")].predicted_start_at == NOW + 4000
    assert decision.explanations[JobId("late")].behind == "a"


@pytest.mark.parametrize(
    "scenario",
    [*APART, *NEIGHBOURHOOD],
    ids=lambda scenario: scenario.id,
)
def test_a_gang_goes_where_its_neighbours_allow_it(scenario: Scenario) -> None:
    scenario.check()
