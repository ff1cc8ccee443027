"""What an explanation says is so: undo the obstacle that it names, and the gang starts."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.model import Job, Node, NodeName, NodeRule, Queue, Toleration, TopologySpread
from gangline.scheduling import Constraint, Explanation, Policies
from tests.scheduling.builders import cycle, job, node, queue, role, running, taint

ALONE = Policies(reserve_after_seconds=0.0, preemption=False, reclaim=False, defragmentation=False)
"""Nobody makes room, so that whatever is said is about the gang itself."""
ANY = Toleration(operator="Exists")


@st.composite
def machines(draw: st.DrawFn) -> list[Node]:
    return [
        node(
            f"n{number}",
            gpus=draw(st.integers(0, 3)),
            cpus=draw(st.integers(1, 5)),
            kind=draw(st.sampled_from(["a100", "h200"])),
            labels=draw(st.sampled_from([{}, {"zone": "a"}])),
            topology={"rack": draw(st.sampled_from(["r0", "r1"]))},
            ready=draw(st.sampled_from([True, True, True, False])),
            cordoned=draw(st.sampled_from([False, False, False, True])),
            taints=draw(st.sampled_from([(), (), (taint("slow"),)])),
            shares_gpus=draw(st.sampled_from([True, True, False])),
        )
        for number in range(draw(st.integers(1, 4)))
    ]


@st.composite
def gangs(draw: st.DrawFn, name: str) -> Job:
    roles = [
        role(
            replicas := draw(st.integers(1, 4)),
            name=f"role{number}",
            gpus=draw(st.sampled_from([0, 0.4, 0.6, 1, 1.5, 2])),
            cpus=draw(st.sampled_from([0, 1, 2, 3])),
            minimum=draw(st.one_of(st.none(), st.integers(1, replicas))),
            placement=draw(
                st.sampled_from([NodeRule()] * 3 + [NodeRule(topology_spread=(TopologySpread(level="rack"),))])
            ),
        )
        for number in range(draw(st.sampled_from([1, 1, 1, 2])))
    ]
    return job(
        name,
        *roles,
        labels=draw(st.sampled_from([{}, {"app": "x"}])),
        selector=draw(st.sampled_from([{}, {}, {"zone": "a"}])),
        kinds=draw(st.sampled_from([(), (), ("a100",), ("h200", "a100")])),
        tolerations=draw(st.sampled_from([(), (ANY,)])),
        within=draw(st.sampled_from([None, None, None, "rack"])),
        apart=draw(st.sampled_from([None, None, None, "node", "rack"])),
        away=draw(st.sampled_from([{}, {}, {}, {"app": "x"}])),
        near=draw(st.sampled_from([{}, {}, {}, {}, {"app": "x"}])),
    )


def begun(nodes: Sequence[Node], jobs: Sequence[Job]) -> list[Job]:
    """Those of the jobs that start, running."""
    started = []
    for start in cycle(nodes, jobs, policies=ALONE).starts:
        on: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for replica, spot in sorted(start.placement.items()):
            on[replica.role][spot] += 1
        started.append(running(next(each for each in jobs if each.id == start.job_id), on))
    return started


def starts(nodes: Sequence[Node], others: Sequence[Job], each: Job, queues: Sequence[Queue] = ()) -> bool:
    return any(start.job_id == each.id for start in cycle(nodes, [*others, each], queues, ALONE).starts)


def fewer(each: Job, count: int) -> Job:
    one = replace(each.spec.roles[0], replicas=count, minimum=None)
    return replace(each, spec=replace(each.spec, roles=(one,)))


def without(rule: str, nodes: Sequence[Node], each: Job) -> tuple[list[Node], Job]:
    """The world in which a rule excludes nobody."""
    if rule.startswith("GPU type"):
        free = replace(each.spec.placement, gpu_types=())
        return list(nodes), replace(each, spec=replace(each.spec, placement=free))
    if rule.startswith("label"):
        return [replace(one, labels={**one.labels, "zone": "a"}) for one in nodes], each
    changed = {"not ready": {"ready": True}, "cordoned": {"cordoned": False}}.get(rule, {"taints": ()})
    return [replace(one, **changed) for one in nodes], each  # type: ignore[arg-type]


def check_constraint(why: Explanation, nodes: list[Node], others: list[Job], each: Job) -> None:
    match why.constraint:
        case Constraint.TOO_LARGE | Constraint.NODES:
            # Whom it wants to be near is not in its way.
            near = replace(each, spec=replace(each.spec, placement=replace(each.spec.placement, near={})))
            assert not starts(nodes, (), near)
            if why.constraint is Constraint.TOO_LARGE and len(each.spec.roles) == 1 and not each.spec.placement.within:
                assert why.possible == 0 or starts(nodes, (), fewer(near, why.possible))
                assert not starts(nodes, (), fewer(near, why.possible + 1))
        case Constraint.NEIGHBOURS:
            still = [
                replace(one, spec=replace(one.spec, placement=replace(one.spec.placement, away={}))) for one in others
            ]
            free = replace(each.spec.placement, near={}, away={})
            assert starts(nodes, still, replace(each, spec=replace(each.spec, placement=free)))
        case Constraint.RESOURCES | Constraint.TOPOLOGY:
            gone = replace(each, spec=replace(each.spec, placement=replace(each.spec.placement, near={})))
            assert starts(nodes, (), gone)


def check_helps(why: Explanation, nodes: list[Node], others: list[Job], each: Job) -> None:
    for sentence in why.helps:
        if found := re.match(r"With (\d+) instead", sentence):
            assert starts(nodes, others, fewer(each, int(found[1]))), sentence
        if found := re.match(r"It would start now if .*: (.*)\.", sentence):
            assert starts(*_with_others(without(found[1], nodes, each), others)), sentence
        if found := re.match(r"(\d+) more empty", sentence):
            new = [replace(one, name=NodeName(f"{one.name}-{i}")) for one in nodes for i in range(int(found[1]))]
            kinds = [[*nodes, *(one for one in new if one.name.startswith(f"{kind.name}-"))] for kind in nodes]
            assert any(starts(more, others, each) for more in kinds), sentence


def _with_others(world: tuple[list[Node], Job], others: list[Job]) -> tuple[list[Node], list[Job], Job]:
    return world[0], others, world[1]


@settings(max_examples=150, deadline=None)
@given(machines(), st.lists(st.integers(0, 9), max_size=3), st.data())
def test_the_obstacle_that_is_named_is_the_one(nodes: list[Node], early: list[int], data: st.DataObject) -> None:
    others = begun(nodes, [data.draw(gangs(f"early{number}")) for number in range(len(early))])
    each = data.draw(gangs("j"))
    decision = cycle(nodes, [*others, each], policies=ALONE)
    if each.id in decision.explanations:
        why = decision.explanations[each.id]
        check_constraint(why, nodes, others, each)
        check_helps(why, nodes, others, each)


@settings(max_examples=50, deadline=None)
@given(machines(), gangs("j"), st.integers(0, 3))
def test_a_limit_that_is_named_is_the_only_thing_in_the_way_of_its_queue(
    nodes: list[Node], each: Job, gpus: int
) -> None:
    limited = [queue("default", limit={"gpus": gpus})]
    why = cycle(nodes, [each], limited, ALONE).explanations.get(each.id)
    if why is not None and why.constraint is Constraint.QUEUE_LIMIT:
        more = [queue("default", limit={"gpus": gpus + why.missing["gpu_millis"] / 1000})]
        again = cycle(nodes, [each], more, ALONE).explanations.get(each.id)
        assert again is None or again.constraint is not Constraint.QUEUE_LIMIT
