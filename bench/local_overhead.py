"""What the local engine costs a CPU-bound command: the same program bare and as a replica, in turn.

Run: python bench/local_overhead.py [ROUNDS]. The bar is 1 %. Each program prints its own wall and CPU seconds, so that
the fixed cost of a start (bench/local_start.py) is not part of the ratio; the smallest of each counts.
"""

import asyncio
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
import time
wall, cpu = time.perf_counter(), time.process_time()
total = 0
for step in range(200):
    for number in range(40_000):
        total += number * number % 7
    print("step", step, "total", total)
print("seconds", time.perf_counter() - wall, time.process_time() - cpu)
"""


class WallClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time())


def seconds_of(last_line: str) -> tuple[float, float]:
    _, wall, cpu = last_line.split()
    return float(wall), float(cpu)


async def main(rounds: int) -> None:
    command = (sys.executable, "-c", PROGRAM)
    bare: list[tuple[float, float]] = []
    kept: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as directory:
        engine = LocalEngine(Path(directory) / "engine", clock=WallClock())
        news = NewsReader(engine)
        node = (await engine.nodes())[0].name
        for number in range(rounds):
            answer = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
            bare.append(seconds_of(answer.stdout.splitlines()[-1]))
            gang = place(make_spec(roles=(make_role(command=command),)), node, job_id=f"overhead-{number}")
            await engine.run(gang)
            await news.wait_for(ReplicaExited, count=number + 1)
            lines = [line.text async for line in engine.logs(LogQuery(job_id=gang.id.job_id, tail=1))]
            kept.append(seconds_of(lines[-1]))
            await engine.stop(gang.id, 1.0)
            await news.wait_for(GangStopped, count=number + 1)
        await news.close()
        await engine.close()
    for position, name in enumerate(("wall", "CPU")):
        alone, within = (min(sample[position] for sample in samples) for samples in (bare, kept))
        overhead = (within / alone - 1) * 100
        print(f"{name:5} bare {alone:.3f} s   as a replica {within:.3f} s   overhead {overhead:+.2f} %")


asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
