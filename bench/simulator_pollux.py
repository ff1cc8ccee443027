"""Pollux workloads 1-4 on 16 nodes of four GPUs: average completion times beside the published ones.

Run: python bench/simulator_pollux.py TRACES_DIRECTORY
"""

import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from gangline.model import Node, NodeName, Resources
from gangline.scheduling import Policies
from gangline.scheduling.plugins.orders import LeastAttained, PriorityThenAge, ShortestFirst
from gangline.simulator.report import ended_at
from gangline.simulator.run import Setup, simulate
from gangline.simulator.traces.pollux import EPOCHS, PolluxWork, read_application, read_pollux

PUBLISHED = {1: 2474, 2: 5145, 3: 3876, 4: 3280}
QUIET = Policies(preemption=False, reclaim=False, defragmentation=False, minimum_run_seconds=0.0)
RULES = {
    "two-queue least attained": replace(
        QUIET, preemption=True, reservation=False, job_order=LeastAttained(older_first=True)
    ),
    "first come": replace(QUIET, job_order=PriorityThenAge(), patience_seconds=0.0),
    "first come + backfill": replace(QUIET, job_order=PriorityThenAge()),
    "shortest first": replace(QUIET, job_order=ShortestFirst()),
    "ours": Policies(),
}


def main() -> None:
    folder = Path(sys.argv[1]) / "pollux-osdi21"
    applications = {name: read_application(folder / "traces" / name) for name in EPOCHS}
    capacity = Resources(cpu_millis=48_000, memory_mib=196_608, gpu_millis=4000)
    nodes = [Node(name=NodeName(f"node-{i:02d}"), capacity=capacity) for i in range(16)]
    print(f"{'workload':>26}" + "".join(f"{number:>16}" for number in PUBLISHED))
    print(f"{'published least attained':>26}" + "".join(f"{seconds:>14} s" for seconds in PUBLISHED.values()))
    for name, policies in RULES.items():
        line = f"{name:>26}"
        for number, published in PUBLISHED.items():
            jobs = list(read_pollux(folder / "workloads" / f"workload-{number}.csv"))
            setup = Setup(nodes=nodes, policies=policies, start_seconds=30.0, tick_seconds=60.0)
            outcome = simulate(setup, [declared(job, applications) for job in jobs], PolluxWork(jobs, applications))
            mean = fmean(ended_at(job) - job.created_at for job in outcome.jobs)
            line += f"{mean:>7.0f} s ({mean / published - 1:+4.0%})"
        print(line, flush=True)


def declared(job, applications):  # type: ignore[no-untyped-def]
    """The arrival with the run time it would have on a tight placement, for rules that use one."""
    replicas = job.arrival.spec.roles[0].replicas
    tight = [4] * (replicas // 4) + ([replicas % 4] if replicas % 4 else [])
    application = applications[job.application]
    seconds = application.iterations(job.batch_size) * application.step_seconds(tight, job.batch_size)
    policy = replace(job.arrival.spec.policy, expected_seconds=seconds)
    return replace(job.arrival, spec=replace(job.arrival.spec, policy=policy))


if __name__ == "__main__":
    main()
