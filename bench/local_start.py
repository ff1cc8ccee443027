"""How much longer 32 replicas take to start than one: in the engine alone, and as a user sees it, from submission on.

Run: python bench/local_start.py [ROUNDS]. The bar is a ratio of 1.5 for the first line. Medians of rounds in which one
and many take turns:

- last ReplicaStarted: from the order to the engine until it has told the start of every replica. A start is told when
  the replica's program has been executed in its own process, with its directories, limits, CPUs and address.
- last program's first word: from the same moment until the keeper has read the first output of every program. Programs
  of a gang are held until all are there, so this holds the running of all programs up to their first word as well.
- job, submit to last start: from the submission to a whole service until the job's PROCESSING.
- bare processes: as many bare processes, from the first start to the last first word. What no engine can save.

The engine's data lie in memory (/dev/shm) for the first two lines and on disk for the next two. The difference is more
than the disk's speed: for some minutes after many directories were removed, ext4 searches long for the place of a new
one, so that on disk the many take longer with every round and every run.

In the engine's part programs stay, as training does, until all have spoken: the ends of those that were first are no
part of a start. Every start begins some time after nothing runs any more of the one before, as the kernel goes on
taking its control groups apart.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from gangline import Client
from gangline.engines.interface import LogQuery
from gangline.engines.local.engine import LocalEngine
from gangline.lifecycle.events import GangStopped, ReplicaStarted
from gangline.model import NodeName, Phase, Resources, Timestamp
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import NewsReader, place

MANY = 32
MEMORY = Path("/dev/shm")
RESOURCES = Resources(cpu_millis=50, memory_mib=64)
LOOK_SECONDS = 0.01
PAUSE_SECONDS = 0.3
STAYS = ("sh", "-c", "echo up; exec sleep 600")


class WallClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time())


async def measure(
    engine: LocalEngine, news: NewsReader, node: NodeName, replicas: int, job_id: str
) -> tuple[float, float]:
    """Return seconds to the last report of a start and to the first word of the last program."""
    role = make_role(replicas=replicas, command=STAYS, resources=RESOURCES)
    gang = place(make_spec(roles=(role,)), node, job_id=job_id)
    await asyncio.sleep(PAUSE_SECONDS)
    begin = time.time()
    await engine.run(gang)
    await news.wait_for(ReplicaStarted, count=replicas, where=lambda event: event.job_id == job_id)
    reported = time.time() - begin
    spoken = []
    async for line in engine.logs(LogQuery(job_id=gang.id.job_id, follow=True)):
        spoken.append(line.at)
        if len(spoken) == replicas:
            break
    await engine.stop(gang.id, 1.0)
    await news.wait_for(GangStopped, where=lambda event: event.job_id == job_id)
    return reported, max(spoken) - begin


def as_jobs(rounds: int) -> dict[int, float]:
    """Return seconds from a job's submission to its last start, through a whole service, for one and for many."""
    samples: dict[int, list[float]] = {1: [], MANY: []}
    with Client.embedded() as client:
        for number in range(rounds):
            for replicas, found in samples.items():
                role = make_role(replicas=replicas, command=("sh", "-c", "echo up"), resources=RESOURCES)
                time.sleep(PAUSE_SECONDS)
                job = client.submit(make_spec(f"start-{replicas}-{number}", roles=(role,)))
                job = client.wait(job.name)
                while client.get(job.name).holding:
                    time.sleep(LOOK_SECONDS)
                started = next(entry.at for entry in job.history if entry.phase is Phase.PROCESSING)
                found.append(started - job.created_at)
    return {replicas: statistics.median(found) for replicas, found in samples.items()}


def bare(processes: int) -> float:
    """Return seconds from the first start to the last first word, with nothing around the processes."""
    reading, writing = os.pipe()
    begin = time.perf_counter()
    spoken = [(os.POSIX_SPAWN_DUP2, writing, 1)]
    started = [
        os.posix_spawn("/bin/sh", ["sh", "-c", "echo up"], os.environ, file_actions=spoken) for _ in range(processes)
    ]
    words = b""
    while words.count(b"\n") < processes:
        words += os.read(reading, 4096)
    seconds = time.perf_counter() - begin
    for process in started:
        os.waitpid(process, 0)
    os.close(reading)
    os.close(writing)
    return seconds


def report(name: str, one: float, many: float) -> None:
    print(f"{name:36} 1: {one * 1000:6.1f} ms   {MANY}: {many * 1000:6.1f} ms   ratio {many / one:.2f}")


async def in_engine(rounds: int, where: str, directory: str | None) -> None:
    """Measure and print the engine's part, with its data below a directory."""
    results: dict[int, list[tuple[float, float]]] = {1: [], MANY: []}
    with tempfile.TemporaryDirectory(dir=directory) as data:
        engine = LocalEngine(Path(data), clock=WallClock())
        news = NewsReader(engine)
        node = (await engine.nodes())[0].name
        for number in range(rounds):
            for replicas, samples in results.items():
                samples.append(await measure(engine, news, node, replicas, f"start-{replicas}-{number}"))
        await news.close()
        await engine.close()
    for position, name in enumerate(("last ReplicaStarted", "last program's first word")):
        one, many = (statistics.median(sample[position] for sample in results[count]) for count in (1, MANY))
        report(f"{name}, {where}", one, many)


async def main(rounds: int) -> None:
    if MEMORY.is_dir():  # noqa: ASYNC240  # nothing else runs yet
        await in_engine(rounds, "in memory", str(MEMORY))
    await in_engine(rounds, "on disk", None)
    jobs = await asyncio.to_thread(as_jobs, rounds)
    report("job, submit to last start", jobs[1], jobs[MANY])
    one, many = (statistics.median(bare(count) for _ in range(rounds)) for count in (1, MANY))
    report("bare processes", one, many)


asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 15))
