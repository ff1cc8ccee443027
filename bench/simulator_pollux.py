"""Pollux workloads 1-4 on 16 nodes of four GPUs: average completion times beside the published ones.

Run: python bench/simulator_pollux.py TRACES_DIRECTORY [RULES...]
"""

import sys

from traces import traces_folder

from gangline.simulator import RULES, TraceFormat, read_workload, summarise

PUBLISHED = {1: 2474, 2: 5145, 3: 3876, 4: 3280}


def main() -> None:
    folder = traces_folder() / "pollux-osdi21" / "workloads"
    workloads = {number: read_workload(folder / f"workload-{number}.csv", TraceFormat.POLLUX) for number in PUBLISHED}
    print(f"{'workload':>32}" + "".join(f"{number:>16}" for number in PUBLISHED))
    print(f"{'published least attained service':>32}" + "".join(f"{seconds:>14} s" for seconds in PUBLISHED.values()))
    for name in sys.argv[2:] or RULES:
        line = f"{name:>32}"
        for number, published in PUBLISHED.items():
            workload = workloads[number]
            mean = summarise(workload.run(RULES[name]), workload.nodes).mean_completion
            line += f"{mean:>7.0f} s ({mean / published - 1:+4.0%})"
        print(line, flush=True)


if __name__ == "__main__":
    main()
