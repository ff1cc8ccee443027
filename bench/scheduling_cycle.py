"""Times of the scheduler's hard cases, beside what this machine needs for a fixed piece of work.

Run: python bench/scheduling_cycle.py

Processor time of one core; every line is the best of several runs, because a full collection of Python's garbage over
the 100,000 jobs that the benchmark holds, and whatever else the machine does, only ever make a run slower. The fixed
piece of work sorts a million integers.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from gangline.model import (
    Job,
    JobId,
    JobSpec,
    NamedAmounts,
    Node,
    NodeName,
    Phase,
    PhaseEntry,
    Queue,
    QueueName,
    ReplicaId,
    ReplicaState,
    ReplicaStatus,
    Resources,
    RoleName,
    RoleSpec,
    Timestamp,
    Within,
)
from gangline.scheduling import Decision, Policies, decide, take_snapshot

NOW = Timestamp(10_000.0)


def machine_baseline() -> float:
    """Sort a million integers: what a millisecond is worth here."""
    values = np.random.default_rng(0).integers(0, 1 << 40, 1_000_000)
    return best_of(lambda: np.sort(values))


def best_of(work: Callable[[], object], runs: int = 5) -> float:
    times = []
    for _ in range(runs):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def nodes(count: int, gpus: int = 8) -> list[Node]:
    capacity = Resources(cpu_millis=96_000, memory_mib=1_048_576, gpu_millis=gpus * 1000)
    return [Node(name=NodeName(f"n{i:05d}"), capacity=capacity, gpu_type="h200") for i in range(count)]


def job(
    name: str,
    replicas: int,
    resources: Resources,
    *,
    priority: int = 50,
    created: float = 0.0,
    queue: str = "default",
) -> Job:
    role = RoleSpec(name=RoleName("worker"), replicas=replicas, command=("train",), resources=resources)
    at = Timestamp(created)
    return Job(
        id=JobId(name),
        spec=JobSpec(name=name, roles=(role,), priority=priority, queue=QueueName(queue)),
        created_at=at,
        history=(PhaseEntry(phase=Phase.QUEUED, at=at, reason="Submitted"),),
    )


def running(waiting: Job, spots: list[str]) -> Job:
    at = Timestamp(0.0)
    statuses = tuple(
        ReplicaStatus(id=ReplicaId(RoleName("worker"), i), node=NodeName(spot), state=ReplicaState.RUNNING)
        for i, spot in enumerate(spots)
    )
    history = (*waiting.history, PhaseEntry(phase=Phase.PROCESSING, at=at, reason="Started"))
    return Job(
        id=waiting.id, spec=waiting.spec, created_at=at, history=history, attempt=1, replicas=statuses, holding=True
    )


ONE_GPU = Resources(cpu_millis=4000, memory_mib=16_384, gpu_millis=1000)


def timed(
    name: str,
    target_ms: float,
    baseline: float,
    machines: list[Node],
    jobs: list[Job],
    check: Callable[[Decision], bool],
    runs: int = 5,
    queues: Sequence[Queue] = (),
) -> None:
    taken = best_of(lambda: take_snapshot(nodes=machines, jobs=jobs, queues=queues, now=NOW), 1)
    snapshot = take_snapshot(nodes=machines, jobs=jobs, queues=queues, now=NOW)
    decision = decide(snapshot, Policies())
    assert check(decision), name
    seconds = best_of(lambda: decide(snapshot, Policies()), runs)
    print(
        f"{name:58} {seconds * 1000:9.2f} ms   target {target_ms:6.0f} ms   "
        f"{seconds / baseline:7.2f} x baseline   (first snapshot {taken * 1000:.0f} ms)"
    )


def gang_placed(baseline: float) -> None:
    jobs = [job("big", 1000, ONE_GPU)]
    timed(
        "1,000-replica gang on 5,000 nodes: placed",
        20,
        baseline,
        nodes(5000),
        jobs,
        lambda d: len(d.starts[0].placement) == 1000,
    )


def gang_refused(baseline: float) -> None:
    machines = nodes(5000)
    held = [running(job(f"x{i}", 8, ONE_GPU), [machines[i].name] * 8) for i in range(4900)]
    jobs = [*held, job("big", 1000, ONE_GPU)]
    timed(
        "1,000-replica gang on 5,000 nodes: refused with reasons",
        20,
        baseline,
        machines,
        jobs,
        lambda d: bool(d.explanations),
    )


def victims(baseline: float) -> None:
    machines = nodes(1000)
    held = [
        running(job(f"x{i}-{k}", 1, ONE_GPU, priority=10), [machines[i].name]) for i in range(1000) for k in range(8)
    ]
    eight = Resources(cpu_millis=32_000, memory_mib=131_072, gpu_millis=8000)
    jobs = [*held, job("big", 10, eight)]
    timed(
        "victims for an 80-GPU gang on 1,000 full nodes", 50, baseline, machines, jobs, lambda d: len(d.evictions) == 80
    )


def full_cycle(baseline: float, busy: float, name: str) -> None:
    machines = nodes(10_000)
    shapes = [
        Resources(cpu_millis=1000 * (1 + i % 10), memory_mib=4096 * (1 + i // 10), gpu_millis=1000 * (1 + i % 4))
        for i in range(50)
    ]
    full = Resources(cpu_millis=96_000, memory_mib=1_048_576, gpu_millis=8000)
    held = [running(job(f"x{i}", 1, full), [machines[i].name]) for i in range(int(10_000 * busy))]
    order = np.random.default_rng(1).integers(0, 50, 100_000).tolist()
    jobs = [*held, *(job(f"j{i}", 1, shapes[shape], created=i * 0.01) for i, shape in enumerate(order))]
    timed(name, 1000, baseline, machines, jobs, lambda d: len(d.starts) + len(d.explanations) == 100_000)


def reclaim(baseline: float) -> None:
    machines = nodes(500)
    held = [running(job(f"x{i}", 1, ONE_GPU, queue="guest"), [machines[i // 8].name]) for i in range(4000)]
    jobs = [*held, *(job(f"j{i}", 1, ONE_GPU, queue="owner", created=i * 0.01) for i in range(2000))]
    queues = [Queue(name=QueueName("guest")), Queue(name=QueueName("owner"))]
    timed(
        "2,000 one-GPU reclaims on 500 full nodes",
        1000,
        baseline,
        machines,
        jobs,
        lambda d: len(d.evictions) > 0,
        runs=3,
        queues=queues,
    )


def many_queues(baseline: float) -> None:
    limit = NamedAmounts({"gpu_millis": 4000})
    queues = [Queue(name=QueueName(f"q{i}"), limit=limit) for i in range(1000)]
    jobs = [job(f"j{i}", 1, ONE_GPU, queue=f"q{i % 1000}", created=i * 0.01) for i in range(10_000)]
    timed(
        "10,000 jobs in 1,000 queues with limits, 500 nodes",
        500,
        baseline,
        nodes(500),
        jobs,
        lambda d: len(d.starts) == 4000,
        runs=2,
        queues=queues,
    )


def all_different(baseline: float) -> None:
    sizes = [Resources(cpu_millis=1000 + i, memory_mib=4096 + i, gpu_millis=1000) for i in range(5000)]
    jobs = [job(f"j{i}", 1 + i % 8, size, created=i * 0.01) for i, size in enumerate(sizes)]
    timed(
        "5,000 gangs that all differ, 500 nodes",
        5000,
        baseline,
        nodes(500),
        jobs,
        lambda d: len(d.starts) + len(d.explanations) == 5000,
        runs=1,
    )


def groups_refused(baseline: float) -> None:
    machines = [replace(each, topology={"rack": f"r{i // 16:03d}"}) for i, each in enumerate(nodes(640))]
    waiting = job("big", 41 * 128, ONE_GPU)
    stages = replace(waiting.spec.roles[0], groups=41, within=(Within("rack"),))
    jobs = [replace(waiting, spec=replace(waiting.spec, roles=(stages,)))]
    timed(
        "41 groups, each in one rack, on 40 racks: refused",
        250,
        baseline,
        machines,
        jobs,
        lambda d: bool(d.explanations),
    )


def groups_make_room(baseline: float) -> None:
    machines = [replace(each, topology={"rack": f"r{i // 16:03d}"}) for i, each in enumerate(nodes(640))]
    held = [running(job(f"x{i}", 1, ONE_GPU, priority=10), [machines[i // 8].name]) for i in range(5120)]
    waiting = job("big", 30 * 100, ONE_GPU)
    stages = replace(waiting.spec.roles[0], groups=30, within=(Within("rack"),))
    timed(
        "victims for 30 groups of 100, each in one rack of 40",
        5000,
        baseline,
        machines,
        [*held, replace(waiting, spec=replace(waiting.spec, roles=(stages,)))],
        lambda d: len(d.evictions) == 3000,
        runs=1,
    )


def main() -> None:
    baseline = machine_baseline()
    print(f"baseline: sorting a million integers takes {baseline * 1000:.1f} ms")
    gang_placed(baseline)
    gang_refused(baseline)
    victims(baseline)
    groups_refused(baseline)
    groups_make_room(baseline)
    full_cycle(baseline, 0.9, "10,000 nodes, 90 % full, 100,000 jobs of 50 shapes")
    full_cycle(baseline, 0.0, "10,000 empty nodes, 100,000 jobs of 50 shapes")
    reclaim(baseline)
    many_queues(baseline)
    all_different(baseline)


if __name__ == "__main__":
    main()
