"""Which nodes replicas may use: node affinity as Kubernetes evaluates it, and rules of one role alone."""

from typing import Any

import pytest

from gangline.model import JobId, Match, NodeRequirement, NodeRule, RoleSpec, Toleration
from tests.scheduling.builders import cycle, job, node, role, taint, where

ZONES = [
    node("n0", labels={"zone": "a", "cores": "8"}),
    node("n1", labels={"zone": "b", "cores": "16"}),
    node("n2", labels={"cores": "many"}),
]


def requires(key: str, operator: Match, *values: str) -> NodeRequirement:
    return NodeRequirement(key=key, operator=operator, values=values)


def suited(*terms: tuple[NodeRequirement, ...]) -> set[str]:
    """The nodes that take a replica with this affinity, each tried by itself."""
    wanted = role(placement=NodeRule(node_affinity=terms))
    return {each.name for each in ZONES if cycle([each], [job("a", wanted)]).starts}


@pytest.mark.parametrize(
    ("requirement", "want"),
    [
        pytest.param(requires("zone", Match.IN, "a", "c"), {"n0"}, id="in"),
        pytest.param(requires("zone", Match.NOT_IN, "a"), {"n1", "n2"}, id="not in, or not there"),
        pytest.param(requires("zone", Match.EXISTS), {"n0", "n1"}, id="there"),
        pytest.param(requires("zone", Match.DOES_NOT_EXIST), {"n2"}, id="not there"),
        pytest.param(requires("cores", Match.ABOVE, "8"), {"n1"}, id="above, and no number is not"),
        pytest.param(requires("cores", Match.BELOW, "16"), {"n0"}, id="below"),
        pytest.param(requires("unknown", Match.ABOVE, "0"), set(), id="a label that nobody has"),
        pytest.param(requires("metadata.name", Match.IN, "n2"), {"n2"}, id="the node itself"),
    ],
)
def test_a_requirement_holds_where_kubernetes_says(requirement: NodeRequirement, want: set[str]) -> None:
    assert suited((requirement,)) == want


def test_all_of_a_term_must_hold_and_one_of_the_terms() -> None:
    zone, few = requires("zone", Match.EXISTS), requires("cores", Match.BELOW, "10")
    assert suited((zone, few)) == {"n0"}
    assert suited((zone, few), (requires("metadata.name", Match.IN, "n2"),)) == {"n0", "n2"}


def placed(machines: list[Any], *roles: RoleSpec, **rules: Any) -> dict[str, str]:
    """Which node each role of a gang of single replicas got; empty if it waits."""
    starts = cycle(machines, [job("a", *roles, **rules)]).starts
    return {replica.role: str(on) for start in starts for replica, on in start.placement.items()}


def test_each_role_goes_where_its_own_rule_says() -> None:
    machines = [
        node("memory", gpus=0, labels={"pool": "memory"}),
        node("tainted", taints=(taint("gpu"),)),
        node("plain", gpus=0),
    ]
    server = role(name="ps", gpus=0, placement=NodeRule(node_selector={"pool": "memory"}))
    trainer = role(placement=NodeRule(tolerations=(Toleration(key="gpu", operator="Exists"),)))
    assert placed(machines, server, trainer) == {"ps": "memory", "worker": "tainted"}


def test_a_gang_waits_when_the_rule_of_one_role_cannot_be_met() -> None:
    machines = [node("n0", labels={"pool": "any"})]
    picky = role(name="ps", gpus=0, placement=NodeRule(node_selector={"pool": "memory"}))
    assert placed(machines, picky, role()) == {}
    why = cycle(machines, [job("a", picky, role())]).explanations[JobId("a")]
    assert "label pool is not memory" in " ".join(each.rule for each in why.excluded)


def test_a_role_needs_what_the_job_says_too() -> None:
    machines = [node("n0", labels={"pool": "a"}), node("n1", labels={"pool": "a", "disk": "ssd"})]
    own = role(placement=NodeRule(node_selector={"disk": "ssd"}))
    assert placed(machines, own, selector={"pool": "a"}) == {"worker": "n1"}
    assert placed(machines, own, selector={"pool": "b"}) == {}


def test_roles_may_want_different_gpu_types() -> None:
    machines = [node("old", kind="v100"), node("new", kind="h200")]
    roles = [
        role(name="worker", placement=NodeRule(gpu_types=("h200", "a100"))),
        role(name="evaluator", placement=NodeRule(gpu_types=("v100",))),
    ]
    assert placed(machines, *roles) == {"worker": "new", "evaluator": "old"}


def test_a_role_that_may_use_few_nodes_is_not_crowded_out_of_them() -> None:
    machines = [node("n0", gpus=2, labels={"pool": "a"}), node("n1", gpus=2)]
    roles = [role(2, name="worker"), role(2, name="chief", placement=NodeRule(node_selector={"pool": "a"}))]
    decision = cycle(machines, [job("a", *roles)])
    (start,) = decision.starts
    assert where(start.placement) == {"n0": 2, "n1": 2}
    assert {on for replica, on in start.placement.items() if replica.role == "chief"} == {"n0"}
