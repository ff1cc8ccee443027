"""What the local engine costs a CPU-bound command: the program bare and as a replica, at once and on the same core.

Run: python bench/local_overhead.py [ROUNDS] [SECONDS]. The bar is 1 %. One after the other, two runs of the same
program differ by up to 60 % wherever a machine has neighbours (benchmarks of that form gave -6 to +42 %). So both run
at the same time and take turns on one core every few milliseconds: whatever else happens to that core happens to
both. Compared is the work that each did per second of its own CPU time; whatever the engine and the keeper of the
replica used of a core meanwhile is added. How fast a Python runs also depends on where its memory happens to lie, by
some percent from start to start, so both get the same environment and addresses that are not drawn (``setarch`` of
util-linux). The median of many short rounds is given with its 95 % interval. The fixed cost of a start is not part of
it (bench/local_start.py).
"""

import asyncio
import os
import platform
import resource
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
began, seconds = float(sys.argv[1]), float(sys.argv[2])
cores = [min(os.sched_getaffinity(0))] if sys.argv[3] == "any" else [int(sys.argv[3])]
os.sched_setaffinity(0, cores)
print("core", cores[0], flush=True)
time.sleep(max(0.0, began - time.time()))
cpu, work, total = time.process_time(), 0, 0
while time.time() < began + seconds:
    for number in range(20_000):
        total += number * number % 7
    work += 1
    if work % 100 == 0:
        print("step", work, "total", total, flush=True)
print("work", work, time.process_time() - cpu, flush=True)
"""
SAME_MEMORY = ("setarch", platform.machine(), "-R", "env", "-i", "PYTHONHASHSEED=0")
TICKS = os.sysconf("SC_CLK_TCK")
LEAD_SECONDS = 0.7
"""How long before the first step both programs are started: nobody should start while the other one works."""


class WallClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time())


def work_per_second(last_line: str) -> float:
    _, work, cpu = last_line.split()
    return int(work) / float(cpu)


def keeper_seconds() -> float:
    """The CPU time of the processes that keep replicas; this one's children, and not the programs themselves."""
    seconds = 0
    for place_of in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place_of / "stat").read_text().rpartition(")")[2].split()
            if b"gangline.engines.local.keeper" in (place_of / "cmdline").read_bytes():
                seconds += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return seconds / TICKS


def own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def one_round(engine: LocalEngine, news: NewsReader, number: int, seconds: float) -> tuple[float, float]:
    """Return how much more work the bare program did, and what the platform used of a core meanwhile."""
    node = (await engine.nodes())[0].name
    began = str(time.time() + LEAD_SECONDS)
    command = (*SAME_MEMORY, sys.executable, "-c", PROGRAM, began, str(seconds))
    gang = place(make_spec(roles=(make_role(command=(*command, "any")),)), node, job_id=f"overhead-{number}")
    await engine.run(gang)
    first = [line.text async for line in engine.logs(LogQuery(job_id=gang.id.job_id, tail=1))]
    while not first:
        await asyncio.sleep(0.01)
        first = [line.text async for line in engine.logs(LogQuery(job_id=gang.id.job_id, tail=1))]
    bare = await asyncio.create_subprocess_exec(*command, first[0].split()[1], stdout=subprocess.PIPE)
    await asyncio.sleep(float(began) - time.time())
    keepers, own = keeper_seconds(), own_seconds()  # in this order: looking for keepers is none of the engine's work
    output = (await bare.communicate())[0].decode()
    used = own_seconds() - own
    used += keeper_seconds() - keepers
    await news.wait_for(ReplicaExited, count=number + 1)
    lines = [line.text async for line in engine.logs(LogQuery(job_id=gang.id.job_id, tail=1))]
    await engine.stop(gang.id, 1.0)
    await news.wait_for(GangStopped, count=number + 1)
    bare_rate = work_per_second(output.splitlines()[-1])
    rate = work_per_second(lines[-1])
    return bare_rate / rate - 1, used / seconds


async def main(rounds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = LocalEngine(Path(directory) / "engine", clock=WallClock())
        news = NewsReader(engine)
        found = [await one_round(engine, news, number, seconds) for number in range(rounds)]
        await news.close()
        await engine.close()
    slower = sorted(100 * each for each, _ in found)
    middle, margin = statistics.median(slower), round(0.98 * len(slower) ** 0.5)
    low, high = slower[max(0, rounds // 2 - margin)], slower[min(rounds - 1, rounds // 2 + margin)]
    share = 100 * statistics.median(used for _, used in found)
    print(f"the program itself   {middle:+.2f} % (95 % interval of the median {low:+.2f}, {high:+.2f})")
    print(f"engine and keeper    {share:+.2f} % of a core")
    print(f"overhead             {middle + share:+.2f} %")


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(main(int(given[0]) if given else 60, float(given[1]) if given[1:] else 1.0))
