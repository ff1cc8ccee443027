"""Pollux workloads whose jobs leave their size to the scheduler, beside the classic rules with the users' requests.

Run: python bench/simulator_sizes.py TRACES_DIRECTORY [FOLDER] [NUMBER,NUMBER]

16 nodes of four T4, rounds of 60 s, 30 s for every start and change, as in the authors' simulator; the real controller
and scheduler decide. Jobs under `replicas: auto` begin without any knowledge of their speed: they measure what they
have, and later runs of the same application recall it. Fairness is that of Themis: the time a job took, divided by what
it would have taken alone on an equal share of the GPUs, by the mean number of jobs there were while it was; above 1 a
job was slower than under an equal split. FOLDER is `workloads` (tuned requests, the default), `workloads-realistic` or
`workloads-0.5`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from traces import traces_folder

from gangline.model import Job, JobId
from gangline.scheduling import DEFAULT_POLICIES
from gangline.simulator import RULES, Outcome, TraceFormat, Workload, read_workload, summarise
from gangline.simulator.report import ended_at

PUBLISHED = {1: (2089, 2474, 4087), 2: (3323, 5145, 6914), 3: (2188, 3876, 3944), 4: (2721, 3280, 5968)}
"""Seconds of Pollux, Tiresias and Optimus by workload (tuned requests), from the authors' summaries."""


def main() -> None:
    folder = sys.argv[2] if len(sys.argv) > 2 else "workloads"
    numbers = [int(each) for each in sys.argv[3].split(",")] if len(sys.argv) > 3 else list(PUBLISHED)
    base = traces_folder() / "pollux-osdi21" / folder
    if folder == "workloads":
        for column, name in enumerate(("Pollux", "Tiresias", "Optimus")):
            print(f"{'published ' + name:>26}" + _cells([float(PUBLISHED[number][column]) for number in numbers]))
    classic = ("fifo", "fifo+backfill", "least-attained-service")
    means: dict[str, list[float]] = {name: [] for name in (*classic, "replicas: auto")}
    fairness: list[str] = []
    for number in numbers:
        workload = read_workload(base / f"workload-{number}.csv", TraceFormat.POLLUX)
        for name in classic:
            outcome = workload.run(RULES[name])
            means[name].append(summarise(outcome, workload.nodes).mean_completion)
            if name == "least-attained-service":
                fairness.append(f"{number}: Tiresias {_fairness(outcome, workload)}")
        sized = workload.left_to_scheduler
        assert sized is not None
        # As in the published simulators, nobody is spared at the beginning.
        outcome = sized.run(replace(DEFAULT_POLICIES, minimum_run_seconds=0.0))
        means["replicas: auto"].append(summarise(outcome, sized.nodes).mean_completion)
        fairness.append(f"{number}: replicas: auto {_fairness(outcome, workload)}")
    for name, each in means.items():
        ratio = fmean(each) / fmean(means["least-attained-service"])
        print(f"{name:>26}{_cells(each)}  {ratio:.2f} of Tiresias")
    for line in fairness:
        print(line)


def _cells(seconds: Sequence[float]) -> str:
    return "".join(f"{each:>9.0f} s" for each in seconds) + f"  mean {fmean(seconds):>6.0f} s"


def _fairness(outcome: Outcome, asked: Workload) -> str:
    """The worst finish-time fairness, and the share of jobs above 1."""
    alone = {arrival.spec.name: arrival for arrival in asked.arrivals}
    gpus = sum(node.capacity.gpus for node in asked.nodes)
    spans = {job.id: (job.created_at, ended_at(job)) for job in outcome.jobs}
    rhos = [
        _rho(job, spans, alone[job.name].seconds, alone[job.name].spec.roles[0].replicas, gpus) for job in outcome.jobs
    ]
    return f"worst {max(rhos):.1f}, above 1: {sum(rho > 1 for rho in rhos) / len(rhos):.0%}"


def _rho(job: Job, spans: Mapping[JobId, tuple[float, float]], seconds: float, asked: int, gpus: float) -> float:
    """A job's time over that of its own request on an equal share; a share below the request stretches it."""
    begun, ended = spans[job.id]
    took = max(ended - begun, 1.0)
    crowd = sum(max(min(ended, b) - max(begun, a), 0.0) for a, b in spans.values()) / took
    share = gpus / max(crowd, 1.0)
    return took / (seconds * max(asked / share, 1.0))


if __name__ == "__main__":
    main()
