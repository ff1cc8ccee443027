"""What one trial of a long sweep costs: 10,000 trials of a job that does nothing, and whether that stays the same.

The real controller, scheduler, record driver and SQLite store of the service drive an engine whose replicas end in the
moment they start and report one number, so everything measured is Gangline's own. Printed for every thousandth part
of the sweep: CPU time and wall time of a trial, and the memory of the process. The last line has the ratio of the last
tenth to the second one (the first also pays for imports and for filling caches) and what memory a trial leaves behind;
``--most`` makes a higher ratio an error. ``--png`` draws it (matplotlib).

    python bench/sweep_trials.py [--trials 10000] [--parallelism 8] [--sampler random] [--most 1.5] [--png FILE]
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gangline.controller import Controller, RecordDriver
from gangline.kinds import all_kinds
from gangline.kinds.sweep import SWEEP
from gangline.model import Clean, GangId, JobSpec, ReplicaId, Resources, Timestamp
from gangline.model.kinds.sweep import Budget, Goal, Objective, Sweep, SweepProgress, SweepSpec
from gangline.model.record import RecordId
from gangline.model.search.parameter import Parameter, Range
from gangline.storage.interface import Store
from gangline.storage.sql import open_sqlite
from gangline.testing.builders import make_node, make_role, make_spec
from gangline.testing.scripted_engine import Outcome, ScriptedEngine

PAGE = os.sysconf("SC_PAGE_SIZE")


class WallClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time())


class NoOpEngine(ScriptedEngine):
    """Forgets an attempt when it is over, so that the memory that is measured is not this engine's."""

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None:
        await super().stop(gang_id, grace_seconds, clean=clean)
        self._attempts.pop(gang_id, None)


def report(spec: JobSpec, replica: ReplicaId) -> Outcome:
    del replica
    return Outcome(metrics={"loss": float(spec.env["TRIAL_X"]) ** 2 + float(spec.env["TRIAL_Y"])})


@dataclass(frozen=True)
class Tenth:
    """A part of the sweep: up to which trial, milliseconds per trial, and memory at its end."""

    trials: int
    cpu_ms: float
    wall_ms: float
    memory_mib: float


def sweep_of(trials: int, parallelism: int, sampler: str) -> Sweep:
    spec = SweepSpec(
        name="long",
        template=make_spec("long", roles=(make_role(resources=Resources(cpu_millis=100, memory_mib=16)),)),
        parameters=(
            Parameter("x", range=Range(low=-5.0, high=5.0)),
            Parameter("y", range=Range(low=0.001, high=1.0, log=True)),
        ),
        sampler=sampler,
        seed=0,
        parallelism=parallelism,
        objective=Objective("loss", Goal.MINIMIZE),
        budget=Budget(trials=trials),
    )
    return Sweep(id=RecordId("long"), spec=spec, status=SweepProgress(), created_at=Timestamp(time.time()))


def memory_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


async def measure(store: Store, trials: int, parallelism: int, sampler: str) -> list[Tenth]:
    clock = WallClock()
    engine = NoOpEngine([make_node(cpu=parallelism)], clock, report)
    controller = Controller(store=store, engine=engine, clock=clock)
    driver = RecordDriver(all_kinds(), store=store, link=controller, clock=clock)
    sweep = await store.records(SWEEP).create(sweep_of(trials, parallelism, sampler))
    tasks = [asyncio.create_task(controller.run()), asyncio.create_task(driver.run())]
    tenths = list[Tenth]()
    before, cpu, wall = 0, time.process_time(), time.perf_counter()
    try:
        while True:
            await asyncio.sleep(0.1)
            found = await store.records(SWEEP).find(sweep.tenant, sweep.name)
            assert found is not None
            begun = found.status.begun
            if begun >= (len(tenths) + 1) * trials // 10 or found.settled:
                spent, passed = time.process_time() - cpu, time.perf_counter() - wall
                done = max(1, begun - before)
                tenths.append(Tenth(begun, 1000 * spent / done, 1000 * passed / done, memory_mib()))
                print(_line(tenths[-1]), flush=True)
                before, cpu, wall = begun, time.process_time(), time.perf_counter()
            if found.settled:
                assert begun == trials, f"{begun} of {trials} trials"
                return tenths[:10]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _line(tenth: Tenth) -> str:
    bar = "#" * round(tenth.cpu_ms * 2)
    return f"{tenth.trials:>7} {tenth.cpu_ms:>9.2f} {tenth.wall_ms:>9.2f} {tenth.memory_mib:>9.1f}  {bar}"


def draw(tenths: list[Tenth], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4))
    left = figure.add_subplot()
    left.plot([each.trials for each in tenths], [each.cpu_ms for each in tenths], marker="o")
    left.set(xlabel="trials", ylabel="CPU ms per trial", ylim=(0, None))
    right = left.twinx()
    right.plot([each.trials for each in tenths], [each.memory_mib for each in tenths], color="gray", linestyle=":")
    right.set(ylabel="memory of the service, MiB", ylim=(0, None))
    figure.savefig(path, bbox_inches="tight")


async def run(given: argparse.Namespace) -> list[Tenth]:
    with tempfile.TemporaryDirectory() as place:
        store = await open_sqlite(Path(place) / "bench.db")
        try:
            return await measure(store, given.trials, given.parallelism, given.sampler)
        finally:
            with contextlib.suppress(Exception):
                await store.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--parallelism", type=int, default=8)
    parser.add_argument("--sampler", default="random")
    parser.add_argument(
        "--most", type=float, help="the highest ratio of the last tenth to the second that is not an error"
    )
    parser.add_argument("--png")
    given = parser.parse_args()
    print(
        f"{given.trials} trials of a no-op job, {given.parallelism} at once, sampler {given.sampler}; "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print(f"{'trials':>7} {'CPU ms':>9} {'wall ms':>9} {'MiB':>9}")
    tenths = asyncio.run(run(given))
    early, late = tenths[1], tenths[-1]
    ratio = late.cpu_ms / early.cpu_ms
    kept = 1024 * (late.memory_mib - early.memory_mib) / (late.trials - early.trials)
    print(f"a trial of the last tenth costs {ratio:.2f} times one of the second; each leaves {kept:.1f} KiB behind")
    if given.png:
        draw(tenths, given.png)
    return 1 if given.most is not None and ratio > given.most else 0


if __name__ == "__main__":
    sys.exit(main())
