"""GPU memory as an amount: what fits on shared GPUs, exactly, and what queues count for it."""

from dataclasses import replace
from random import Random

import pytest

from gangline.model import Job, JobId, Resources
from gangline.scheduling import Constraint
from gangline.scheduling.nodes.devices import CLOSED, arrange
from tests.scheduling.builders import cycle, job, node, queue, role, running

GIB = 1024


def by_memory(name: str, gib: float, count: int = 1, **more: object) -> Job:
    """A gang whose replicas each need so much memory of one GPU."""
    each = job(name, role(count, gpus=0), **more)  # type: ignore[arg-type]
    asked = Resources(cpu_millis=1000, memory_mib=1, gpu_memory_mib=round(gib * GIB))
    return replace(each, spec=replace(each.spec, roles=(replace(each.spec.roles[0], resources=asked),)))


def started(found: object) -> set[str]:
    return {start.job_id for start in found.starts}  # type: ignore[attr-defined]


def test_as_many_share_a_gpu_as_its_memory_has_room_for() -> None:
    machines = [node("n0", gpus=2, gpu_memory_mib=80 * GIB)]
    (start,) = cycle(machines, [by_memory("a", 20, 8)]).starts
    assert sorted(start.gpu_slots.values()) == [0] * 4 + [1] * 4
    why = cycle(machines, [by_memory("a", 20, 9)]).explanations[JobId("a")]
    assert (why.constraint, why.possible) == (Constraint.TOO_LARGE, 8)


def test_the_same_memory_is_another_part_of_another_gpu() -> None:
    machines = [node("large", gpus=1, gpu_memory_mib=80 * GIB), node("small", gpus=1, gpu_memory_mib=40 * GIB)]
    found = cycle(machines, [by_memory("a", 20, 6)])
    assert started(found) == {"a"}
    assert not started(cycle(machines, [by_memory("a", 20, 7)]))


def test_smaller_gpus_are_kept_away_from_and_that_is_said() -> None:
    machines = [node("small", gpus=1, gpu_memory_mib=16 * GIB), node("unknown", gpus=1)]
    why = cycle(machines, [by_memory("a", 20)]).explanations[JobId("a")]
    assert why.constraint is Constraint.NODES
    assert f"2 of 2 nodes: no GPU with {20 * GIB} MiB memory." in why.words()


def test_memory_beside_whole_gpus_is_the_least_that_each_must_have() -> None:
    machines = [node("small", gpus=8, gpu_memory_mib=40 * GIB), node("large", gpus=8, gpu_memory_mib=80 * GIB)]
    each = job("a", role(2, gpus=2))
    asked = Resources(cpu_millis=1000, memory_mib=1, gpu_millis=2000, gpu_memory_mib=60 * GIB)
    each = replace(each, spec=replace(each.spec, roles=(replace(each.spec.roles[0], resources=asked),)))
    (start,) = cycle(machines, [each]).starts
    assert set(start.placement.values()) == {"large"}
    assert not start.gpu_slots


def test_a_full_gpu_is_told() -> None:
    machines = [node("n0", gpus=1, gpu_memory_mib=80 * GIB)]
    busy = running(by_memory("b", 70, priority=90), {"n0": 1}, slots={0: 0})
    why = cycle(machines, [busy, by_memory("a", 20)]).explanations[JobId("a")]
    assert why.constraint is Constraint.RESOURCES
    assert f"1 of 1 nodes: no GPU with {20 * GIB} MiB of it free." in why.words()


def test_queues_count_memory_as_a_part_of_a_gpu() -> None:
    machines = [node("n0", gpus=4, gpu_memory_mib=80 * GIB)]
    queues = [queue("research", limit={"gpus": 1})]
    jobs = [by_memory(f"j{n}", 40, queue="research", age=9 - n) for n in range(3)]
    found = cycle(machines, jobs, queues)
    assert started(found) == {"j0", "j1"}
    assert found.explanations[JobId("j2")].constraint is Constraint.QUEUE_LIMIT


def test_where_gpus_are_not_shared_whoever_asks_for_memory_gets_a_whole_one() -> None:
    machines = [node("n0", gpus=2, gpu_memory_mib=80 * GIB, shares_gpus=False)]
    assert started(cycle(machines, [by_memory("a", 20, 2)])) == {"a"}
    assert not started(cycle(machines, [by_memory("a", 20, 3)]))


def test_it_makes_way_and_is_made_way_for() -> None:
    machines = [node("n0", gpus=1, gpu_memory_mib=80 * GIB)]
    low = [running(by_memory(f"low{n}", 40, priority=10), {"n0": 1}, slots={0: 0}) for n in range(2)]
    found = cycle(machines, [*low, by_memory("a", 30, priority=90)])
    assert len(found.evictions) == 1
    found = cycle(machines, [*low, job("a", role(1), priority=90)])
    assert {each.job_id for each in found.evictions} == {"low0", "low1"}


@pytest.mark.parametrize("seed", range(60))
def test_parts_by_memory_and_by_thousandths_fit_exactly_when_some_arrangement_does(seed: int) -> None:
    random = Random(seed)
    size, gpus = random.choice([16, 24, 40, 80]), random.randint(1, 3)
    sizes = [random.choice([0.2, 0.3, 0.5, 0.7, 1]) for _ in range(random.randint(0, 3))]
    memory = [random.choice([5, 8, 10, 16]) for _ in range(random.randint(1, 4))]
    roles = [role(1, name=f"by-part{n}", gpus=each) for n, each in enumerate(sizes)]
    asked = [Resources(cpu_millis=1, memory_mib=1, gpu_memory_mib=each * GIB) for each in memory]
    roles += [replace(role(1, name=f"by-memory{n}"), resources=each) for n, each in enumerate(asked)]
    parts = [round(each * 1000) for each in sizes if each < 1] + [-(-1000 * each // size) for each in memory]
    whole = sum(each == 1 for each in sizes)
    fits = gpus >= whole and arrange([CLOSED] * gpus, gpus - whole, parts) is not None
    found = cycle([node("n0", gpus=gpus, gpu_memory_mib=size * GIB)], [job("a", *roles)])
    assert bool(found.starts) == fits
