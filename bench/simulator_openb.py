"""GPU allocation of the openb trace (8,152 pods on 1,523 nodes) under several scores, and the time of one replay.

Run: python bench/simulator_openb.py TRACES_DIRECTORY [SEEDS]
"""

import sys
import time

import numpy as np
from traces import traces_folder

from gangline.scheduling.plugins.fragmentation import FragmentationGradient
from gangline.scheduling.plugins.scores import Pack, Spread
from gangline.simulator.packing import fill, popularity, shuffled
from gangline.simulator.traces import read_openb_nodes, read_openb_pods


def main() -> None:
    folder = traces_folder() / "alibaba-openb-2023" / "csv"
    seeds = range(42, 42 + int(sys.argv[2] if len(sys.argv) > 2 else 3))
    nodes = list(read_openb_nodes(folder / "openb_node_list_all_node.csv.gz"))
    pods = list(read_openb_pods(folder / "openb_pod_list_default.csv.gz"))
    capacity = sum(node.capacity.gpu_millis for node in nodes)
    scores = {
        "spread": Spread,
        "pack": Pack,
        "fragmentation gradient": lambda: FragmentationGradient(popularity(pods)),
    }
    print("published at 100 % arrived demand: random 86.3, best fit 92.9, fragmentation gradient 95.2 %")
    for name, score in scores.items():
        allocations = []
        begun = time.perf_counter()
        for seed in seeds:
            arrivals = shuffled(pods, seed=seed, demand=1.0, capacity=capacity)
            allocations.append(100 * fill(nodes, arrivals, score()).allocation)
        each = (time.perf_counter() - begun) / len(seeds)
        print(
            f"{name:24} {np.mean(allocations):6.2f} % of GPUs allocated   {each:5.2f} s per replay ({len(seeds)} seeds)"
        )


if __name__ == "__main__":
    main()
