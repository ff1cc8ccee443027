"""Two experiments of FfDL (Middleware '19) with our simulator, on jobs drawn from the Philly trace.

1. Spread and pack: the share of jobs that wait for more than 15 minutes, day by day over 60 days.
2. Gangs: GPUs that do nothing and learners that are deadlocked, with our scheduler and with one that places replica
   after replica (``OneByOne`` below: a baseline that exists in this file only).

Run: python bench/simulator_ffdl.py TRACES_DIRECTORY [OUTPUT_DIRECTORY]; docs/experiments/ffdl.md says what came of it.
"""

import heapq
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from traces import traces_folder

from gangline.model import ACTIVE_PHASES, PlacementRule, Prefer
from gangline.simulator import RULES, Outcome, Setup, new_figure, parse_nodes, simulate
from gangline.simulator.report import LONG_WAIT_SECONDS, gpu_seconds
from gangline.simulator.traces import Arrival, read_philly

DAY = 86400.0
FIRST_DAY, DAYS = 20, 60
GPUS_PER_NODE = 4
NODES = 50
KEPT = (0.15, 0.2, 0.25)
"""The parts of the trace's jobs that are drawn, for a cluster of 200 GPUs; Philly's load comes in waves, so that a
few days are overrun at any of these."""
SEED = 19
BURSTS, BURST_JOBS, BURST_NODES = 200, 50, 15
CREATION_SECONDS = (1.0, 5.0, 20.0)
"""Without gangs, a job's learners come to the scheduler one by one within this time of their job's submission. The
longer it takes, the more jobs stand in each other's way."""


def drawn(path: Path, per_replica: int, kept: float = KEPT[-1]) -> list[Arrival]:
    """Jobs of 60 days, thinned out at random; times count from the first of those days."""
    generator = random.Random(SEED)
    begin = FIRST_DAY * DAY
    return [
        replace(arrival, at=arrival.at - begin)
        for arrival in read_philly(path, gpus_per_replica=per_replica)
        if generator.random() < kept
        and begin <= arrival.at < begin + DAYS * DAY
        and gpus_of(arrival) <= NODES * GPUS_PER_NODE
    ]


def gpus_of(arrival: Arrival) -> int:
    return sum(round(role.replicas * role.resources.gpus) for role in arrival.spec.roles)


def laid_out(arrivals: Sequence[Arrival], prefer: Prefer) -> list[Arrival]:
    rule = PlacementRule(prefer=prefer)
    return [replace(arrival, spec=replace(arrival.spec, placement=rule)) for arrival in arrivals]


# Spread and pack ---------------------------------------------------------------------------------------------------


def spread_and_pack(path: Path, out: Path) -> None:
    figure = new_figure(width=15.0)
    for axes, kept in zip(figure.subplots(1, len(KEPT)), KEPT, strict=True):
        arrivals = drawn(path, GPUS_PER_NODE, kept)
        load = sum(arrival.seconds * gpus_of(arrival) for arrival in arrivals) / (NODES * GPUS_PER_NODE * DAYS * DAY)
        print(f"{len(arrivals)} jobs in {DAYS} days on {NODES} nodes of {GPUS_PER_NODE} GPUs; offered load {load:.0%}")
        for prefer in (Prefer.SPREAD, Prefer.PACK):
            late = queued_too_long(run(laid_out(arrivals, prefer)))
            share = sum(map(sum, late)) / sum(map(len, late))
            print(f"{prefer:>24}: {share:.2%} of all jobs queued for over 15 minutes")
            axes.plot([100 * fmean(day) if day else 0.0 for day in late], label=f"{prefer} ({share:.1%} overall)")
        axes.set(xlabel="day", ylabel="jobs queued for over 15 minutes (%)", title=f"offered load {load:.0%}")
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    figure.savefig(out / "ffdl-spread-pack.png", dpi=110)


def run(arrivals: Sequence[Arrival]) -> Outcome:
    """First come, first served, with backfill and without any eviction."""
    return simulate(Setup(nodes=parse_nodes(f"{NODES}x{GPUS_PER_NODE}"), policies=RULES["fifo+backfill"]), arrivals)


def queued_too_long(outcome: Outcome) -> list[list[bool]]:
    """By the day of submission, whether each job waited for more than 15 minutes."""
    days: list[list[bool]] = [[] for _ in range(DAYS)]
    for job in outcome.jobs:
        started = next((entry.at for entry in job.history if entry.phase in ACTIVE_PHASES), outcome.ended_at)
        days[int(job.created_at // DAY)].append(started - job.created_at > LONG_WAIT_SECONDS)
    return days


# Gangs ---------------------------------------------------------------------------------------------------------------


@dataclass
class Learners:
    """A job as the baseline sees it: ``count`` learners of ``gpus`` each, of which some have a place."""

    count: int
    gpus: int
    seconds: float
    nodes: list[int]


class OneByOne:
    """Places replica after replica wherever one fits, as a scheduler without gangs does; who has a place keeps it."""

    def __init__(self, nodes: int, seed: int, creation_seconds: float) -> None:
        self.free = [GPUS_PER_NODE] * nodes
        self.pending: list[Learners] = []
        self.held = 0
        """GPUs of learners that wait for the rest of their gang."""
        self.deadlocked = 0
        self.placed = 0
        self._generator = random.Random(seed)
        self._creation_seconds = creation_seconds

    def submit(self, jobs: Sequence[Learners]) -> None:
        """Jobs that come together are submitted one a second, and their learners line up as they are created."""
        line = [
            (number + self._generator.uniform(0.0, self._creation_seconds), number, job)
            for number, job in enumerate(jobs)
            for _ in range(job.count)
        ]
        self.pending += [job for _, _, job in sorted(line, key=lambda entry: entry[:2])]

    def place(self) -> list[Learners]:
        """Give places to all that fit, first come, first served; returns jobs that have become complete."""
        complete, waiting = [], []
        for job in self.pending:
            node = next((number for number, free in enumerate(self.free) if free >= job.gpus), None)
            if node is None:
                waiting.append(job)
                continue
            self.free[node] -= job.gpus
            job.nodes.append(node)
            self.placed += 1
            self.held += job.gpus
            self.deadlocked += 1
            if len(job.nodes) == job.count:
                complete.append(job)
                self.held -= job.gpus * job.count
                self.deadlocked -= job.count
        self.pending = waiting
        return complete

    def end(self, job: Learners) -> None:
        for node in job.nodes:
            self.free[node] += job.gpus
        self.placed -= job.count


def learners_of(arrival: Arrival) -> Learners:
    role = arrival.spec.roles[0]
    return Learners(role.replicas, round(role.resources.gpus), arrival.seconds, [])


def bursts(path: Path, out: Path) -> None:
    """50 distributed jobs at once on 60 GPUs, many times over: what stands idle right afterwards?"""
    several = [arrival for arrival in drawn(path, 1) if 1 < gpus_of(arrival) <= 8]
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for number in range(BURSTS):
        chosen = random.Random(SEED + number).choices(several, k=BURST_JOBS)
        for seconds in CREATION_SECONDS:
            found[f"one by one within {seconds:g} s"].append(burst_one_by_one(chosen, SEED + number, seconds))
        found["gangs"].append(burst_of_gangs(chosen, BURST_NODES * GPUS_PER_NODE))
    figure = new_figure()
    idle, deadlocked = figure.subplots(1, 2, sharey=True)
    for name, pairs in found.items():
        for axes, column, title in ((idle, 0, "GPUs that do nothing (%)"), (deadlocked, 1, "deadlocked learners (%)")):
            values = sorted(100 * pair[column] for pair in pairs)
            axes.step(values, [(i + 1) / len(values) for i in range(len(values))], where="post", label=name)
            axes.set(xlabel=title)
            axes.grid(visible=True, alpha=0.3)
        idles, stuck = zip(*pairs, strict=True)
        print(
            f"{name:>24}: idle GPUs mean {fmean(idles):.1%}, most {max(idles):.1%}; "
            f"deadlocked learners mean {fmean(stuck):.1%}, most {max(stuck):.1%}"
        )
    idle.set(ylabel=f"share of {BURSTS} bursts")
    deadlocked.legend()
    figure.savefig(out / "ffdl-gangs-burst.png", dpi=110)


def burst_one_by_one(chosen: Sequence[Arrival], seed: int, creation_seconds: float) -> tuple[float, float]:
    """The parts of the GPUs that do nothing and of the placed learners that wait for others of their gang."""
    baseline = OneByOne(BURST_NODES, seed, creation_seconds)
    baseline.submit([learners_of(arrival) for arrival in chosen])
    baseline.place()
    idle = sum(baseline.free) + baseline.held
    return idle / (BURST_NODES * GPUS_PER_NODE), baseline.deadlocked / baseline.placed


def burst_of_gangs(chosen: Sequence[Arrival], total: int) -> tuple[float, float]:
    """The same burst through the real controller and scheduler, stopped right after its first cycle."""
    named = [
        replace(arrival, at=0.0, seconds=1e6, spec=replace(arrival.spec, name=f"burst-{number}"))
        for number, arrival in enumerate(chosen)
    ]
    nodes = parse_nodes(f"{BURST_NODES}x{GPUS_PER_NODE}")
    outcome = simulate(Setup(nodes=nodes, policies=RULES["fifo+backfill"], until=1.0), named)
    placed = [job for job in outcome.jobs if job.holding]
    partial = [job for job in placed if len(job.replicas) < job.spec.roles[0].replicas]
    busy = sum(len(job.replicas) for job in placed if job not in partial)
    learners = sum(len(job.replicas) for job in placed)
    return (total - busy) / total, sum(len(job.replicas) for job in partial) / learners


def sixty_days(path: Path, out: Path) -> None:
    """The 60 days with one GPU per learner: what stands idle, hour by hour, while somebody waits?"""
    arrivals = drawn(path, 1)
    total = NODES * GPUS_PER_NODE
    idle, deadlocked, done = one_by_one_for_days(arrivals)
    print(
        f" one by one: {done} of {len(arrivals)} jobs done; GPUs held in vain mean {fmean(idle):.1%}, most "
        f"{max(idle):.1%}; deadlocked learners mean {fmean(deadlocked):.1%}, most {max(deadlocked):.1%}"
    )
    outcome = run(arrivals)
    partial = [job for job in outcome.jobs if job.replicas and len(job.replicas) < job.spec.roles[0].replicas]
    used = sum(map(gpu_seconds, outcome.jobs)) / (total * max(outcome.ended_at, 1.0))
    print(
        f"      gangs: {sum(job.finished for job in outcome.jobs)} of {len(arrivals)} jobs done; "
        f"{len(partial)} ever ran in part; utilisation {used:.1%}"
    )
    figure = new_figure()
    axes = figure.subplots()
    axes.plot([100 * value for value in idle], label="one by one: GPUs held in vain")
    axes.plot([100 * value for value in deadlocked], label="one by one: deadlocked learners", alpha=0.7)
    axes.axhline(0.0, color="black", label="gangs: both")
    axes.set(xlabel="hour", ylabel="%")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(out / "ffdl-gangs-60-days.png", dpi=110)


def one_by_one_for_days(arrivals: Sequence[Arrival]) -> tuple[list[float], list[float], int]:
    """Run the baseline through the trace; returns both shares at every full hour, and how many jobs were done."""
    baseline = OneByOne(NODES, SEED, CREATION_SECONDS[1])
    coming = sorted(arrivals, key=lambda arrival: arrival.at)[::-1]
    ends: list[tuple[float, int, Learners]] = []
    idle: list[float] = []
    deadlocked: list[float] = []
    started = done = 0
    while coming or ends:
        now = min([arrival.at for arrival in coming[-1:]] + [end for end, _, _ in ends[:1]])
        while len(idle) * 3600.0 < min(now, DAYS * DAY):
            idle.append(baseline.held / (NODES * GPUS_PER_NODE))
            deadlocked.append(baseline.deadlocked / max(baseline.placed, 1))
        while ends and ends[0][0] <= now:
            baseline.end(heapq.heappop(ends)[2])
            done += 1
        together = []
        while coming and coming[-1].at <= now:
            together.append(learners_of(coming.pop()))
        baseline.submit(together)
        for job in baseline.place():
            started += 1
            heapq.heappush(ends, (now + job.seconds, started, job))
    return idle, deadlocked, done


def main() -> None:
    path = traces_folder() / "philly" / "philly.csv.gz"
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parents[1] / "docs" / "experiments"
    out.mkdir(parents=True, exist_ok=True)
    print(f"{BURSTS} bursts of {BURST_JOBS} jobs on {BURST_NODES} nodes of {GPUS_PER_NODE} GPUs")
    bursts(path, out)
    spread_and_pack(path, out)
    print(f"{DAYS} days without gangs and with them")
    sixty_days(path, out)


if __name__ == "__main__":
    main()
