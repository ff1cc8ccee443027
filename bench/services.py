"""Requests to a service through rollouts, rollbacks and kills; a day of traffic beside a training; and waking up.

    python bench/services.py load [--rollouts N] [--seconds N]
    python bench/services.py day [--seconds N] [--png FILE]
    python bench/services.py wake [--times N]

``load``: three replicas of a small program behind the real router, on this machine. How much they answer at most is
measured first, with 32 requests at once. Then requests are sent at half of that rate whatever becomes of them (an open
loop, from a process of its own): quietly, and then while revisions are rolled out and back and a replica is killed with
SIGKILL every two seconds. None may fail, and the 99th percentile should stay within three times that of the quiet run.

``day``: requests follow a day's curve, compressed; the service is scaled by requests at once, an elastic training on
the same machine gives workers up for it and gets them back. Written as a picture and as CSV.

``wake``: a service without replicas is asked, several times; how long the first answer takes, beside how long the same
program takes to answer when it is started alone. The difference should stay below 1.5 s.

On a machine that has other work the capacity is that of the moment when it was measured, and half of it may be too much
a minute later: the figures mean something where the load is the benchmark's own.
"""

# ruff: noqa: E402  # the project is found first
import argparse
import asyncio
import csv
import itertools
import json
import math
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

PROJECT = Path(__file__).parents[1]
sys.path.insert(0, str(PROJECT))

import aiohttp

from gangline.errors import ConflictError, NotFoundError
from gangline.model import JobSpec, Policy, Resources, RoleName
from gangline.model.jobs.spec import RoleSpec
from gangline.model.kinds.service import SERVICE_LABEL, Access, Check, Checks, ReplicaRange, RolloutRules, ServiceSpec
from gangline.sdk import Client

PROGRAM = """
import os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    def do_GET(self):
        time.sleep(float(sys.argv[2]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True
Server((os.environ["HOST"], int(os.environ["PORT"])), Handler).serve_forever()
"""
WAITING = 2000
"""More requests at once than this are not sent, and counted as failed: the machine cannot keep up."""


def program(number: int, answer_seconds: float, resources: Resources) -> JobSpec:
    words = ("sh", "-c", 'exec "$GANGLINE_PYTHON" -c "$@"', "sh", PROGRAM, str(number), str(answer_seconds))
    role = RoleSpec(name=RoleName("server"), command=words, resources=resources)
    return JobSpec(name="job", roles=(role,), policy=Policy(grace_seconds=5))


class Load:
    """Sends requests and keeps how long each took, and what became of it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.statuses: Counter[str] = Counter()
        self.seconds: list[float] = []

    async def _one(self, session: aiohttp.ClientSession, due: float) -> None:
        try:
            async with session.get(f"{self._address}/answer") as answer:
                await answer.read()
                self.statuses[str(answer.status)] += 1
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.statuses[type(error).__name__] += 1
        self.seconds.append(time.monotonic() - due)  # since it should have been sent: a late sender hides nothing

    async def closed(self, at_once: int, seconds: float) -> None:
        """Keep so many requests under way."""
        until = time.monotonic() + seconds

        async def ask(session: aiohttp.ClientSession) -> None:
            while time.monotonic() < until:
                await self._one(session, time.monotonic())

        async with _session() as session:
            await asyncio.gather(*(ask(session) for _ in range(at_once)))

    async def open(self, rate: Callable[[float], float], stopped: threading.Event) -> None:
        """Send requests at a rate, which may depend on the seconds since the beginning."""
        tasks: set[asyncio.Task[None]] = set()
        began = due = time.monotonic()
        async with _session() as session:
            while not stopped.is_set():
                while due <= time.monotonic():
                    if len(tasks) < WAITING:
                        task = asyncio.create_task(self._one(session, due))
                        tasks.add(task)
                        task.add_done_callback(tasks.discard)
                    else:
                        self.statuses["not sent"] += 1
                    due += 1 / max(rate(due - began), 0.01)
                await asyncio.sleep(0.002)
            await asyncio.gather(*tasks)

    def found(self) -> dict[str, Any]:
        ordered = sorted(self.seconds) or [math.inf]
        p50, p99 = (1000 * ordered[int(part * (len(ordered) - 1))] for part in (0.5, 0.99))
        return {"statuses": self.statuses, "sent": len(self.seconds), "p50": p50, "p99": p99}


def _session() -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=60)
    return aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))


def send(options: argparse.Namespace) -> None:
    """What the process of the load does: until its input ends, or for some seconds with requests one after another."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    load, stopped = Load(options.address), threading.Event()
    if options.at_once:
        asyncio.run(load.closed(int(options.at_once), options.seconds))
    else:
        threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
        asyncio.run(load.open(curve(options.rate, options.swing, options.seconds), stopped))
    print(json.dumps(load.found()))


def curve(mean: float, swing: float, seconds: float) -> Callable[[float], float]:
    return lambda at: mean - swing * math.cos(2 * math.pi * at / seconds)


class Sending:
    """The process of the load, until the end of the block."""

    def __init__(self, address: str, **options: float) -> None:
        words = [str(word) for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        command = [sys.executable, __file__, "send", "--address", address, *words]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "Sending":
        return self

    def __exit__(self, *_: object) -> None:
        said, _ = self._process.communicate()
        self.found: dict[str, Any] = json.loads(said)


class Turmoil:
    """Rolls revisions out and back, and kills a replica every two seconds."""

    def __init__(self, client: Client, rollouts: int) -> None:
        self._client, self._rollouts = client, rollouts
        self.killed = self.moved = 0
        self._killed_at = time.monotonic()

    def run(self) -> None:
        for number in range(2, 2 + self._rollouts):
            service = self._client.services.get("steady")
            job = program(number, 0.005, service.spec.job.roles[0].resources)  # type: ignore[union-attr]
            self._client.services.edit(replace(service.spec, job=job))
            self._until(number, service.status.current)
            self._client.services.rollback("steady")
            self._until(number, number)

    def _until(self, number: int, before: int) -> None:
        while True:
            status = self._client.services.get("steady").status
            if status.rollout is None and status.last_number == number and status.current != before:
                self.moved += 1
                return
            if time.monotonic() - self._killed_at > 2:
                self._killed_at = time.monotonic()
                self._kill()
            threading.Event().wait(0.1)

    def _kill(self) -> None:
        jobs = [job for job in self._client.list(labels={SERVICE_LABEL: "steady"}) if job.phase == "PROCESSING"]
        if jobs:
            job = jobs[self.killed % len(jobs)]
            with suppress(ConflictError):  # it has just died of the last one
                self.killed += self._client.kill(job.name, job.replicas[0].id)


def load(client: Client, options: argparse.Namespace) -> bool:
    spec = ServiceSpec(
        name="steady",
        job=program(1, 0.005, Resources(cpu_millis=50, memory_mib=64)),
        replicas=ReplicaRange(min=3),
        checks=Checks(ready=Check(http="/ready", every_seconds=0.5, timeout_seconds=10), within_seconds=120),
        rollout=RolloutRules(steps=(20,), pause_seconds=1, latency_seconds=30),
        access=Access(drain_seconds=20, repeatable=True),
    )
    client.services.create(spec)
    address = client.services.wait_ready("steady", timeout=120).status.address
    capacity = math.inf
    for _ in range(2):
        with Sending(address, at_once=32, seconds=options.seconds / 2) as measured:
            pass
        capacity = min(capacity, measured.found["sent"] / (options.seconds / 2))
    with Sending(address, rate=capacity / 2) as quiet:
        threading.Event().wait(options.seconds)
    turmoil = Turmoil(client, options.rollouts)
    with Sending(address, rate=capacity / 2) as busy:
        turmoil.run()
    ratio = busy.found["p99"] / quiet.found["p99"]
    print(f"answers within 5 ms, three replicas, load {os.getloadavg()[0]:.1f}: {capacity:.0f} requests/s at most")
    for name, sending in (("quiet", quiet), ("turmoil", busy)):
        found = sending.found
        rest = f"p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms"
        print(f"  {name:8} {capacity / 2:5.0f}/s, {found['sent']:6} sent: {found['statuses']} {rest}")
    print(f"  {turmoil.moved} rollouts and rollbacks, {turmoil.killed} kills; p99 {ratio:.1f} of the quiet run")
    return quiet.found["statuses"].keys() | busy.found["statuses"].keys() == {"200"}


_MEAN, _SWING = 46.0, 42.0
"""Requests in a second, over a day, and how far from it they swing."""


class Diary:
    """Looks at replicas and workers twice a second."""

    def __init__(self, client: Client, rate: Callable[[float], float], seconds: float) -> None:
        self._client, self._rate, self._seconds = client, rate, seconds
        self._began = time.monotonic()
        self.rows: list[tuple[float, float, int, int, int]] = []

    @property
    def at(self) -> float:
        return time.monotonic() - self._began

    def look(self) -> None:
        at = self.at
        status = self._client.services.get("shop").status
        training = self._client.get("training")
        workers = sum(each.state == "running" for each in training.replicas)
        rate = self._rate(at) if at < self._seconds else 0.0
        self.rows.append((at, rate, status.scale, status.ready, workers))


def day(client: Client, options: argparse.Namespace) -> bool:
    quarter = Resources(cpu_millis=client.nodes()[0].capacity.cpu_millis // 8, memory_mib=32)
    worker = RoleSpec(
        name=RoleName("worker"), command=("sleep", "36000"), resources=quarter, replicas=1, minimum=1, maximum=8
    )
    client.submit(JobSpec(name="training", roles=(worker,)))
    client.services.create(
        ServiceSpec(
            name="shop",
            job=program(1, 0.1, quarter),
            replicas=ReplicaRange(min=1, max=6, target=2, window_seconds=options.seconds / 15),
            checks=Checks(ready=Check(http="/ready", timeout_seconds=10)),
            access=Access(drain_seconds=10, repeatable=True),
        )
    )
    address = client.services.wait_ready("shop", timeout=120).status.address

    diary = Diary(client, curve(_MEAN, _SWING, options.seconds), options.seconds)
    with Sending(address, rate=_MEAN, swing=_SWING, seconds=options.seconds) as sent:
        while diary.at < options.seconds:
            diary.look()
            threading.Event().wait(0.5)
    until = diary.at + 90  # a training grows again only when the machines have been free for a while
    while diary.at < until and diary.rows[-1][4] < max(row[4] for row in diary.rows):
        diary.look()
        threading.Event().wait(0.5)
    scales = [row[2] for row in diary.rows]
    turns = [after > before for before, after in itertools.pairwise(scales) if after != before]
    reversals = sum(before != after for before, after in itertools.pairwise(turns))
    workers = [row[4] for row in diary.rows]
    print(f"a day in {options.seconds:.0f} s, load {os.getloadavg()[0]:.1f}: {sent.found['statuses']}")
    print(f"  replicas {min(scales)} to {max(scales)}, {len(turns)} changes, {reversals} of them back")
    print(f"  workers of the training {max(workers)}, at least {min(workers[4:])}, at the end {workers[-1]}")
    draw(diary.rows, options.seconds, options.png)
    return bool(sent.found["statuses"].keys() == {"200"})


def wake(client: Client, options: argparse.Namespace) -> bool:
    rules = ReplicaRange(min=0, max=1, idle_seconds=1, window_seconds=1)
    job = program(1, 0.0, Resources(cpu_millis=50, memory_mib=64))
    client.services.create(ServiceSpec(name="sleeper", job=job, replicas=rules, checks=Checks(ready=Check(http="/"))))
    found: dict[str, list[float]] = {"asleep": [], "alone": []}
    for _ in range(options.times):
        for service in client.services.watch("sleeper", timeout=120):
            if service.state == "asleep" and not service.status.replicas:
                break
        found["asleep"].append(first_answer(f"{service.status.address}/"))
        found["alone"].append(started_alone())
    asleep, alone = (statistics.median(found[name]) for name in ("asleep", "alone"))
    each = ", ".join(f"{seconds:.2f}" for seconds in found["asleep"])
    print(f"first answer of a service that slept, load {os.getloadavg()[0]:.1f}: {each} s, median {asleep:.2f} s")
    print(f"  the program alone {alone:.2f} s: {asleep - alone:.2f} s more (at most 1.5)")
    return asleep - alone < 1.5


def first_answer(address: str) -> float:
    began = time.monotonic()
    with urlopen(address, timeout=120) as answer:
        assert answer.read() == b"ok"
    return time.monotonic() - began


def started_alone() -> float:
    """From the start of the program to its first answer, without anything in between."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    began, environment = time.monotonic(), {**os.environ, "HOST": "127.0.0.1", "PORT": str(port)}
    with subprocess.Popen([sys.executable, "-c", PROGRAM, "1", "0"], env=environment) as process:
        while True:
            with suppress(OSError):
                first_answer(f"http://127.0.0.1:{port}/")
                process.terminate()
                return time.monotonic() - began
            threading.Event().wait(0.01)


def draw(rows: list[tuple[float, float, int, int, int]], seconds: float, png: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with png.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("seconds", "requests_per_second", "replicas_wanted", "replicas_ready", "training_workers"))
        writer.writerows((f"{at:.1f}", f"{rate:.1f}", *rest) for at, rate, *rest in rows)
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(9, 5.5), layout="constrained")
    hours = [24 * row[0] / seconds for row in rows]
    above.plot(hours, [row[1] for row in rows], color="tab:gray")
    above.set_ylabel("requests/s")
    below.step(hours, [row[2] for row in rows], where="post", label="replicas wanted", color="tab:blue", alpha=0.5)
    below.step(hours, [row[3] for row in rows], where="post", label="replicas ready", color="tab:blue")
    below.step(hours, [row[4] for row in rows], where="post", label="workers of the training", color="tab:orange")
    below.set_xlabel("hour of the compressed day")
    below.set_ylabel("processes")
    below.legend()
    figure.savefig(png, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("load", "day", "wake", "send"))
    for name in ("--rate", "--swing", "--at-once"):
        parser.add_argument(name, type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--rollouts", type=int, default=10, help="each is rolled back, too")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the quiet run, or of the day")
    parser.add_argument("--png", type=Path, default=PROJECT / "docs" / "experiments" / "service-day.png")
    parser.add_argument("--times", type=int, default=5, help="how often it is woken")
    options = parser.parse_args()
    if options.what == "send":
        send(options)
        return
    with tempfile.TemporaryDirectory() as home, Client.embedded(home=Path(home)) as client:
        try:
            well = {"load": load, "day": day, "wake": wake}[options.what](client, options)
        finally:
            for service in client.services.list():
                client.services.delete(service.name, timeout=60)
            for job in client.unfinished():
                with suppress(NotFoundError):  # its service's plan was quicker
                    client.delete(job.name, timeout=60)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
