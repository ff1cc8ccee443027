"""Scenarios as a specification: replicas that attract or repel others within a domain, and nodes that they prefer."""

from typing import Any

import pytest

from gangline.model import (
    AffinityKind,
    AffinityTerm,
    JobId,
    Match,
    NodePreference,
    NodeRequirement,
    NodeRule,
    Prefer,
    RoleSpec,
    Tenant,
)
from gangline.scheduling import Constraint
from tests.scheduling.builders import Scenario, cycle, job, node, nodes, role, running

NEIGHBOURS, TOO_LARGE, TOPOLOGY = Constraint.NEIGHBOURS, Constraint.TOO_LARGE, Constraint.TOPOLOGY
LONG = {"expected_seconds": 100_000.0}
DB, WEB = {"app": "db"}, {"app": "web"}


def attracts(app: str, level: str = "node", **more: Any) -> AffinityTerm:
    return AffinityTerm(
        kind=AffinityKind.AFFINITY, level=level, labels=(NodeRequirement(key="app", values=(app,)),), **more
    )


def repels(app: str, level: str = "node", **more: Any) -> AffinityTerm:
    return AffinityTerm(
        kind=AffinityKind.ANTI_AFFINITY, level=level, labels=(NodeRequirement(key="app", values=(app,)),), **more
    )


def apps(replicas: int = 1, app: str = "db", *pod_affinity: AffinityTerm, **more: Any) -> RoleSpec:
    """A role whose replicas are labelled, with the company it wants."""
    return role(replicas, labels={"app": app}, placement=NodeRule(pod_affinity=pod_affinity), **more)


AMONG_THEMSELVES = [
    Scenario(
        "repels its own kind: one a node",
        nodes(3),
        [job("a", apps(3, "db", repels("db")))],
        starts={"a": {"n0": 1, "n1": 1, "n2": 1}},
    ),
    Scenario(
        "repels its own kind: too few nodes", nodes(2), [job("a", apps(3, "db", repels("db")))], waits={"a": TOO_LARGE}
    ),
    Scenario(
        "repels its own kind: one a rack",
        nodes(4, racks=2),
        [job("a", apps(2, "db", repels("db", "rack")))],
        starts={"a": {"n0": 1, "n2": 1}},
    ),
    Scenario(
        "repels its own kind: nodes outside every rack are free",
        nodes(1),
        [job("a", apps(3, "db", repels("db", "rack")))],
        starts={"a": {"n0": 3}},
    ),
    Scenario(
        "repels its own kind in any label of nodes",
        [node("n0", labels={"row": "x"}), node("n1", labels={"row": "x"}), node("n2", labels={"row": "y"})],
        [job("a", apps(2, "db", repels("db", "row")))],
        starts={"a": {"n0": 1, "n2": 1}},
    ),
    Scenario(
        "repels another role: they share no node, but each packs",
        nodes(2),
        [job("a", apps(3, "web"), apps(2, "db", repels("web"), name="ps"))],
        starts={"a": {"n0": 3, "n1": 2}},
    ),
    Scenario(
        "repels another role: room is left for it where it fits",
        [node("n0", gpus=8), node("n1", gpus=2)],
        [job("a", apps(2, "web", gpus=1), apps(2, "db", repels("web"), name="ps", gpus=4))],
        starts={"a": {"n0": 2, "n1": 2}},
    ),
    Scenario(
        "repels another role: the quick way fails and a search finds the mixture",
        [node("n0", gpus=4, cpus=8), node("n1", gpus=4, cpus=4), node("n2", gpus=0, cpus=8)],
        [job("a", apps(2, "web", gpus=0, cpus=4), apps(2, "db", repels("web"), name="ps", gpus=4, cpus=4))],
        starts={"a": {"n0": 1, "n1": 1, "n2": 2}},
    ),
    Scenario(
        "repels another role by rack, which a search settles",
        [
            node("n0", gpus=2, cpus=8, topology={"rack": "r0"}),
            node("n1", gpus=1, cpus=8, topology={"rack": "r0"}),
            node("n2", gpus=3, cpus=1, topology={"rack": "r1"}),
        ],
        [job("a", apps(3, "web", gpus=1, cpus=4), apps(1, "db", repels("web", "rack"), name="ps", gpus=2))],
        starts={"a": {"n0": 2, "n1": 1, "n2": 1}},
    ),
    Scenario(
        "attracts its own kind: one rack for all",
        nodes(4, racks=2, gpus=4),
        [running(job("x", role(5), **LONG), {"n0": 4, "n1": 1}), job("a", apps(5, "db", attracts("db", "rack")))],
        starts={"a": {"n2": 4, "n3": 1}},
    ),
    Scenario(
        "attracts its own kind: no rack has room",
        nodes(4, racks=2, gpus=4),
        [job("x", apps(9, "db", attracts("db", "rack")))],
        waits={"x": TOO_LARGE},
    ),
    Scenario(
        "attracts its own kind: other roles of the gang go where they like",
        nodes(4, racks=2, gpus=4),
        [job("a", apps(8, "db", attracts("db", "rack")), apps(8, "web", name="ps"))],
        starts={"a": {"n0": 4, "n1": 4, "n2": 4, "n3": 4}},
    ),
    Scenario(
        "attracts another role: both in one rack",
        nodes(4, racks=2, gpus=4),
        [job("a", apps(4, "db", attracts("web", "rack")), apps(4, "web", name="ps"))],
        starts={"a": {"n0": 4, "n1": 4}},
    ),
    Scenario(
        "together in a rack and apart on nodes",
        nodes(4, racks=2),
        [job("a", apps(2, "db", attracts("db", "rack"), repels("db")))],
        starts={"a": {"n0": 1, "n1": 1}},
    ),
    Scenario(
        "surplus keeps to it",
        nodes(3),
        [job("a", apps(5, "db", repels("db"), minimum=2))],
        starts={"a": {"n0": 1, "n1": 1, "n2": 1}},
    ),
    Scenario(
        "a running gang grows where its other roles allow it",
        nodes(3),
        [
            running(
                job("a", apps(4, "web", minimum=1), apps(1, "db", repels("web"), name="ps")),
                {"worker": {"n0": 1}, "ps": {"n1": 1}},
            )
        ],
        grows={"a": {"n0": 3}},
    ),
    Scenario(
        "a running gang that must be together grows in its rack alone",
        nodes(4, racks=2, gpus=2),
        [running(job("a", apps(6, "db", attracts("db", "rack"), minimum=1)), {"n3": 1})],
        grows={"a": {"n2": 2, "n3": 1}},
    ),
]

TOWARDS_OTHERS = [
    Scenario(
        "repels others: not where they run",
        nodes(2),
        [running(job("x", apps(1, "web")), {"n0": 1}), job("a", apps(1, "db", repels("web")))],
        starts={"a": {"n1": 1}},
    ),
    Scenario(
        "repels others: not in their rack",
        nodes(4, racks=2),
        [running(job("x", apps(1, "web")), {"n0": 1}), job("a", apps(2, "db", repels("web", "rack")))],
        starts={"a": {"n2": 2}},
    ),
    Scenario(
        "repels others: only the role that says so",
        nodes(2),
        [
            running(job("x", apps(1, "web")), {"n0": 1}),
            job("a", apps(8, "db", repels("web")), apps(1, "other", name="ps")),
        ],
        starts={"a": {"n0": 1, "n1": 8}},
    ),
    Scenario(
        "repels others: they keep away from it too",
        nodes(2),
        [running(job("x", apps(1, "db", repels("web"))), {"n0": 1}), job("a", apps(1, "web")), job("b", apps())],
        starts={"a": {"n1": 1}, "b": {"n0": 1}},
    ),
    Scenario(
        "repels others: in one cycle too",
        nodes(2),
        [job(name, apps(1, "db", repels("db")), age=age) for name, age in (("a", 3), ("b", 2), ("c", 1))],
        starts={"a": {"n0": 1}, "b": {"n1": 1}},
        waits={"c": NEIGHBOURS},
    ),
    Scenario(
        "repels others: not those of another tenant",
        nodes(1),
        [
            running(job("x", apps(1, "web")), {"n0": 1}),
            job("a", apps(1, "db", repels("web", tenants=(Tenant("elsewhere"),)))),
        ],
        starts={"a": {"n0": 1}},
    ),
    Scenario(
        "repels others: labels of jobs are not those of replicas",
        nodes(1),
        [running(job("x", labels=WEB), {"n0": 1}), job("a", apps(1, "db", repels("web")))],
        starts={"a": {"n0": 1}},
    ),
    Scenario(
        "repels everybody without a label",
        nodes(2),
        [
            running(job("x", role()), {"n0": 1}),
            job(
                "a",
                apps(
                    1,
                    "db",
                    AffinityTerm(
                        kind=AffinityKind.ANTI_AFFINITY,
                        level="node",
                        labels=(NodeRequirement(key="app", operator=Match.DOES_NOT_EXIST),),
                    ),
                ),
            ),
        ],
        starts={"a": {"n1": 1}},
    ),
    Scenario(
        "repels others: where somebody is who belongs to no job",
        nodes(2),
        [job("a", apps(1, "db", repels("web", present=("n0",))))],
        starts={"a": {"n1": 1}},
    ),
    Scenario(
        "attracts others: only where they run",
        nodes(4, racks=2),
        [running(job("x", apps(1, "web")), {"n2": 1}), job("a", apps(9, "db", attracts("web", "rack")))],
        starts={"a": {"n2": 1, "n3": 8}},
    ),
    Scenario(
        "attracts others: nobody is there",
        nodes(2),
        [job("a", apps(1, "db", attracts("web")))],
        waits={"a": NEIGHBOURS},
    ),
    Scenario(
        "attracts others: somebody is there who belongs to no job",
        nodes(2),
        [job("a", apps(1, "db", attracts("web", present=("n1",))))],
        starts={"a": {"n1": 1}},
    ),
    Scenario(
        "attracts its own kind: the first begins anywhere, and the next follows in the same cycle",
        nodes(2),
        [job("a", apps(1, "db", attracts("db")), age=9, prefer=Prefer.SPREAD), job("b", apps(1, "db", attracts("db")))],
        starts={"a": {"n0": 1}, "b": {"n0": 1}},
    ),
    Scenario(
        "attracts its own kind: where the others are if there are any",
        nodes(3),
        [running(job("x", apps(1, "db")), {"n2": 1}), job("a", apps(2, "db", attracts("db")))],
        starts={"a": {"n2": 2}},
    ),
]


def liking(label: str, weight: int = 10) -> NodePreference:
    key, _, value = label.partition("=")
    return NodePreference(weight, (NodeRequirement(key=key, values=(value,)),))


def choosing(*preferences: NodePreference, replicas: int = 1) -> RoleSpec:
    return role(replicas, placement=NodeRule(preferences=preferences))


SSD = [node("n0"), node("n1", labels={"disk": "ssd"}), node("n2", labels={"disk": "ssd", "net": "fast"})]
PREFERENCES = [
    Scenario("prefers a node", SSD, [job("a", choosing(liking("disk=ssd")))], starts={"a": {"n1": 1}}),
    Scenario(
        "prefers the node that more of it speaks for",
        SSD,
        [job("a", choosing(liking("disk=ssd"), liking("net=fast", 1)))],
        starts={"a": {"n2": 1}},
    ),
    Scenario(
        "prefers what weighs more",
        [node("n0", labels={"net": "fast"}), node("n1", labels={"disk": "ssd"})],
        [job("a", choosing(liking("disk=ssd", 20), liking("net=fast", 10)))],
        starts={"a": {"n1": 1}},
    ),
    Scenario(
        "prefers nodes for a whole gang before it packs",
        [node("n0", gpus=16), *SSD[1:]],
        [job("a", choosing(liking("disk=ssd"), replicas=10))],
        starts={"a": {"n1": 8, "n2": 2}},
    ),
    Scenario(
        "a preference gives way",
        SSD[:2],
        [running(job("x", role(8), **LONG), {"n1": 8}), job("a", choosing(liking("disk=ssd")))],
        starts={"a": {"n0": 1}},
    ),
    Scenario(
        "a preference holds for each of many single replicas",
        [node("n0", gpus=64), node("n1", gpus=20, labels={"disk": "ssd"})],
        [job(f"a{number:02}", choosing(liking("disk=ssd"))) for number in range(20)],
        starts={f"a{number:02}": {"n1": 1} for number in range(20)},
    ),
]


@pytest.mark.parametrize(
    "scenario", [*AMONG_THEMSELVES, *TOWARDS_OTHERS, *PREFERENCES], ids=lambda scenario: scenario.id
)
def test_replicas_are_placed_by_the_company_they_want(scenario: Scenario) -> None:
    scenario.check()


def test_wishes_about_others_are_explained() -> None:
    busy = running(job("x", apps(1, "web"), **LONG), {"n0": 1})
    rules = (repels("web", "rack"), attracts("cache"))
    why = cycle(nodes(2, racks=2), [busy, job("a", apps(1, "db", *rules))]).explanations[JobId("a")]
    assert [(each.rule, each.nodes) for each in why.excluded] == [
        ("a replica with app=web runs in its rack", 2),
        ("no replica with app=cache runs there", 2),
    ]


def test_who_is_kept_away_is_told_so() -> None:
    hostile = running(job("x", apps(1, "web", repels("db")), **LONG), {"n0": 1})
    kept = AffinityTerm(kind=AffinityKind.ANTI_AFFINITY, level="node", tenants=(), present=("n1",))
    why = cycle(nodes(2), [hostile, job("a", apps(1, "db", kept))]).explanations[JobId("a")]
    assert [each.rule for each in why.excluded] == [
        "somebody who keeps it away runs there",
        "somebody there keeps those with its labels away",
    ]


def test_a_reason_that_bars_every_node_is_told() -> None:
    barred = role(placement=NodeRule(barred=("its pod template is not understood",)))
    why = cycle(nodes(2), [job("a", barred)]).explanations[JobId("a")]
    assert why.constraint is Constraint.NODES
    assert [(each.rule, each.nodes) for each in why.excluded] == [("its pod template is not understood", 2)]


def test_what_must_lie_together_or_apart_is_told() -> None:
    together = job("a", apps(9, "db", attracts("db"), gpus=1))
    apart = job("b", apps(3, "db", repels("db"), repels("web")), apps(1, "web", name="ps"))
    found = cycle(nodes(2), [together, apart]).explanations
    assert "It must share a node with a replica with app=db." in found[JobId("a")].helps
    assert "No two 'worker' replicas may share a node, and 2 have room." in found[JobId("b")].helps
    assert "No 'ps' and 'worker' replicas may share a node, and 2 have room." in found[JobId("b")].helps
