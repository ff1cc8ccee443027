"""Services on one machine with the real router: no request is lost, bad revisions go by themselves, sleepers wake."""

import ast
import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import aiohttp
import pytest

from gangline.errors import ConflictError, GanglineError, NotFoundError
from gangline.model import JobSpec, Phase, Policy, Resources, RoleName
from gangline.model.jobs.spec import RoleSpec
from gangline.model.kinds.service import (
    SERVICE_LABEL,
    Access,
    Check,
    Checks,
    ReplicaRange,
    RolloutRules,
    ScaleMetric,
    Service,
    ServiceSpec,
)
from gangline.sdk import Client
from tests.environments import environment_with
from tests.serve.conftest import CLIENT

PROGRAM = """
import os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

how, number = sys.argv[1], sys.argv[2]

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        ready = self.path == "/ready"
        if how == "slow" and not ready:
            time.sleep(1.5)
        bad = (how == "errors" and not ready) or (how == "never-ready" and ready)
        body = f"{number} {os.getpid()}".encode()
        self.send_response(500 if bad else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

class Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True

if how == "crashes":
    sys.exit(3)
Server((os.environ["HOST"], int(os.environ["PORT"])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("services")


@pytest.fixture(scope="module")
def platform(home: Path) -> Iterator[Client]:
    with Client.embedded(home=home) as client:
        yield client


@pytest.fixture
def client(platform: Client) -> Iterator[Client]:
    try:
        yield platform
    finally:
        for service in platform.services.list():
            platform.services.delete(service.name, timeout=60)
        for job in platform.unfinished():
            with suppress(NotFoundError):  # its service's plan was quicker
                platform.delete(job.name, timeout=60)


def program(how: str, number: int) -> JobSpec:
    words = ("sh", "-c", 'exec "$GANGLINE_PYTHON" -c "$@"', "sh", PROGRAM, how, str(number))
    role = RoleSpec(name=RoleName("server"), command=words, resources=Resources(cpu_millis=50, memory_mib=64))
    return JobSpec(name="job", roles=(role,), policy=Policy(grace_seconds=5))


def make(name: str, **fields: object) -> ServiceSpec:
    given = {
        "job": program("good", 1),
        "replicas": ReplicaRange(min=3),
        "checks": Checks(ready=Check(http="/ready", every_seconds=0.3), within_seconds=120),
        "rollout": RolloutRules(steps=(20,), pause_seconds=0.5),
        "access": Access(drain_seconds=10),
        **fields,
    }
    return ServiceSpec(name=name, **given)  # type: ignore[arg-type]


def until(client: Client, name: str, what: object, seconds: float = 60) -> Service:
    for found in client.services.watch(name, timeout=seconds):
        if what(found):  # type: ignore[operator]
            return found
    raise AssertionError(f"{name} was deleted")


class Load:
    """Sends requests at a constant rate, whatever becomes of them, and keeps their answers."""

    def __init__(self, address: str, rate: float) -> None:
        self.address, self.rate = address, rate
        self.statuses: Counter[str] = Counter()
        self.bodies: Counter[str] = Counter()
        self._stop = False

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
            tasks = set()
            began, sent = time.monotonic(), 0
            while not self._stop:
                while sent < (time.monotonic() - began) * self.rate:
                    tasks.add(asyncio.create_task(self._one(session)))
                    sent += 1
                await asyncio.sleep(0.01)
            await asyncio.gather(*tasks)

    async def _one(self, session: aiohttp.ClientSession) -> None:
        try:
            async with session.get(f"{self.address}/answer") as answer:
                text = await answer.text()
                self.statuses[str(answer.status)] += 1
                self.bodies[text.partition(" ")[0]] += 1
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.statuses[type(error).__name__] += 1

    def stop(self) -> None:
        self._stop = True


async def under_load(load: Load, work: object) -> None:
    running = asyncio.create_task(load.run())
    try:
        await asyncio.to_thread(work)  # type: ignore[arg-type]
    finally:
        load.stop()
        await running


@pytest.mark.slow
def test_no_request_is_lost_through_twenty_rollouts_while_replicas_are_killed(client: Client) -> None:
    client.services.create(make("steady"))
    service = client.services.wait_ready("steady", timeout=60)
    load = Load(service.status.address, rate=40)
    killed = moved = 0

    def kill_one() -> None:
        nonlocal killed
        jobs = [job for job in client.list(labels={SERVICE_LABEL: "steady"}) if job.phase == "PROCESSING"]
        if jobs:
            job = jobs[killed % len(jobs)]
            with suppress(ConflictError):  # it has just died of the last one
                killed += client.kill(job.name, job.replicas[0].id)

    def go_on(number: int, before: int) -> None:
        nonlocal moved
        last_kill = time.monotonic()
        for found in client.services.watch("steady", timeout=60):
            if time.monotonic() - last_kill > 2:
                last_kill = time.monotonic()
                kill_one()
            if found.status.rollout is None and found.status.last_number == number and found.status.current != before:
                moved += 1
                return

    def roll() -> None:
        for number in range(2, 12):
            service = client.services.get("steady")
            client.services.edit(replace(service.spec, job=program("good", number)))
            go_on(number, service.status.current)
            client.services.rollback("steady")
            go_on(number, number)

    asyncio.run(under_load(load, roll))
    assert load.statuses.keys() == {"200"}, (load.statuses, client.services.get("steady").status.events)
    assert load.statuses["200"] > 500
    assert killed >= 5
    assert moved == 20
    client.services.delete("steady", timeout=60)


def test_calls_of_tritons_client_go_on_through_a_rollout_and_a_killed_replica(client: Client, tmp_path: Path) -> None:
    def register(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        predict = f"def predict(self, inputs): return {{'y': inputs['x'] * {number}}}"
        text = f"class Model:\n def load(self, folder): pass\n {predict}\n"
        (folder / "handler.py").write_text(text)
        client.models.register("times", folder)

    register(1)
    spec = ServiceSpec(
        name="rpc",
        model="model://times",
        resources=Resources(cpu_millis=50, memory_mib=128),
        replicas=ReplicaRange(min=2),
        rollout=RolloutRules(steps=(50,), pause_seconds=0.5),
        access=Access(drain_seconds=10),
    )
    client.services.create(spec)
    service = client.services.wait_ready("rpc", timeout=120)
    router = service.status.address.removeprefix("http://").partition("/")[0]
    script = Path(__file__).parent / "triton_load.py"
    words = [environment_with(*CLIENT), script, router, "rpc.localhost", "rpc"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        assert load.stdout.readline() == "answered\n"
        job = client.list(labels={SERVICE_LABEL: "rpc"})[0]
        assert client.kill(job.name, job.replicas[0].id)
        register(2)
        until(client, "rpc", lambda found: found.status.rollout is None and found.status.current == 2, seconds=120)
        said, _ = load.communicate(timeout=60)
    answers = ast.literal_eval(said)
    assert answers.keys() == {1, 2}, said


@pytest.mark.parametrize("how", ["errors", "slow", "crashes", "never-ready"])
def test_bad_revision_never_has_more_than_its_share_and_goes_by_itself(client: Client, how: str) -> None:
    name = f"bad-{how}"
    client.services.create(make(name, replicas=ReplicaRange(min=1), rollout=RolloutRules(steps=(20,), pause_seconds=5)))
    service = client.services.wait_ready(name, timeout=60)
    load = Load(service.status.address, rate=20)

    def roll() -> None:
        checks = replace(service.spec.health, within_seconds=6)
        client.services.edit(replace(service.spec, job=program(how, 2), checks=checks))
        until(client, name, lambda found: found.status.last_number == 2 and found.status.rollout is None)

    asyncio.run(under_load(load, roll))
    status = client.services.get(name).status
    assert status.current == 1
    failed = status.revision(2)
    assert failed is not None
    assert failed.failed
    assert load.bodies["2"] <= 0.25 * sum(load.bodies.values())
    client.services.delete(name, timeout=60)


def test_sleeper_answers_all_of_two_hundred_requests_at_once(client: Client) -> None:
    rules = ReplicaRange(min=0, max=2, idle_seconds=1, window_seconds=2, target=100)
    client.services.create(make("sleeper", replicas=rules))
    asleep = until(client, "sleeper", lambda found: found.state == "asleep" and not found.status.replicas)

    async def ask() -> list[int]:
        async def one(session: aiohttp.ClientSession) -> int:
            async with session.get(f"{asleep.status.address}/answer") as answer:
                await answer.read()
                return answer.status

        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            return await asyncio.gather(*(one(session) for _ in range(200)))

    assert asyncio.run(ask()) == [200] * 200
    client.services.delete("sleeper", timeout=60)


def test_router_that_is_killed_comes_back_with_the_same_configuration(client: Client, home: Path) -> None:
    client.services.create(make("lasting", replicas=ReplicaRange(min=1)))
    service = client.services.wait_ready("lasting", timeout=60)
    os.kill(int((home / "router" / "process").read_text().split()[0]), signal.SIGKILL)
    deadline = time.monotonic() + 30
    while True:
        try:
            answer = client.services.predict("lasting", b"", path="/answer", timeout=5)
            break
        except GanglineError:
            assert time.monotonic() < deadline
            threading.Event().wait(0.1)
    assert answer.startswith(b"1 ")
    assert client.services.get("lasting").status.address == service.status.address
    client.services.delete("lasting", timeout=60)


def test_liveness_check_starts_a_replica_again(client: Client, tmp_path: Path) -> None:
    flag = tmp_path / "well"
    flag.touch()
    live = Check(exec=("test", "-e", str(flag)), every_seconds=0.3, failures=2)
    client.services.create(make("living", replicas=ReplicaRange(min=1), checks=Checks(live=live)))
    client.services.wait_ready("living", timeout=60)
    first = client.services.predict("living", b"", path="/answer")
    flag.unlink()
    until(client, "living", lambda found: found.status.ready == 0)
    flag.touch()
    client.services.wait_ready("living", timeout=60)
    assert client.services.predict("living", b"", path="/answer") != first
    client.services.delete("living", timeout=60)


@pytest.mark.slow
def test_elastic_training_makes_room_for_a_service_and_grows_back(client: Client) -> None:
    quarter = Resources(cpu_millis=client.nodes()[0].capacity.cpu_millis // 4, memory_mib=32)
    worker = RoleSpec(
        name=RoleName("worker"), command=("sleep", "600"), resources=quarter, replicas=1, minimum=1, maximum=4
    )
    client.submit(JobSpec(name="training", roles=(worker,)))
    wait_for_workers(client, 4)
    job = program("good", 1)
    client.services.create(
        make(
            "hungry", replicas=ReplicaRange(min=1), job=replace(job, roles=(replace(job.roles[0], resources=quarter),))
        )
    )
    client.services.wait_ready("hungry", timeout=60)
    wait_for_workers(client, 3)
    assert any("hungry-1-1" in record.message for record in client.events("training")), client.events("training")
    client.services.delete("hungry", timeout=60)
    wait_for_workers(client, 4)
    client.delete("training", timeout=60)


def wait_for_workers(client: Client, count: int) -> None:
    for change in client.watch("training", timeout=90):
        replicas = change.job.replicas if change.job is not None else ()
        if sum(replica.state == "running" for replica in replicas) == count:
            return


def test_service_that_is_deleted_answers_what_it_has_first(client: Client, home: Path) -> None:
    client.services.create(make("leaving", replicas=ReplicaRange(min=1), job=program("slow", 1)))
    client.services.wait_ready("leaving", timeout=60)
    answers: list[bytes] = []

    def ask() -> None:
        answers.append(client.services.predict("leaving", b"", path="/answer"))

    asking = threading.Thread(target=ask)
    asking.start()
    words = Path("/proc", (home / "router" / "process").read_text().split()[0], "cmdline").read_text().split("\0")
    asyncio.run(until_under_way(words[words.index("--control") + 1]))
    client.services.delete("leaving", timeout=60)
    asking.join()
    assert [each[:2] for each in answers] == [b"1 "]


async def until_under_way(control: str) -> None:
    async with asyncio.timeout(30), aiohttp.ClientSession(connector=aiohttp.UnixConnector(control)) as session:
        while True:
            async with session.get("http://router/statistics") as answer:
                if any(each["under_way"] for each in (await answer.json())["revisions"]):
                    return


def test_port_in_use_is_told_until_it_is_free(client: Client) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        client.services.create(make("ported", replicas=ReplicaRange(min=1), access=Access(port=port)))
        client.services.wait_ready("ported", timeout=60)
        told = until(client, "ported", lambda found: found.status.notice)
        assert f"port {port}: Address already in use" in told.status.notice
    until(client, "ported", lambda found: not found.status.notice)
    with urlopen(f"http://127.0.0.1:{port}/answer", timeout=30) as answer:
        assert answer.read().startswith(b"1 ")
    client.services.delete("ported", timeout=60)


def test_start_check_holds_the_others_back(client: Client, tmp_path: Path) -> None:
    started, lived = tmp_path / "started", tmp_path / "lived"
    checks = Checks(
        start=Check(exec=("test", "-e", str(started))),
        live=Check(exec=("touch", str(lived)), every_seconds=0.1),
        ready=Check(http="/ready"),
    )
    client.services.create(make("starting", replicas=ReplicaRange(min=1), checks=checks))
    until(client, "starting", lambda found: found.status.address)
    for job in client.list(labels={SERVICE_LABEL: "starting"}):
        client.wait(job.name, phases=[Phase.PROCESSING], timeout=60)
    assert not lived.exists()
    assert client.services.get("starting").status.ready == 0
    started.touch()
    client.services.wait_ready("starting", timeout=60)
    client.services.delete("starting", timeout=60)


BUSY = """
import http.server, os, sys, threading, time
from gangline import runtime

def work():
    while True:
        busy = os.path.exists(sys.argv[1])
        if sys.argv[2] == "reported":
            runtime.report(backlog=20.0 if busy else 0.0)
        end = time.monotonic() + 0.1
        while busy and sys.argv[2] == "cpu" and time.monotonic() < end:
            pass
        time.sleep(0.1)

threading.Thread(target=work, daemon=True).start()
address = (os.environ["HOST"], int(os.environ["PORT"]))
http.server.HTTPServer(address, http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(ReplicaRange(metric=ScaleMetric.CPU, target=80), id="cpu"),
        pytest.param(ReplicaRange(metric=ScaleMetric.REPORTED, reported="backlog", target=10), id="reported"),
    ],
)
def test_number_of_replicas_follows_what_they_use_or_report(
    client: Client, tmp_path: Path, rules: ReplicaRange
) -> None:
    flag, name = tmp_path / "busy", f"by-{rules.metric}"
    job = program("good", 1)
    words = ("sh", "-c", 'exec "$GANGLINE_PYTHON" -c "$@"', "sh", BUSY, str(flag), str(rules.metric))
    job = replace(job, roles=(replace(job.roles[0], command=words),))
    rules = replace(rules, min=1, max=3, window_seconds=4)
    client.services.create(make(name, replicas=rules, job=job, checks=Checks()))
    assert client.services.wait_ready(name, timeout=60).status.scale == 1
    flag.touch()
    until(client, name, lambda found: found.status.ready == 3)
    flag.unlink()
    until(client, name, lambda found: (found.status.scale, len(found.status.replicas)) == (1, 1))


def test_number_of_replicas_follows_the_rate_of_requests(client: Client) -> None:
    rules = ReplicaRange(min=1, max=3, metric=ScaleMetric.RATE, target=10, window_seconds=4)
    client.services.create(make("by-rate", replicas=rules))
    service = client.services.wait_ready("by-rate", timeout=60)
    load = Load(service.status.address, rate=40)
    asyncio.run(under_load(load, lambda: until(client, "by-rate", lambda found: found.status.ready == 3)))
    until(client, "by-rate", lambda found: (found.status.scale, len(found.status.replicas)) == (1, 1))
    assert set(load.statuses) == {"200"}
