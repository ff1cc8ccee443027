"""A gang that is refused really does not fit: small random clusters, partly full, against an exhaustive search."""

from collections import defaultdict
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.model import Job, JobId, Node
from gangline.scheduling import Policies
from gangline.scheduling.nodes.devices import CLOSED, arrange
from tests.scheduling.builders import cycle, job, node, nodes, role, running

PARTS = (0.3, 0.4, 0.5, 0.6, 0.7)
ALONE = Policies(preemption=False, reclaim=False, defragmentation=False, reservation=False)
"""Nobody makes room: either it fits or it does not."""

Load = tuple[tuple[int, ...], ...]
"""The parts on each shared GPU of a node."""


@st.composite
def machines(draw: st.DrawFn) -> list[Node]:
    return [
        node(
            f"n{i}",
            gpus=draw(st.integers(0, 3)),
            cpus=draw(st.integers(1, 5)),
            topology=draw(st.sampled_from([{}, {"rack": "r0"}, {"rack": "r1"}, {"rack": "r2"}])),
        )
        for i in range(draw(st.integers(1, 4)))
    ]


@st.composite
def gangs(draw: st.DrawFn, name: str, *, gpus: tuple[float, ...]) -> Job:
    count = draw(st.integers(1, 3))
    roles = [
        role(
            draw(st.integers(1, 2)),
            name=f"role{i}",
            gpus=draw(st.sampled_from(gpus)),
            cpus=draw(st.sampled_from([0, 1, 2])),
        )
        for i in range(count)
    ]
    apart = draw(st.sampled_from([None, None, "node", "rack"]))
    within = draw(st.sampled_from([None, None, "rack"]))
    return job(name, *roles, apart=apart, within=within if apart != "rack" else None)


def fits(nodes: list[Node], busy: dict[str, tuple[int, int]], each: Job) -> bool:
    """Whether any assignment of the gang's replicas to nodes obeys every rule."""
    rule = each.spec.placement
    wanted = [
        (one.name, one.resources.cpu_millis, one.resources.gpu_millis)
        for one in each.spec.roles
        for _ in range(one.replicas)
    ]
    groups = [nodes]
    if rule.within:
        racks = {one.topology["rack"] for one in nodes if "rack" in one.topology}
        groups = [[one for one in nodes if one.topology.get("rack") == rack] for rack in sorted(racks)]
    return any(_search(group, busy, wanted, rule.apart) for group in groups)


def _search(
    nodes: list[Node], busy: dict[str, tuple[int, int]], wanted: list[tuple[str, int, int]], apart: str | None
) -> bool:
    domains = [one.name if apart == "node" else one.topology.get("rack") for one in nodes]

    @cache
    def place(index: int, taken: tuple[tuple[tuple[str, int, int], ...], ...]) -> bool:
        if index == len(wanted):
            return True
        name, _, _ = wanted[index]
        for number, one in enumerate(nodes):
            if apart is not None:
                inside = [load for load, domain in zip(taken, domains, strict=True) if domain == domains[number]]
                if domains[number] is None or any(role_name == name for load in inside for role_name, _, _ in load):
                    continue
            more = tuple(sorted((*taken[number], wanted[index])))
            if _holds(one, busy.get(one.name, (0, 0)), more) and place(
                index + 1, (*taken[:number], more, *taken[number + 1 :])
            ):
                return True
        return False

    return place(0, ((),) * len(nodes))


def _holds(one: Node, busy: tuple[int, int], load: tuple[tuple[str, int, int], ...]) -> bool:
    cpus = sum(cpu for _, cpu, _ in load)
    whole = sum(gpu // 1000 for _, _, gpu in load)
    gpus = one.capacity.gpu_millis // 1000 - busy[1] - whole
    return (
        cpus <= one.capacity.cpu_millis - busy[0]
        and gpus >= 0
        and _packs(tuple(g % 1000 for _, _, g in load if g % 1000), gpus)
    )


@cache
def _packs(parts: tuple[int, ...], gpus: int) -> bool:
    """Whether parts go onto that many GPUs: every assignment is tried."""

    def fill(index: int, left: tuple[int, ...]) -> bool:
        return index == len(parts) or any(
            fill(index + 1, (*left[:i], room - parts[index], *left[i + 1 :]))
            for i, room in enumerate(left)
            if room >= parts[index]
        )

    return fill(0, (1000,) * gpus)


@settings(max_examples=400, deadline=None)
@given(machines(), gangs("x", gpus=(0, 1)), gangs("j", gpus=(0, 1, 2, *PARTS)))
def test_a_gang_is_refused_only_when_no_assignment_exists(nodes: list[Node], first: Job, each: Job) -> None:
    jobs = [each]
    busy: dict[str, tuple[int, int]] = {}
    earlier = cycle(nodes, [first], policies=ALONE)
    if earlier.starts:
        on: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for replica, spot in sorted(earlier.starts[0].placement.items()):
            on[replica.role][spot] += 1
            asked = first.spec.role(replica.role).resources
            cpu, gpu = busy.get(spot, (0, 0))
            busy[spot] = (cpu + asked.cpu_millis, gpu + asked.gpu_millis // 1000)
        jobs.append(running(first, on))
    decision = cycle(nodes, jobs, policies=ALONE)
    assert bool(decision.starts) == fits(nodes, busy, each)


@settings(max_examples=300, deadline=None)
@given(machines(), gangs("j", gpus=(0.5, 1, 1.4, *PARTS)))
def test_every_shared_gpu_carries_no_more_than_one_whole(nodes: list[Node], each: Job) -> None:
    decision = cycle(nodes, [each], policies=ALONE)
    for start in decision.starts:
        load: dict[tuple[str, int], int] = defaultdict(int)
        whole: dict[str, int] = defaultdict(int)
        for replica, spot in start.placement.items():
            gpu = each.spec.role(replica.role).resources.gpu_millis
            whole[spot] += gpu // 1000
            assert (replica in start.gpu_slots) == bool(gpu % 1000)
            if gpu % 1000:
                load[spot, start.gpu_slots[replica]] += gpu % 1000
        assert all(amount <= 1000 for amount in load.values())
        for one in nodes:
            opened = sum(1 for spot, _ in load if spot == one.name)
            assert opened + whole[one.name] <= one.capacity.gpu_millis // 1000


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([CLOSED, 200, 300, 500, 700]), min_size=1, max_size=4),
    st.integers(0, 4),
    st.lists(st.sampled_from([200, 300, 400, 500, 700]), max_size=6),
)
def test_parts_are_arranged_whenever_they_can_be(levels: list[int], unopened: int, parts: list[int]) -> None:
    unopened = min(unopened, levels.count(CLOSED))

    def possible(index: int, left: tuple[int, ...]) -> bool:
        return index == len(parts) or any(
            possible(index + 1, (*left[:i], room - parts[index], *left[i + 1 :]))
            for i, room in enumerate(left)
            if room >= parts[index]
        )

    found = arrange(levels, unopened, parts)
    open_now = tuple(level for level in levels if level != CLOSED) + (1000,) * unopened
    assert (found is not None) == possible(0, open_now)
    if found is not None:
        load: dict[int, int] = defaultdict(int)
        for slot, part in zip(found, parts, strict=True):
            load[slot] += part
        assert all(amount <= (1000 if levels[slot] == CLOSED else levels[slot]) for slot, amount in load.items())
        assert sum(levels[slot] == CLOSED for slot in load) <= unopened


def test_a_restart_does_not_forget_which_gpu_is_shared() -> None:
    machine = [node("n0", gpus=2)]
    long = job("long", role(gpus=0.4), age=3)
    short = job("short", role(gpus=0.6), age=2)
    medium = job("medium", role(gpus=0.5), age=1)
    decision = cycle(machine, [long, short, medium])
    slots = {start.job_id: next(iter(start.gpu_slots.values())) for start in decision.starts}
    assert slots[JobId("long")] == slots[JobId("short")] != slots[JobId("medium")]
    # The short one is gone, and so is all that the scheduler remembered. By the rule for new replicas the two that are
    # left would share one GPU, and the other would seem to be free.
    held = [running(each, {"n0": 1}, slots={0: slots[each.id]}) for each in (long, medium)]
    whole = job("whole", role(gpus=1), preemptible=False)
    after = cycle(machine, [*held, whole], policies=ALONE)
    assert not after.starts
    beside = cycle(machine, [*held, job("beside", role(gpus=0.6))], policies=ALONE)
    assert beside.starts[0].gpu_slots.popitem()[1] == slots[JobId("long")]


def test_a_record_without_a_slot_is_placed_around_those_that_have_one() -> None:
    machine = [node("n0", gpus=2)]
    known = running(job("known", role(gpus=0.7)), {"n0": 1}, slots={0: 1})
    older = running(job("a-older", role(gpus=0.7), age=99), {"n0": 1})
    decision = cycle(machine, [known, older, job("new", role(gpus=0.3)), job("next", role(gpus=0.3))], policies=ALONE)
    assert len(decision.starts) == 2
    assert not cycle(machine, [known, older, job("whole", role(gpus=1))], policies=ALONE).starts


def test_a_slot_that_the_node_no_longer_has_is_chosen_anew() -> None:
    held = running(job("x", role(gpus=0.5)), {"n0": 1}, slots={0: 7})
    decision = cycle([node("n0", gpus=1)], [held, job("a", role(gpus=0.5))], policies=ALONE)
    assert len(decision.starts) == 1


def test_where_gpus_are_not_shared_a_part_takes_a_whole_one() -> None:
    machine = [node("n0", gpus=2, shares_gpus=False)]
    decision = cycle(machine, [job(f"j{i}", role(gpus=0.3)) for i in range(3)], policies=ALONE)
    assert len(decision.starts) == 2
    held = [running(job("x", role(gpus=0.3)), {"n0": 1}, slots={0: 1}), running(job("y", role(gpus=0.3)), {"n0": 1})]
    assert not cycle(machine, [*held, job("a", role(gpus=0.3))], policies=ALONE).starts
    assert cycle(machine, [held[0], job("a", role(gpus=1))], policies=ALONE).starts
    mixed = job("m", role(name="ps", gpus=0.3), role(gpus=0.3), role(name="chief", gpus=1))
    assert not cycle(machine, [mixed], policies=ALONE).starts
    assert cycle([node("n0", gpus=3, shares_gpus=False)], [mixed], policies=ALONE).starts


def test_a_gang_of_many_shapes_on_crowded_nodes_does_not_hold_up_the_cycle() -> None:
    machines = nodes(50, gpus=8, cpus=32)
    crowd = [
        running(job(f"x{i}", role(5 + i % 4, cpus=1 + i % 5), priority=90, preemptible=False), {f"n{i}": 5 + i % 4})
        for i in range(50)
    ]
    shapes = [(0, 7), (1, 5), (1, 9), (2, 3)]
    many = job("many", *(role(20, name=f"role{i}", gpus=gpus, cpus=cpus) for i, (gpus, cpus) in enumerate(shapes)))
    decision = cycle(machines, [*crowd, many, job("small", role(cpus=0.1), age=0)])
    assert [start.job_id for start in decision.starts] == ["small"]
    assert decision.memory.needs is not None
    assert decision.memory.needs.effort.left >= 0


def test_parts_beyond_counting_are_arranged_one_by_one() -> None:
    assert arrange([CLOSED] * 8, 8, [20] * 200 + [10] * 400) is not None
    assert arrange([CLOSED] * 8, 8, [20] * 200 + [10] * 401) is None


def test_an_arrangement_is_not_looked_for_without_end() -> None:
    assert arrange([CLOSED] * 8, 8, [340 + number for number in range(20)]) is None, "three of them are more than a GPU"
