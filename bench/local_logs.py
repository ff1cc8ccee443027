"""How fast output goes through the keeper: 1 GB of log lines from one replica, against the same pipe into ``cat``.

Run: python bench/local_logs.py [BYTES]. Also how fast kept output is read back, whole and its last ten lines.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gangline.engines.interface import LogQuery
from gangline.engines.local.engine import LocalEngine
from gangline.lifecycle.events import GangStopped, ReplicaExited
from gangline.model import JobId, Resources, Timestamp
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import NewsReader, place

LINE = "step 12345 loss 0.123456 accuracy 0.987654 images/s 12345.6 learning-rate 0.001"


class WallClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time())


async def main(size: int) -> None:
    script = f"yes '{LINE}' | head -c {size}"
    with tempfile.TemporaryDirectory() as directory:
        begin = time.perf_counter()
        await asyncio.to_thread(subprocess.run, ["sh", "-c", f"{script} | cat > {directory}/bare"], check=True)
        bare = time.perf_counter() - begin
        os.unlink(f"{directory}/bare")  # noqa: PTH108  # nothing else runs in this loop yet
        engine = LocalEngine(Path(directory) / "engine", clock=WallClock())
        news = NewsReader(engine)
        role = make_role(command=("sh", "-c", script), resources=Resources(cpu_millis=1000))
        gang = place(make_spec(roles=(role,)), (await engine.nodes())[0].name)
        await engine.run(gang)
        (exited,) = await news.wait_for(ReplicaExited, seconds=600)
        began = next(event.at for event in news.seen if getattr(event, "replica", None) == exited.replica)
        kept = exited.at - began
        print(f"{size / 1e6:.0f} MB  cat: {size / bare / 1e6:.0f} MB/s   keeper: {size / kept / 1e6:.0f} MB/s", end="")
        print(f"   ratio {kept / bare:.2f}")
        await report_reading(engine)
        await engine.stop(gang.id, 1.0)
        await news.wait_for(GangStopped)
        await news.close()
        await engine.close()


async def report_reading(engine: LocalEngine) -> None:
    begin = time.perf_counter()
    tail = [line async for line in engine.logs(LogQuery(job_id=JobId("job-1"), tail=10))]
    print(f"last {len(tail)} lines: {(time.perf_counter() - begin) * 1000:.1f} ms")
    begin, lines, characters = time.perf_counter(), 0, 0
    async for line in engine.logs(LogQuery(job_id=JobId("job-1"))):
        lines += 1
        characters += len(line.text)
    seconds = time.perf_counter() - begin
    print(f"all {lines} kept lines: {seconds:.1f} s, {characters / seconds / 1e6:.0f} MB/s")


asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000_000))
