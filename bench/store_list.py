"""How long one page of a list of many finished jobs takes, in SQLite and in PostgreSQL.

Makes the jobs, then asks for a page of 100 under each filter, common and rare. The baseline of the ratios is the
plain newest page of the same store in the same run. Also prints how fast jobs and metrics are written.

    python bench/store_list.py [--jobs 200000] [--store sqlite --store postgres]
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

from gangline.model import Job, JobId, Metric, Phase, PhaseEntry, QueueName, ReplicaId, RoleName, Tenant, Timestamp
from gangline.storage.interface import JobQuery, Store
from gangline.storage.sql import SqlStore
from gangline.storage.sql import jobs as job_rows
from gangline.storage.sql.database import Database
from gangline.storage.sql.postgres import PostgresDatabase
from gangline.storage.sql.sqlite import SqliteDatabase
from gangline.testing.builders import make_job, make_role
from tools.postgres import postgres_server

LIMIT_MILLISECONDS = 100
ROUNDS = 7
BATCH = 5000


def finished_job(number: int) -> Job:
    """Return the job of this number: most have completed, and every property has common and rare values."""
    phase = Phase.FAILED if number % 20 == 0 else Phase.CANCELLED if number % 5000 == 1 else Phase.COMPLETED
    job = make_job(
        job_id=f"{number * 2654435761 % 2**32:08x}-{number}",
        name=f"train-{number}",
        at=number,
        roles=(make_role("chief"), make_role(replicas=4, env={"EPOCHS": "10"})),
        tenant=Tenant(f"team-{number % 10}" if number % 2000 else "rare-team"),
        queue=QueueName("batch" if number % 3 else "research"),
        labels={"model": "resnet" if number % 2 else "bert", "sweep": f"sweep-{number // 50}"},
    )
    ending = PhaseEntry(phase=phase, at=Timestamp(number + 600.0), reason="Ended", message="all replicas ended")
    return replace(job, history=(*job.history, ending), finished_at=ending.at)


def queries(jobs: int) -> Iterator[tuple[str, JobQuery]]:
    """Name the questions that users ask."""
    middle = f"{float(jobs // 2)}:"
    yield "newest page", JobQuery()
    yield "phase, common", JobQuery(phases=frozenset({Phase.COMPLETED}))
    yield "phase, rare", JobQuery(phases=frozenset({Phase.CANCELLED}))
    yield "phases, none found", JobQuery(phases=frozenset({Phase.QUEUED, Phase.STARTING, Phase.PROCESSING}))
    yield "tenant, common", JobQuery(tenant=Tenant("team-3"))
    yield "tenant, rare", JobQuery(tenant=Tenant("rare-team"))
    yield "queue", JobQuery(queue=QueueName("research"))
    yield "label, common", JobQuery(labels=(("model", "bert"),))
    yield "label, rare", JobQuery(labels=(("sweep", f"sweep-{jobs // 100}"),))
    yield "two labels", JobQuery(labels=(("model", "bert"), ("sweep", f"sweep-{jobs // 100}")))
    yield "label common, phase rare", JobQuery(labels=(("model", "resnet"),), phases=frozenset({Phase.CANCELLED}))
    yield "label common, text not found", JobQuery(labels=(("model", "bert"),), text="nowhere")
    yield "text, common", JobQuery(text="99")
    yield "text, one job", JobQuery(text=f"train-{jobs // 7}")
    yield "text, not found", JobQuery(text="nowhere")
    yield "created since", JobQuery(created_since=Timestamp(jobs * 0.9))
    yield "finished before", JobQuery(finished_before=Timestamp(jobs * 0.01))
    yield "tenant, text not found", JobQuery(tenant=Tenant("team-3"), text="nowhere")
    yield "tenant, phase and text", JobQuery(tenant=Tenant("team-0"), phases=frozenset({Phase.FAILED}), text="777")
    yield "deep page", JobQuery(after=middle)
    yield "deep page of a label", JobQuery(after=middle, labels=(("model", "bert"),))
    yield "deep page of a tenant", JobQuery(after=middle, tenant=Tenant("team-3"))
    yield "last page", JobQuery(after="50.0:")


def fill(database: Database, jobs: int) -> None:
    """Insert the jobs in large transactions: how they came in is not what is measured."""
    session = database.connect()
    for start in range(0, jobs, BATCH):
        with session.transaction():
            for number in range(start, min(start + BATCH, jobs)):
                job_rows.create(session, finished_job(number), ())
    if database.dialect == "postgresql":
        session.change("VACUUM ANALYZE")  # as the server's own autovacuum does within minutes
    session.close()


async def milliseconds(action: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return the median and the worst duration of some rounds after a first one."""
    await action()
    durations = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        await action()
        durations.append((time.perf_counter() - begin) * 1000)
    return statistics.median(durations), max(durations)


def contention() -> float:
    """Return how many seconds a second of one core takes now: 1.0 on a quiet machine."""
    begin, spent = time.perf_counter(), time.process_time()
    while time.process_time() - spent < 0.2:
        pass
    return (time.perf_counter() - begin) / 0.2


async def measure_lists(store: Store, jobs: int) -> bool:
    """Print the time of every query; say whether all kept the limit."""
    baseline, good = 0.0, True
    print(f"  {'query':<30} {'found':>5} {'median':>9} {'worst':>9} {'ratio':>7}")
    for name, query in queries(jobs):
        found = len((await store.list(query)).jobs)
        median, worst = await milliseconds(lambda query=query: store.list(query))
        baseline = baseline or median
        good = good and median < LIMIT_MILLISECONDS
        print(f"  {name:<30} {found:>5} {median:>6.1f} ms {worst:>6.1f} ms {median / baseline:>6.1f}x")
    return good


async def measure_writes(store: Store) -> None:
    """Print how fast jobs are created and saved one by one, and metrics added in batches."""
    fresh = [make_job(job_id=f"new-{number}", name=f"new-{number}", labels={"model": "bert"}) for number in range(2000)]
    begin = time.perf_counter()
    created = await asyncio.gather(*(store.create(job) for job in fresh))
    print(f"  created {len(fresh) / (time.perf_counter() - begin):,.0f} jobs/s beside the others")
    begin = time.perf_counter()
    await asyncio.gather(*(store.save(job) for job in created))
    print(f"  saved {len(fresh) / (time.perf_counter() - begin):,.0f} jobs/s")
    batches = [[_metric(job.id, step) for job in fresh[:50] for step in range(at, at + 20)] for at in range(0, 400, 20)]
    begin = time.perf_counter()
    for batch in batches:
        await store.add_metrics(batch)
    print(f"  added {sum(map(len, batches)) / (time.perf_counter() - begin):,.0f} metrics/s in batches of 1000")
    latest, _ = await milliseconds(lambda: store.latest_metrics([job.id for job in fresh[:50]]))
    series, _ = await milliseconds(lambda: store.metrics(fresh[0].id, name="loss"))
    print(f"  latest metrics of 50 jobs {latest:.1f} ms, one series of 400 values {series:.1f} ms")


def _metric(job_id: JobId, step: int) -> Metric:
    replica = ReplicaId(RoleName("worker"), 0)
    return Metric(job_id=job_id, replica=replica, name="loss", value=1 / (step + 1), step=step, at=Timestamp(step))


async def measure(database: Database, jobs: int) -> bool:
    """Measure one store."""
    store = await SqlStore.open(database)
    begin = time.perf_counter()
    await asyncio.to_thread(fill, database, jobs)
    print(f"{database.dialect}: {jobs:,} finished jobs, made in {time.perf_counter() - begin:.0f} s")
    before = contention()
    good = await measure_lists(store, jobs)
    print(f"  a second of one core took {before:.1f} s before and {contention():.1f} s after these")
    await measure_writes(store)
    await store.close()
    return good


def main() -> int:
    """Measure the stores asked for; the exit code says whether every filter kept the limit."""
    parser = argparse.ArgumentParser(description="Time filtered pages of many jobs.")
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"))
    arguments = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="gangline-bench-") as directory:
        for name in arguments.store or ("sqlite", "postgres"):
            database: Database = (
                SqliteDatabase(Path(directory) / "gangline.db")
                if name == "sqlite"
                else PostgresDatabase(postgres_server().create_database())
            )
            good = asyncio.run(measure(database, arguments.jobs)) and good
    print(f"every filter under {LIMIT_MILLISECONDS} ms" if good else f"NOT every filter under {LIMIT_MILLISECONDS} ms")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
