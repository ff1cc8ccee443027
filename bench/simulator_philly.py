"""The whole Philly trace (82,247 jobs) through controller, lifecycle and scheduler in virtual time.

Run: python bench/simulator_philly.py TRACES_DIRECTORY [NODES] [JOBS]
The published cluster had 2,490 GPUs; 311 nodes of eight come next to it.
"""

import sys
import time
from itertools import islice

import numpy as np
from traces import traces_folder

from gangline.model import Node, NodeName, Resources
from gangline.simulator.report import summarise, table
from gangline.simulator.run import Setup, simulate
from gangline.simulator.traces import read_philly


def main() -> None:
    values = np.random.default_rng(0).integers(0, 1 << 40, 1_000_000)
    begun = time.process_time()
    np.sort(values)
    baseline = time.process_time() - begun
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 311
    limit = int(sys.argv[3]) if len(sys.argv) > 3 else None
    arrivals = list(islice(read_philly(traces_folder() / "philly" / "philly.csv.gz"), limit))
    capacity = Resources(cpu_millis=96_000, memory_mib=1_048_576, gpu_millis=8000)
    nodes = [Node(name=NodeName(f"node-{i:03d}"), capacity=capacity) for i in range(count)]
    wall, begun = time.perf_counter(), time.process_time()
    outcome = simulate(Setup(nodes=nodes), arrivals)
    seconds = time.process_time() - begun
    print(table({f"{count} nodes": summarise(outcome, nodes)}))
    print(
        f"{len(arrivals)} jobs: {seconds:.1f} s of processor time ({seconds / baseline:.0f} x the sort of a million), "
        f"{time.perf_counter() - wall:.1f} s on the clock; target 120 s"
    )


if __name__ == "__main__":
    main()
