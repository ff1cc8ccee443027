"""What must hold for every snapshot, checked on small random clusters against an exhaustive search."""

from collections import defaultdict
from dataclasses import replace
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.model import Job, Node, Phase, Queue, Timestamp
from gangline.scheduling import Constraint, Decision, Policies
from tests.scheduling.builders import NOW, cycle, job, node, queue, role, running

LABELS = ({}, {"zone": "a"}, {"zone": "b"})


@st.composite
def machines(draw: st.DrawFn) -> list[Node]:
    return [
        node(
            f"n{i}",
            gpus=draw(st.integers(0, 4)),
            cpus=draw(st.integers(1, 6)),
            labels=draw(st.sampled_from(LABELS)),
            topology={"rack": f"r{draw(st.integers(0, 1))}"},
            ready=draw(st.sampled_from([True, True, True, False])),
        )
        for i in range(draw(st.integers(1, 4)))
    ]


@st.composite
def gangs(draw: st.DrawFn, name: str, *, queues: tuple[str, ...] = ("default",), max_roles: int = 2) -> Job:
    roles = []
    for number in range(draw(st.integers(1, max_roles))):
        replicas = draw(st.integers(1, 4))
        roles.append(
            role(
                replicas,
                name=f"role{number}",
                gpus=draw(st.sampled_from([0, 0.5, 1, 1, 2])),
                cpus=draw(st.integers(1, 3)),
                minimum=draw(st.one_of(st.none(), st.integers(1, replicas))),
            )
        )
    return job(
        name,
        *roles,
        priority=draw(st.sampled_from([10, 50, 90])),
        age=draw(st.integers(1, 99)),
        queue=draw(st.sampled_from(queues)),
        selector=draw(st.sampled_from([{}, {}, {"zone": "a"}])),
        within=draw(st.sampled_from([None, None, "rack"])),
        expected_seconds=draw(st.sampled_from([None, 60.0, 5000.0])),
        preemptible=draw(st.sampled_from([True, True, False])),
    )


def replay(nodes: list[Node], jobs: list[Job], queues: tuple[Queue, ...]) -> list[Job]:
    """Run what a first cycle starts, so that the next one meets a realistic cluster."""
    decision = cycle(nodes, jobs, queues)
    placed = {start.job_id: start.placement for start in decision.starts}
    after = []
    for each in jobs:
        if each.id not in placed:
            after.append(each)
            continue
        on: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for replica, spot in sorted(placed[each.id].items()):
            on[replica.role][spot] += 1
        after.append(running(each, on))
    return after


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Node], list[Job], tuple[Queue, ...]]:
    nodes = draw(machines())
    queues = (
        queue("a", guarantee={"gpus": draw(st.integers(0, 3))}, weight=draw(st.integers(1, 3))),
        queue("b", limit=draw(st.sampled_from([None, {"gpus": 2}, {"cpus": 5}]))),
    )
    early = [draw(gangs(f"early{i}", queues=("a", "b"))) for i in range(draw(st.integers(0, 4)))]
    late = [draw(gangs(f"late{i}", queues=("a", "b"))) for i in range(draw(st.integers(0, 4)))]
    return nodes, [*replay(nodes, early, queues), *late], queues


def demand_of(each: Job, replica_role: str) -> tuple[int, int]:
    resources = each.spec.role(replica_role).resources
    return resources.cpu_millis, resources.gpu_millis


def used_after(jobs: list[Job], decision: Decision) -> dict[str, list[tuple[int, int]]]:
    """What every node carries once the decision is carried out, stopped gangs still included."""
    used: dict[str, list[tuple[int, int]]] = defaultdict(list)
    by_id = {each.id: each for each in jobs}
    removed = {(shrink.job_id, replica) for shrink in decision.shrinks for replica in shrink.removed}
    for each in jobs:
        if each.holding:
            for status in each.replicas:
                if (each.id, status.id) not in removed:
                    used[status.node].append(demand_of(each, status.id.role))
    for placements in [(start.job_id, start.placement) for start in decision.starts] + [
        (grow.job_id, grow.added) for grow in decision.grows
    ]:
        for replica, spot in placements[1].items():
            used[spot].append(demand_of(by_id[placements[0]], replica.role))
    return used


def packable(parts: tuple[int, ...], gpus: int) -> bool:
    """Whether these GPU requests fit on that many GPUs: whole ones first, then parts by exhaustive search."""
    whole = sum(part // 1000 for part in parts)
    rest = sorted((part % 1000 for part in parts if part % 1000), reverse=True)

    def fill(index: int, bins: tuple[int, ...]) -> bool:
        if index == len(rest):
            return True
        return any(
            fill(index + 1, tuple(sorted((*bins[:i], bins[i] - rest[index], *bins[i + 1 :]))))
            for i in range(len(bins))
            if bins[i] >= rest[index]
        )

    return whole <= gpus and fill(0, (1000,) * (gpus - whole))


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_no_node_is_ever_over_capacity(world: tuple[list[Node], list[Job], tuple[Queue, ...]]) -> None:
    nodes, jobs, queues = world
    decision = cycle(nodes, jobs, queues)
    for each in nodes:
        load = used_after(jobs, decision)[each.name]
        assert sum(cpu for cpu, _ in load) <= each.capacity.cpu_millis
        assert packable(tuple(gpu for _, gpu in load), each.capacity.gpu_millis // 1000)


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_a_gang_starts_whole_or_not_at_all_and_everybody_else_is_told_why(
    world: tuple[list[Node], list[Job], tuple[Queue, ...]],
) -> None:
    nodes, jobs, queues = world
    decision = cycle(nodes, jobs, queues)
    by_id = {each.id: each for each in jobs}
    started = {start.job_id for start in decision.starts}
    for start in decision.starts:
        for each in by_id[start.job_id].spec.roles:
            indexes = sorted(replica.index for replica in start.placement if replica.role == each.name)
            assert indexes == list(range(len(indexes)))
            assert each.least <= len(indexes) <= each.replicas
    assert started | set(decision.explanations) == {each.id for each in jobs if each.placeable}
    assert not started & set(decision.explanations)
    for why in decision.explanations.values():
        assert all(why.words())


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_nobody_is_stopped_without_a_beneficiary_that_then_fits(
    world: tuple[list[Node], list[Job], tuple[Queue, ...]],
) -> None:
    nodes, jobs, queues = world
    decision = cycle(nodes, jobs, queues)
    by_id = {each.id: each for each in jobs}
    stopped = {eviction.job_id for eviction in decision.evictions}
    removed = {(shrink.job_id, replica) for shrink in decision.shrinks for replica in shrink.removed}
    for eviction in decision.evictions:
        assert by_id[eviction.job_id].spec.policy.preemptible
        assert eviction.beneficiary is not None
        assert decision.explanations[eviction.beneficiary].constraint is Constraint.MAKING_ROOM
    if not stopped and not removed:
        return
    owed = {each.beneficiary for each in (*decision.evictions, *decision.shrinks)}
    still = []
    for each in jobs:
        kept = tuple(status for status in each.replicas if (each.id, status.id) not in removed)
        if each.id not in stopped and (each.holding or each.id in owed):
            still.append(replace(each, replicas=kept))
    for start in decision.starts:
        on: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for replica, spot in sorted(start.placement.items()):
            on[replica.role][spot] += 1
        still.append(running(by_id[start.job_id], on))
    following = cycle(nodes, still, queues, memory=decision.memory)
    assert {each.beneficiary for each in decision.evictions} <= {start.job_id for start in following.starts}
    assert not following.evictions, "no eviction follows from an eviction"


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_the_same_snapshot_gives_the_same_decision(world: tuple[list[Node], list[Job], tuple[Queue, ...]]) -> None:
    nodes, jobs, queues = world
    first = cycle(nodes, jobs, queues)
    again = cycle(list(reversed(nodes)), list(reversed(jobs)), tuple(reversed(queues)))
    assert {each.job_id: each for each in first.starts} == {each.job_id: each for each in again.starts}
    assert first.evictions == again.evictions
    assert first.shrinks == again.shrinks
    assert {each.job_id: each for each in first.grows} == {each.job_id: each for each in again.grows}
    assert first.explanations == again.explanations
    assert first.wake_at == again.wake_at


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_remembered_records_change_nothing(world: tuple[list[Node], list[Job], tuple[Queue, ...]]) -> None:
    nodes, jobs, queues = world
    first = cycle(nodes, jobs[: len(jobs) // 2], queues)
    fresh = cycle(nodes, jobs, queues)
    records = replace(first.memory, nominations=(), reservation=None, unreached=frozenset(), seen={})
    reused = cycle(nodes, jobs, queues, memory=records)
    assert (fresh.starts, fresh.evictions, fresh.explanations) == (reused.starts, reused.evictions, reused.explanations)


def fits_somehow(nodes: list[Node], each: Job) -> bool:
    """Exhaustive search: can the gang's minimum be placed on these empty nodes?"""
    wanted = tuple(demand_of(each, one.name) for one in each.spec.roles for _ in range(one.least))
    selector = each.spec.placement.node_selector
    usable = [
        one for one in nodes if one.ready and all(one.labels.get(key) == value for key, value in selector.items())
    ]
    if each.spec.placement.within:
        racks = {one.topology["rack"] for one in usable}
        return any(_search([one for one in usable if one.topology["rack"] == rack], wanted) for rack in racks)
    return _search(usable, wanted)


def _search(nodes: list[Node], wanted: tuple[tuple[int, int], ...]) -> bool:
    order = tuple(sorted(wanted, reverse=True))
    sizes = tuple((one.capacity.cpu_millis, one.capacity.gpu_millis // 1000) for one in nodes)

    @cache
    def place(index: int, loads: tuple[tuple[tuple[int, int], ...], ...]) -> bool:
        if index == len(order):
            return True
        for number, load in enumerate(loads):
            more = tuple(sorted((*load, order[index])))
            cpu, gpus = sizes[number]
            fits = sum(one for one, _ in more) <= cpu and packable(tuple(gpu for _, gpu in more), gpus)
            if fits and place(index + 1, (*loads[:number], more, *loads[number + 1 :])):
                return True
        return False

    return place(0, ((),) * len(sizes))


@settings(max_examples=250, deadline=None)
@given(machines(), gangs("j", max_roles=3))
def test_a_gang_is_refused_only_when_exhaustive_search_finds_no_place(nodes: list[Node], each: Job) -> None:
    decision = cycle(nodes, [each])
    assert bool(decision.starts) == fits_somehow(nodes, each)


@settings(max_examples=150, deadline=None)
@given(machines(), gangs("j"))
def test_the_explanation_counts_excluded_nodes_as_one_would_by_hand(nodes: list[Node], each: Job) -> None:
    decision = cycle(nodes, [each])
    for why in decision.explanations.values():
        counted = {excluded.rule: excluded.nodes for excluded in why.excluded}
        unready = sum(not one.ready for one in nodes)
        assert counted.get("not ready", 0) == unready
        for key, value in each.spec.placement.node_selector.items():
            assert counted.get(f"label {key} is not {value}", 0) == sum(one.labels.get(key) != value for one in nodes)
        assert why.nodes == len(nodes)


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_no_guarantee_is_violated_by_an_eviction_for_another_queue(
    world: tuple[list[Node], list[Job], tuple[Queue, ...]],
) -> None:
    nodes, jobs, queues = world
    decision = cycle(nodes, jobs, queues, Policies(defragmentation=False))
    by_id = {each.id: each for each in jobs}
    for each in queues:
        members = [one for one in jobs if one.holding and one.spec.queue == each.name]
        before = sum(demand_of(one, status.id.role)[1] for one in members for status in one.replicas)
        gone = [
            eviction.job_id
            for eviction in decision.evictions
            if by_id[eviction.job_id].spec.queue == each.name and by_id[eviction.beneficiary].spec.queue != each.name
        ]
        lost = sum(demand_of(by_id[name], status.id.role)[1] for name in gone for status in by_id[name].replicas)
        if lost:
            assert before - lost >= min(each.guarantee.gpu_millis, before)


@settings(max_examples=60, deadline=None)
@given(machines(), gangs("first"))
def test_in_order_a_gang_that_has_waited_too_long_is_passed_by_nobody(nodes: list[Node], first: Job) -> None:
    decision = passed(nodes, first, Policies(patience_seconds=1000.0, reserve_after_seconds=0.0, in_order=True))
    if "first" in decision.explanations and decision.explanations["first"].constraint is Constraint.RESOURCES:
        allowed = {
            one.name
            for one in nodes
            if one.ready and all(one.labels.get(k) == v for k, v in first.spec.placement.node_selector.items())
        }
        for start in decision.starts:
            assert not set(start.placement.values()) & allowed


@settings(max_examples=60, deadline=None)
@given(machines(), gangs("first"))
def test_nobody_takes_the_place_of_a_gang_that_has_waited_too_long(nodes: list[Node], first: Job) -> None:
    decision = passed(nodes, first, Policies(patience_seconds=1000.0, reserve_after_seconds=0.0))
    reserved = decision.memory.reservation
    if reserved is not None and reserved.job_id == "first":
        for start in decision.starts:
            assert not set(start.placement.values()) & set(reserved.nodes)


def passed(nodes: list[Node], first: Job, policies: Policies) -> Decision:
    """What is decided when a short job could pass one that has long waited for somebody who cannot be stopped."""
    old = replace(first, history=tuple(replace(entry, at=Timestamp(NOW - 2000)) for entry in first.history))
    blocker = [
        running(
            job("blocker", role(1, gpus=0, cpus=one.capacity.cpu_millis / 1000), priority=99, preemptible=False),
            {one.name: 1},
        )
        for one in nodes[:1]
    ]
    passer = job("passer", role(1, gpus=0), age=0, expected_seconds=1.0, priority=1)
    return cycle(nodes, [*blocker, old, passer], policies=policies)


COLOURS = ({}, {"colour": "red"}, {"colour": "blue"})


@st.composite
def particular_gangs(draw: st.DrawFn, name: str) -> Job:
    """Gangs that care about who is beside them."""
    replicas = draw(st.integers(1, 3))
    return job(
        name,
        role(replicas, minimum=draw(st.one_of(st.none(), st.integers(1, replicas)))),
        age=draw(st.integers(1, 99)),
        labels=draw(st.sampled_from(COLOURS)),
        apart=draw(st.sampled_from([None, "node", "rack"])),
        near=draw(st.sampled_from([{}, *COLOURS])),
        away=draw(st.sampled_from([{}, *COLOURS])),
    )


@settings(max_examples=150, deadline=None)
@given(machines(), st.data())
def test_replicas_lie_apart_and_nobody_runs_beside_whom_it_keeps_away_from(
    nodes: list[Node], data: st.DataObject
) -> None:
    early = [data.draw(particular_gangs(f"early{i}")) for i in range(3)]
    jobs = [*replay(nodes, early, ()), *(data.draw(particular_gangs(f"late{i}")) for i in range(3))]
    decision = cycle(nodes, jobs)
    racks = {each.name: each.topology["rack"] for each in nodes}
    spots: dict[str, list[str]] = {each.id: [status.node for status in each.replicas] for each in jobs}
    for start in decision.starts:
        spots[start.job_id] = list(start.placement.values())
    for grow in decision.grows:
        spots[grow.job_id] += grow.added.values()
    for each in jobs:
        rule, mine = each.spec.placement, spots[each.id]
        domains = [racks[spot] for spot in mine] if rule.apart == "rack" else mine
        assert rule.apart is None or len(set(domains)) == len(domains)
        others = [other for other in jobs if other is not each]
        unwanted = [other for other in others if rule.away and rule.away.items() <= other.spec.labels.items()]
        assert all(set(mine).isdisjoint(spots[other.id]) for other in unwanted)
        wanted = [other for other in others if rule.near.items() <= other.spec.labels.items()]
        beside = {spot for other in wanted for spot in spots[other.id]}
        began = rule.near.items() <= each.spec.labels.items() and not set(mine) <= beside
        assert not rule.near or set(mine) <= beside or began


def test_phases_that_hold_nothing_do_not_matter() -> None:
    decision = cycle([node("n0")], [job("a", phase=phase) for phase in (Phase.COMPLETED,)])
    assert not decision.starts
    assert not decision.explanations
