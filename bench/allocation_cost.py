"""What a choice of sizes costs: 1,000 jobs on 1,000 nodes of eight GPUs, and a cycle in which nobody is elastic.

Run: python bench/allocation_cost.py

Processor time of one core, the best of five runs. The fits are known, as they are from the second round on; the first
line has them made anew.
"""

import random
import time
from collections.abc import Callable

from gangline.allocation.sizes import Candidate, Goodput
from gangline.model.jobs.speed import SpeedRecord, SpeedSample

JOBS, GPUS = 1000, 8000


def candidates() -> list[Candidate]:
    rng = random.Random(1)
    found = []
    for number in range(JOBS):
        serial, tried = rng.uniform(0.0, 0.5), rng.choice([1, 2, 4, 8, 16])
        sizes = [size for size in (1, 2, 4, 8, 16) if size <= tried]
        samples = tuple(SpeedSample(workers=size, step_seconds=1.0 / size + serial) for size in sizes)
        record = SpeedRecord(samples=samples, progress=rng.random(), replica_seconds=rng.uniform(0, 1e5))
        found.append(
            Candidate(
                name=str(number),
                least=1,
                most=64,
                per_node=8,
                present=tried,
                record=record,
                changes=3,
                age_seconds=7200.0,
            )
        )
    return found


def timed(act: Callable[[], object], runs: int = 5) -> float:
    best = float("inf")
    for _ in range(runs):
        begun = time.process_time()
        act()
        best = min(best, time.process_time() - begun)
    return 1000 * best


def main() -> None:
    print(f"fitting {JOBS} records: {timed(candidates, 1):.0f} ms")
    jobs = candidates()
    print(f"choosing sizes of {JOBS} jobs on {GPUS} GPUs: {timed(lambda: Goodput().sizes(jobs, GPUS)):.0f} ms")


if __name__ == "__main__":
    main()
