"""Roles that attract and repel one another: placed by the rules, and refused only when no placement obeys them."""

from collections.abc import Sequence
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.model import AffinityKind, AffinityTerm, Job, Node, NodeRequirement, NodeRule, ReplicaId
from gangline.scheduling import Policies
from tests.scheduling.builders import cycle, job, node, role

ALONE = Policies(preemption=False, reclaim=False, defragmentation=False, reservation=False)
NAMES = ("a", "b", "c")


def rule(kind: AffinityKind, name: str, level: str) -> AffinityTerm:
    return AffinityTerm(kind=kind, level=level, labels=(NodeRequirement(key="name", values=(name,)),))


@st.composite
def machines(draw: st.DrawFn) -> list[Node]:
    racks: list[dict[str, str]] = [{}, {"rack": "r0"}, {"rack": "r1"}]
    return [
        node(
            f"n{number}",
            gpus=draw(st.integers(0, 2)),
            cpus=draw(st.integers(1, 4)),
            topology=draw(st.sampled_from(racks)),
        )
        for number in range(draw(st.integers(1, 4)))
    ]


@st.composite
def gangs(draw: st.DrawFn) -> Job:
    names = NAMES[: draw(st.integers(1, 3))]
    rules = st.builds(
        rule,
        st.sampled_from([AffinityKind.ANTI_AFFINITY, AffinityKind.ANTI_AFFINITY, AffinityKind.AFFINITY]),
        st.sampled_from(names),
        st.sampled_from(["node", "rack"]),
    )  # fmt: skip
    roles = [
        role(
            draw(st.integers(1, 2)),
            name=name,
            gpus=draw(st.sampled_from([0, 1])),
            cpus=draw(st.sampled_from([1, 2])),
            labels={"name": name},
            placement=NodeRule(pod_affinity=tuple(draw(st.lists(rules, max_size=2)))),
        )
        for name in names
    ]
    return job("j", *roles)


def domain(one: Node, level: str) -> str | None:
    return one.name if level == "node" else one.topology.get(level)


def obeys(each: Job, replicas: Sequence[ReplicaId], places: Sequence[Node]) -> bool:
    """Whether every replica has the company it wants, and none that it does not bear."""
    for number, (replica, place) in enumerate(zip(replicas, places, strict=True)):
        for pod_affinity in each.spec.nodes_of(each.spec.role(replica.role)).pod_affinity:
            mine = domain(place, pod_affinity.level)
            meant = [
                domain(there, pod_affinity.level)
                for other, (mate, there) in enumerate(zip(replicas, places, strict=True))
                if mate.role == pod_affinity.labels[0].values[0]
                and (other != number or pod_affinity.kind is AffinityKind.AFFINITY)
            ]
            if pod_affinity.kind is AffinityKind.ANTI_AFFINITY and mine is not None and mine in meant:
                return False
            if pod_affinity.kind is AffinityKind.AFFINITY and (mine is None or set(meant) != {mine}):
                return False
    return True


def has_room(each: Job, replicas: Sequence[ReplicaId], places: Sequence[Node]) -> bool:
    for one in places:
        here = [
            each.spec.role(replica.role).resources for replica, at in zip(replicas, places, strict=True) if at is one
        ]
        if sum(asked.cpu_millis for asked in here) > one.capacity.cpu_millis:
            return False
        if sum(asked.gpu_millis for asked in here) > one.capacity.gpu_millis:
            return False
    return True


@settings(max_examples=400, deadline=None)
@given(machines(), gangs())
def test_a_gang_is_placed_by_its_rules_whenever_that_is_possible(nodes: list[Node], each: Job) -> None:
    replicas = [ReplicaId(one.name, index) for one in each.spec.roles for index in range(one.replicas)]
    decision = cycle(nodes, [each], policies=ALONE)
    by_name = {one.name: one for one in nodes}
    for start in decision.starts:
        places = [by_name[start.placement[replica]] for replica in replicas]
        assert has_room(each, replicas, places)
        assert obeys(each, replicas, places)
    possible = any(
        has_room(each, replicas, places) and obeys(each, replicas, places)
        for places in product(nodes, repeat=len(replicas))
    )
    assert bool(decision.starts) == possible


def test_roles_that_lie_together_need_not_take_the_best_node_of_a_rack() -> None:
    nodes = [node(f"n{number}", gpus=0, cpus=number + 1, topology={"rack": "r0"}) for number in range(2)]
    alone = NodeRule(pod_affinity=(rule(AffinityKind.ANTI_AFFINITY, "a", "rack"),))
    beside = NodeRule(pod_affinity=(rule(AffinityKind.AFFINITY, "a", "node"),))
    roles = [
        role(1, name=name, gpus=0, cpus=1, labels={"name": name}, placement=rule)
        for name, rule in (("a", alone), ("b", beside))
    ]
    (start,) = cycle(nodes, [job("j", *roles)], policies=ALONE).starts
    assert set(start.placement.values()) == {"n1"}
