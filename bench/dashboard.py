"""The dashboard in a real browser over much: 200,000 jobs, 1,000 nodes, a job of a million numbers and 1 GB of output.

    python bench/dashboard.py [--jobs 200000] [--nodes 1000] [--points 1000000] [--log-bytes 1000000000] [--follow 180]

Prints for each page: the first contentful paint of a browser that has nothing cached (median and worst of three), what
the page and all it loads but the charts' data weigh on the wire, and the processor time of the service for it. Then how
long a change takes to be seen without a reload, and the memory of a tab that follows a job with its timers twenty times
as fast, so that --follow 180 is an hour of following. Pages, store and log are the real ones; the nodes are made up,
and no controller runs. The target of the paint is for an idle machine: "contention" says what a second of a core took.
"""

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page
from store_list import contention

from gangline.compose.dashboard import PrivateDashboard
from gangline.engines.local.engine import LocalEngine
from gangline.lifecycle.events import ReplicaExited
from gangline.model import (
    GangId,
    Job,
    JobId,
    Metric,
    Node,
    Phase,
    PhaseEntry,
    ReplicaId,
    Resources,
    RoleName,
    Tenant,
    Timestamp,
)
from gangline.operations import Caller, OperationContext
from gangline.storage.sql import SqlStore
from gangline.storage.sql import jobs as job_rows
from gangline.storage.sql.sqlite import SqliteDatabase
from gangline.testing.builders import make_job, make_node, make_role, make_running_job, make_spec
from gangline.testing.engine_suite import NewsReader, place
from tests.operations.fakes import CountingRecordLink, ListeningLink
from tools.browser import chromium

LINE = "step 12345 loss 0.123456 accuracy 0.987654 images/s 12345.6 learning-rate 0.001"
BIG = "job-1"
WAITING = 1000
FASTER = 20
PAGES = ("jobs", "jobs?phase=running", f"jobs/{BIG}", "queues", "queues/default", "nodes", "schedule", "use", "what-if")


class WallClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time())


class ManyNodes(LocalEngine):
    """The engine of this machine, which says that it has other nodes."""

    machines: Sequence[Node] = ()

    async def nodes(self) -> Sequence[Node]:
        return self.machines or await super().nodes()


def finished(number: int, at: float) -> Job:
    phase = Phase.FAILED if number % 20 == 0 else Phase.COMPLETED
    job = make_job(job_id=f"job-{number}", name=f"train-{number}", at=at, labels={"model": f"m{number % 50}"})
    ending = PhaseEntry(phase=phase, at=Timestamp(at + 600), reason="Ended", message="all replicas ended")
    return replace(job, history=(*job.history, ending), finished_at=ending.at)


def running(number: int, at: float) -> Job:
    job = make_running_job(make_spec(name=f"runs-{number}", roles=(make_role(),)), at=at, job_id=f"runs-{number}")
    node = f"node-{number}"
    return replace(job, replicas=tuple(replace(each, node=node) for each in job.replicas))  # type: ignore[arg-type]


def fill(database: SqliteDatabase, jobs: int, nodes: int) -> None:
    now, session = time.time(), database.connect()
    made = [running(number, now - 3600) for number in range(nodes)]
    made += [make_job(job_id=f"waits-{n}", name=f"waits-{n}", at=now - 60) for n in range(WAITING)]
    made.append(make_running_job(make_spec(name=BIG, roles=(make_role(),)), at=now - 7200, job_id=BIG))
    for start in range(0, jobs, 5000):
        with session.transaction():
            for number in range(start + 2, min(start + 5002, jobs + 2)):
                job_rows.create(session, finished(number, now - 30 * 86400 + number * 10), ())
    with session.transaction():
        for job in made:
            job_rows.create(session, job, ())
    session.close()


async def write_log(engine: LocalEngine, size: int) -> None:
    """Have the real keeper keep that much output of a replica of the job."""
    news = NewsReader(engine)
    role = make_role(command=("sh", "-c", f"yes '{LINE}' | head -c {size}"), resources=Resources(cpu_millis=100))
    await engine.run(place(make_spec(roles=(role,)), (await engine.nodes())[0].name))
    await news.wait_for(ReplicaExited, seconds=600)
    await news.close()


async def write_metrics(store: SqlStore, points: int) -> None:
    replica, at = ReplicaId(RoleName("worker"), 0), time.time() - points / 100
    for start in range(0, points, 5000):
        await store.add_metrics(
            [
                Metric(
                    job_id=JobId(BIG),
                    replica=replica,
                    name="loss",
                    value=1 / (step + 1),
                    step=step,
                    at=Timestamp(at + step / 100),
                )
                for step in range(start, min(start + 5000, points))
            ]
        )


class Site:
    """The pages over the filled store, in a thread of their own."""

    def __init__(self, folder: Path, wanted: argparse.Namespace) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.base = self.do(self._open(folder, wanted)).partition("/dashboard/")[0]

    def do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def _open(self, folder: Path, wanted: argparse.Namespace) -> str:
        database = SqliteDatabase(folder / "jobs.sqlite")
        self.store = await SqlStore.open(database)
        await asyncio.to_thread(fill, database, wanted.jobs, wanted.nodes)
        await write_metrics(self.store, wanted.points)
        self.engine = ManyNodes(folder / "engine", clock=WallClock())
        await write_log(self.engine, wanted.log_bytes)
        self.engine.machines = [make_node(f"node-{n}", gpus=8, gpu_type="h200", cpu=96) for n in range(wanted.nodes)]
        context = OperationContext(
            store=self.store,
            engine=self.engine,
            link=ListeningLink(),
            record_link=CountingRecordLink(),
            clock=WallClock(),
            code_directory=folder / "code",
            caller=Caller(name="ada"),
        )
        self.pages = PrivateDashboard(
            lambda request: context, clock=WallClock(), owner=lambda: "ada", home=Tenant("default")
        )
        return await self.link()

    async def link(self) -> str:
        return (await self.pages.link(None, 0)).address  # type: ignore[arg-type]

    def at(self, path: str) -> str:
        return f"{self.base}/dashboard/tenants/default/{path}"

    async def close(self) -> None:
        await self.pages.close()
        await self.engine.stop(GangId(JobId(BIG), 1), 0)
        await self.engine.close()


def logged_in(browser: Browser, site: Site) -> Page:
    tab = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    tab.set_default_timeout(120_000)
    tab.goto(site.do(site.link()))
    tab.wait_for_url("**/jobs")
    return tab


PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
WEIGHT = """[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .filter(each => !each.name.includes('/api/') && !each.name.includes('live='))
  .map(each => each.transferSize).reduce((a, b) => a + b, 0)"""


def measure_pages(browser: Browser, site: Site) -> None:
    print(f"  {'page':<22} {'first paint':>11} {'worst':>9} {'weight':>9} {'service CPU':>12}")
    for path in PAGES:
        paints, spent, weight = [], [], 0
        for _ in range(3):
            tab = logged_in(browser, site)
            tab.goto("about:blank")
            tab.context.new_cdp_session(tab).send("Network.clearBrowserCache")
            before = time.process_time()
            tab.goto(site.at(path), wait_until="load")
            while tab.evaluate(PAINT) is None:
                tab.wait_for_timeout(20)
            spent.append(time.process_time() - before)
            paints.append(tab.evaluate(PAINT))
            weight = tab.evaluate(WEIGHT)
            tab.context.close()
        row = f"  {path:<22} {statistics.median(paints):>8.0f} ms {max(paints):>6.0f} ms {weight / 1000:>6.0f} kB"
        print(f"{row} {1000 * statistics.median(spent):>9.0f} ms", flush=True)


def measure_change(browser: Browser, site: Site) -> None:
    tab = logged_in(browser, site)
    tab.goto(site.at("jobs/waits-0"))
    tab.wait_for_selector("#live")
    seen = []
    for round_number in range(5):
        job = site.do(site.store.get(JobId("waits-0")))
        message = f"change {round_number}"
        entry = PhaseEntry(phase=job.phase, at=Timestamp(time.time()), reason="Changed", message=message)
        begin = time.perf_counter()
        site.do(site.store.save(replace(job, history=(*job.history, entry))))
        tab.locator("#live", has_text=message).wait_for(state="attached")
        seen.append(time.perf_counter() - begin)
    print(f"a change is seen after {statistics.median(seen):.2f} s (worst of 5: {max(seen):.2f} s)")
    tab.context.close()


def measure_log(browser: Browser, site: Site) -> None:
    tab = logged_in(browser, site)
    begin = time.perf_counter()
    tab.goto(site.at(f"jobs/{BIG}"))
    tab.locator("#log-lines > div").nth(900).wait_for(state="attached")
    print(f"the end of the log is shown after {time.perf_counter() - begin:.2f} s", end="")
    tab.wait_for_selector(".chart canvas")
    print(f", the curve of the numbers after {time.perf_counter() - begin:.2f} s", flush=True)
    tab.context.close()


def measure_memory(browser: Browser, site: Site, seconds: float) -> None:
    tab = logged_in(browser, site)
    tab.add_init_script(
        f"""for (const name of ['setTimeout', 'setInterval']) {{
          const real = window[name];
          window[name] = (work, delay, ...rest) => real(work, (delay ?? 0) / {FASTER}, ...rest); }}"""
    )
    tab.goto(site.at(f"jobs/{BIG}"))
    session = tab.context.new_cdp_session(tab)
    used, step = [], 0
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        step += 1
        site.do(site.store.add_metrics([_point(step)]))
        tab.wait_for_timeout(500)
        if len(used) < 1 + 6 * passed / seconds:
            session.send("HeapProfiler.collectGarbage")
            used.append(session.send("Runtime.getHeapUsage")["usedSize"] / 1e6)
    figures = ", ".join(f"{each:.1f}" for each in used)
    print(f"memory of the tab over {seconds * FASTER / 60:.0f} min of following, MB: {figures}")
    tab.context.close()


def _point(step: int) -> Metric:
    replica = ReplicaId(RoleName("worker"), 0)
    return Metric(
        job_id=JobId(BIG), replica=replica, name="loss", value=1.0, step=10**7 + step, at=Timestamp(time.time())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--log-bytes", type=int, default=1_000_000_000)
    parser.add_argument("--follow", type=float, default=180.0)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder), wanted)
        size = (Path(folder) / "jobs.sqlite").stat().st_size / 1e6
        print(f"{wanted.jobs:,} jobs, {wanted.nodes:,} nodes, {wanted.points:,} numbers, {size:.0f} MB of SQLite")
        print(f"a second of a core takes {contention():.1f} s now", flush=True)
        try:
            with chromium() as browser:
                measure_pages(browser, site)
                measure_change(browser, site)
                measure_memory(browser, site, wanted.follow)
                measure_log(browser, site)
        finally:
            site.do(site.close())


if __name__ == "__main__":
    main()
