"""Seven hundred jobs that arrive at a team's service in waves: how long submitting takes, and whether any is lost.

    python bench/team_arrivals.py [--speed N] [--minutes N]

Three hundred jobs in the first minute, 240 at 15 minutes, 110 at 30 and 50 at 32, each of one GPU, on 680 simulated
ones (85 nodes of eight). The service is whole: HTTP, tokens, rights, limits, audit, SQLite, the real controller and
scheduler; only the machines are simulated, and time passes ``--speed`` times as fast. The client is a process of its
own. A job runs for ``--minutes``. Fails unless every job that was submitted has completed.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from aiohttp import ClientSession, web

from gangline import operations
from gangline.api.limits import Limits
from gangline.compose.plugins import chosen_policies
from gangline.compose.team.service import make_team_app
from gangline.controller import Controller
from gangline.engines.simulated.engine import SimulatedEngine
from gangline.engines.simulated.timeline import Timeline
from gangline.engines.simulated.work import FixedWork
from gangline.model import CodeLimits, Phase, Tenant
from gangline.model.team.access import Role
from gangline.operations import Caller, OperationContext
from gangline.storage.interface import JobQuery
from gangline.storage.sql import open_sqlite
from gangline.testing.builders import make_node

WAVES = ((0.0, 60.0, 300), (900.0, 0.0, 240), (1800.0, 0.0, 110), (1920.0, 0.0, 50))
"""When each begins and how long it takes to arrive, in seconds, and how many jobs it has."""
TENANT = Tenant("default")
JOBS = f"/api/v1/tenants/{TENANT}/jobs"
_TICK_SECONDS = 0.02


class NoRecords:
    """Nothing drives other kinds here."""

    def changed(self, kind: str) -> None:
        """Nothing to do."""


async def serve(folder: Path, speed: float, minutes: float) -> tuple[float, int]:
    """Serve until all jobs have ended; return how long it took and how many completed."""
    timeline = Timeline(1_000_000.0)
    nodes = [make_node(f"node-{number}", cpu=64, memory_gib=512, gpus=8) for number in range(85)]
    engine = SimulatedEngine(nodes, timeline, FixedWork({}, otherwise=minutes * 60), start_seconds=10, stop_seconds=5)
    store = await open_sqlite(folder / "bench.db")
    controller = Controller(store=store, engine=engine, clock=timeline, policies=chosen_policies({}))

    def context_of(caller: Caller) -> OperationContext:
        return OperationContext(
            store=store,
            engine=engine,
            link=controller,
            record_link=NoRecords(),
            clock=timeline,
            code_directory=folder / "code",
            caller=caller,
            audit=store.audit,
            answers=store.answers,
        )

    async def move() -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            timeline.move_to(1_000_000.0 + (time.monotonic() - began) * speed)

    limits = Limits(burst=100_000, per_second=100_000.0)
    app = make_team_app(
        store, timeline, context_of, audit=store.audit, only=None, code_limits=CodeLimits(), limits=limits
    )
    token = await operations.create_token(
        context_of(Caller(name="bench")), "bench", role=Role.MEMBER, tenant=TENANT, seconds=366 * 86400.0
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    tasks = [asyncio.create_task(controller.run()), asyncio.create_task(move())]
    address, began = f"http://127.0.0.1:{runner.addresses[0][1]}", time.monotonic()
    command = [sys.executable, __file__, "--client", address, "--token", token.text, "--speed", str(speed)]
    client = await asyncio.create_subprocess_exec(*command)
    if await client.wait():
        raise SystemExit("the client failed")
    wanted = sum(count for _, _, count in WAVES)
    deadline = time.monotonic() + 300
    while True:
        jobs = (await store.list(JobQuery(limit=10_000))).jobs
        ended = [job for job in jobs if job.finished_at is not None]
        if len(ended) >= wanted or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.5)
    took = time.monotonic() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await runner.cleanup()
    await store.close()
    return took, sum(job.phase is Phase.COMPLETED for job in ended)


async def submit(address: str, token: str, speed: float) -> None:
    """Submit all waves at their times, and print how long each submission took."""
    took: list[float] = []
    began = time.monotonic()
    async with ClientSession(address, headers={"Authorization": f"Bearer {token}"}) as session:

        async def one(number: int, at: float) -> None:
            await asyncio.sleep(max(0.0, at / speed - (time.monotonic() - began)))
            role = {"command": ["train"], "resources": {"gpu": 1, "cpu": 4, "memory": "16Gi"}}
            spec = {"roles": {"worker": role}}
            body = {"apiVersion": "gangline.dev/v1", "kind": "Job", "metadata": {"name": f"job-{number}"}, "spec": spec}
            sent = time.perf_counter()
            async with session.post(JOBS, json=body, headers={"Idempotency-Key": str(number)}) as answer:
                if answer.status != 201:
                    raise SystemExit(f"{answer.status}: {await answer.text()}")
            took.append(time.perf_counter() - sent)

        moments = [start + length * number / count for start, length, count in WAVES for number in range(count)]
        await asyncio.gather(*(one(number, at) for number, at in enumerate(moments)))
    ranks = statistics.quantiles(took, n=100)
    p50, p99, longest = (1e3 * each for each in (ranks[49], ranks[98], max(took)))
    print(f"submitted {len(took)}: p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {longest:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", type=float, default=60.0, help="how many times as fast time passes")
    parser.add_argument("--minutes", type=float, default=40.0, help="how long a job runs")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--token", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        asyncio.run(submit(options.client, options.token, options.speed))
        return
    print(f"load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory(prefix="ga") as folder:
        took, completed = asyncio.run(serve(Path(folder), options.speed, options.minutes))
    wanted = sum(count for _, _, count in WAVES)
    print(f"{completed} of {wanted} completed after {took:.0f} s; load {os.getloadavg()[0]:.1f} at the end")
    if completed != wanted:
        raise SystemExit("jobs were lost")


if __name__ == "__main__":
    main()
