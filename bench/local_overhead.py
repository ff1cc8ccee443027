"""What the local engine costs a CPU-bound command: the same program bare, bare on the same cores, and as a replica.

Run: python bench/local_overhead.py [ROUNDS]. The bar is 1 %. The three take turns, and each program prints the wall and
CPU seconds of its whole loop and of its fastest step, so that the fixed cost of a start (bench/local_start.py) is not
part of the ratio. A replica keeps to cores of its own, so it is compared with the bare run that follows on the same
cores. On a machine whose bare runs differ among themselves by more than the bar, only the fastest step of all rounds
tells anything: whatever else runs can only slow a step down.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gangline.engines.interface import LogQuery
from gangline.engines.local.engine import LocalEngine
from gangline.lifecycle.events import GangStopped, ReplicaExited
from gangline.model import Timestamp
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import NewsReader, place

PROGRAM = """
import os, sys, time
if len(sys.argv) > 1:
    os.sched_setaffinity(0, map(int, sys.argv[1].split(",")))
wall, cpu, step_seconds = time.perf_counter(), time.process_time(), []
total = 0
for step in range(100):
    begin = time.perf_counter()
    for number in range(20_000):
        total += number * number % 7
    step_seconds.append(time.perf_counter() - begin)
    print("step", step, "total", total)
cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
print("seconds", time.perf_counter() - wall, time.process_time() - cpu, min(step_seconds), cores)
"""
COMMAND = (sys.executable, "-c", PROGRAM)
Sample = tuple[float, float, float]
BARE, SAME_CORES, REPLICA = "bare", "bare, same cores", "as a replica"


class WallClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time())


def seconds_of(last_line: str) -> Sample:
    _, wall, cpu, step, _ = last_line.split()
    return float(wall), float(cpu), float(step)


def run_bare(*arguments: str) -> str:
    answer = subprocess.run((*COMMAND, *arguments), capture_output=True, text=True, check=True)
    return answer.stdout.splitlines()[-1]


async def run_replica(engine: LocalEngine, news: NewsReader, number: int) -> str:
    node = (await engine.nodes())[0].name
    gang = place(make_spec(roles=(make_role(command=COMMAND),)), node, job_id=f"overhead-{number}")
    await engine.run(gang)
    await news.wait_for(ReplicaExited, count=number + 1)
    lines = [line.text async for line in engine.logs(LogQuery(job_id=gang.id.job_id, tail=1))]
    await engine.stop(gang.id, 1.0)
    await news.wait_for(GangStopped, count=number + 1)
    return lines[-1]


async def main(rounds: int) -> None:
    found: dict[str, list[Sample]] = {BARE: [], SAME_CORES: [], REPLICA: []}
    with tempfile.TemporaryDirectory() as directory:
        engine = LocalEngine(Path(directory) / "engine", clock=WallClock())
        news = NewsReader(engine)
        for number in range(rounds):
            found[BARE].append(seconds_of(await asyncio.to_thread(run_bare)))
            line = await run_replica(engine, news, number)
            found[REPLICA].append(seconds_of(line))
            found[SAME_CORES].append(seconds_of(await asyncio.to_thread(run_bare, line.split()[-1])))
        await news.close()
        await engine.close()
    report(found)


def report(found: dict[str, list[Sample]]) -> None:
    for position, name in enumerate(("wall", "CPU")):
        seconds = {way: [sample[position] for sample in samples] for way, samples in found.items()}
        ratios = [kept / bare for kept, bare in zip(seconds[REPLICA], seconds[SAME_CORES], strict=True)]
        low, middle, high = ((quartile - 1) * 100 for quartile in statistics.quantiles(ratios, n=4))
        noise = (statistics.median(seconds[BARE]) / min(seconds[BARE]) - 1) * 100
        print(f"{name:13} {middle:+.2f} % (quartiles {low:+.2f}, {high:+.2f}; bare runs differ by {noise:.1f} %)")
    same, kept = (min(sample[2] for sample in found[way]) * 1000 for way in (SAME_CORES, REPLICA))
    print(f"fastest step  {(kept / same - 1) * 100:+.2f} % (bare {same:.3f} ms, as a replica {kept:.3f} ms)")


asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 31))
