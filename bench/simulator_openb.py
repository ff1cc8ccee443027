"""GPU allocation of the openb pods (8,152 on 1,523 nodes) under several scores, and the time of one replay.

Run: python bench/simulator_openb.py TRACES_DIRECTORY [SEEDS [VARIANT...]]

Without variants every list of pods that is there is replayed: the default one under all scores, the others under plain
packing and the default rules. Beside ours stand the published results of the same list, where there are any.
"""

import csv
import gzip
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from traces import traces_folder

from gangline.model import Node
from gangline.scheduling.demand.shapes import Shape
from gangline.scheduling.plugins.fragmentation import FragmentationGradient
from gangline.scheduling.plugins.interface import Score
from gangline.scheduling.plugins.scores import Pack, Spread
from gangline.simulator.packing import fill, popularity, shuffled
from gangline.simulator.traces import read_openb_nodes, read_openb_pods

LIST = "openb_pod_list_"


class _BestFit(Pack):
    """Plain packing: takes no account of what it has seen."""

    def taught(self, seen: Mapping[Shape, float]) -> Score:
        del seen
        return self


def published(folder: Path) -> dict[str, dict[str, float]]:
    """Mean GPU allocation at 100 % arrived demand, by list of pods and rule."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(folder / "reference-results" / "analysis_allo_discrete.csv.gz", "rt") as lines:
        for line in csv.DictReader(lines):
            found[line["workload"].removeprefix(LIST)][line["sc_policy"][3:]].append(float(line["100"]))
    return {name: {rule: float(np.mean(each)) for rule, each in rules.items()} for name, rules in found.items()}


def replay(name: str, nodes: Sequence[Node], pods: Sequence[Shape], score: Callable[[], Score], seeds: range) -> None:
    capacity = sum(node.capacity.gpu_millis for node in nodes)
    allocations = []
    begun = time.process_time()
    for seed in seeds:
        arrivals = shuffled(pods, seed=seed, demand=1.0, capacity=capacity)
        allocations.append(100 * fill(nodes, arrivals, score()).allocation)
    each = (time.process_time() - begun) / len(seeds)
    print(
        f"  {name:28} {np.mean(allocations):6.2f} % of GPUs allocated   {each:5.2f} s per replay ({len(seeds)} seeds)",
        flush=True,
    )


def main() -> None:
    folder = traces_folder() / "alibaba-openb-2023"
    seeds = range(42, 42 + int(sys.argv[2] if len(sys.argv) > 2 else 3))
    nodes = list(read_openb_nodes(folder / "csv" / "openb_node_list_all_node.csv.gz"))
    known = {path.name.removesuffix(".csv.gz").removeprefix(LIST): path for path in folder.glob(f"csv/{LIST}*.csv.gz")}
    others = published(folder)
    for variant in sys.argv[3:] or sorted(known, key=lambda name: (name != "default", name)):
        pods = list(read_openb_pods(known[variant]))
        beside = [f"{rule} {others[variant][rule]:.2f}" for rule in ("Random", "BestFit", "FGD") if variant in others]
        print(f"{variant}: published {', '.join(beside) or 'nothing'}", flush=True)
        scores: dict[str, Callable[[], Score]] = {"best fit": _BestFit, "pack (the default, learns)": Pack}
        if variant == "default":
            scores |= {"spread": Spread, "fragmentation gradient": partial(FragmentationGradient, popularity(pods))}
        for name, score in scores.items():
            replay(name, nodes, pods, score, seeds)


if __name__ == "__main__":
    main()
