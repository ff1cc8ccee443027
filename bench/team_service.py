"""What a team's service costs over a bare handler of the same HTTP library, and many watchers at once.

    python bench/team_service.py [--seconds N] [--rounds N] [--connections N] [--watchers N] [--jobs N]

``get``, ``list`` (a page of 100 jobs) and ``submit`` (of jobs that then wait) are asked of a whole service: tokens,
rights, limits, audit, SQLite, plain HTTP. In turns with it they are asked of an aiohttp application that does nothing
but read the same body and answer with the same bytes. Both are processes of their own; the client is a third, on raw
connections that are kept alive, so that it is cheaper than either. The ratio is requests per second of the service over
those of the bare handler; the processor time that each server used per request stands beside it, for it depends less
on what else the machine does.

Before that, so many watchers follow the list of jobs as server-sent events: memory of the service per watcher, and the
time from the moment when a job is submitted until the first and the last of them have been told.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

JOBS = "/api/v1/tenants/default/jobs"
BARE = """
import sys
from aiohttp import web

answers = {name: open(f"{sys.argv[1]}/{name}", "rb").read() for name in ("get", "list", "submit")}

async def answer(request):
    await request.read()
    return web.Response(body=answers[request.match_info["name"]], content_type="application/json")

async def main():
    app = web.Application()
    app.router.add_route("*", "/{name}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

import asyncio
asyncio.run(main())
"""


@dataclass
class Server:
    """A process that answers on a loopback port."""

    process: "subprocess.Popen[str]"
    port: int
    token: str = ""

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_bytes(self) -> int:
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
        return int(found[1]) << 10 if found else 0

    def head(self, method: str, path: str, body: bytes = b"", *more: str) -> bytes:
        lines = (
            f"{method} {path} HTTP/1.1",
            "Host: team",
            f"Authorization: Bearer {self.token}",
            f"Content-Length: {len(body)}",
            *more,
        )
        return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def start_service(folder: Path) -> Server:
    """Start a service whose limits are out of the way, and make a token."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GANGLINE_", "XDG_"))}
    settings = {
        "HOME": str(folder),
        "GANGLINE_HOME": str(folder / "data"),
        "GANGLINE_RUNTIME_DIRECTORY": str(folder / "run"),
        "GANGLINE_SYSTEM_USERS": "none",
        "GANGLINE_REQUESTS_PER_SECOND": "1000000",
        "GANGLINE_REQUESTS_AT_ONCE": "1000000",
    }
    log = folder / "log"
    command = [sys.executable, "-m", "gangline", "server", "run", "--listen", "127.0.0.1:0", "--plain-http"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=kept | settings, stderr=file, text=True)
    deadline = time.monotonic() + 60
    while not (found := re.search(r"serving a team on http://[^:]+:(\d+)", log.read_text())):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(log.read_text())
        time.sleep(0.1)
    making = [sys.executable, "-m", "gangline", "token", "create", "bench", "--tenant", "default", "--role", "member"]
    token = subprocess.run(making, env=kept | settings, check=True, capture_output=True, text=True).stdout.strip()
    return Server(process, int(found[1]), token)


def start_bare(folder: Path) -> Server:
    """Start the bare handler, with the answers that are in the folder."""
    command = [sys.executable, "-c", BARE, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return Server(process, int(process.stdout.readline()))


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    """Ask once on a connection that is kept; return the body."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    length = re.search(rb"(?i)content-length: (\d+)", head)
    body = await reader.readexactly(int(length[1]) if length else 0)
    if status >= 300:
        raise SystemExit(f"{status}: {body[:500]!r}")
    return body


async def once(server: Server, request: bytes) -> bytes:
    """Ask once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    body = await ask(reader, writer, request)
    writer.close()
    return body


class Numbers:
    """Names that are never given twice."""

    def __init__(self) -> None:
        self._last = 0

    def job(self) -> tuple[str, bytes]:
        """Return the id and the file of a job that waits: more CPUs than any machine has."""
        self._last += 1
        name = f"bench-{self._last}"
        spec = {"command": ["python", "train.py"], "resources": {"cpu": "4096", "memory": "1Gi"}}
        return name, json.dumps({"metadata": {"name": name}, "spec": spec}).encode()


async def rate(server: Server, verb: str, numbers: Numbers, *, connections: int, seconds: float) -> tuple[float, float]:
    """Return requests per second and milliseconds of the server's processor time per request."""
    bare = not server.token
    fixed = server.head("GET", {"get": f"{JOBS}/first", "list": f"{JOBS}?limit=100"}.get(verb, ""))
    end, done, used = time.monotonic() + seconds, 0, server.cpu_seconds

    def request() -> bytes:
        if verb != "submit":
            return server.head("GET", f"/{verb}") if bare else fixed
        name, body = numbers.job()
        return server.head("POST", "/submit" if bare else f"{JOBS}?id={name}", body, "Content-Type: application/json")

    async def client() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        while time.monotonic() < end:
            await ask(reader, writer, request())
            done += 1
        writer.close()

    began = time.monotonic()
    await asyncio.gather(*(client() for _ in range(connections)))
    return done / (time.monotonic() - began), (server.cpu_seconds - used) / max(done, 1) * 1000


async def compare(service: Server, bare: Server, numbers: Numbers, options: argparse.Namespace) -> None:
    """Ask both in turns."""
    print(f"{'':8}{'service/s':>11}{'bare/s':>10}{'ratio':>8}{'service ms':>12}{'bare ms':>9} of processor time each")
    for verb in ("get", "list", "submit"):
        found: dict[str, list[tuple[float, float]]] = {"service": [], "bare": []}
        for _ in range(options.rounds):
            for name, server in (("service", service), ("bare", bare)):
                how = {"connections": options.connections, "seconds": options.seconds}
                found[name].append(await rate(server, verb, numbers, **how))
        ours, theirs = (
            [statistics.median(each[place] for each in found[name]) for place in (0, 1)] for name in ("service", "bare")
        )
        ratio = ours[0] / theirs[0]
        print(f"{verb:8}{ours[0]:11.0f}{theirs[0]:10.0f}{ratio:8.2f}{ours[1]:12.2f}{theirs[1]:9.2f}", flush=True)


async def watch(service: Server, numbers: Numbers, count: int) -> None:
    """Let many follow the list of jobs, and see how long a change takes to reach all."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    before, began = service.memory_bytes, time.monotonic()
    request = service.head("GET", f"{JOBS}?watch=true&limit=1", b"", "Accept: text/event-stream")
    streams = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port, limit=1 << 24)
        writer.write(request)
        streams.append((reader, writer))
    await asyncio.gather(*(reader.readuntil(b"event: bookmark") for reader, _ in streams))
    opened = time.monotonic() - began
    each = (service.memory_bytes - before) / count / 1024
    print(f"{count} watchers: opened in {opened:.1f} s, {each:.1f} KiB of memory each")
    for _ in range(3):
        name, body = numbers.job()
        arrivals: list[float] = []

        async def told(reader: asyncio.StreamReader, name: str = name, arrivals: list[float] = arrivals) -> None:
            await reader.readuntil(name.encode())
            arrivals.append(time.monotonic())

        waiting = [asyncio.create_task(told(reader)) for reader, _ in streams]
        sent = time.monotonic()
        await once(service, service.head("POST", f"{JOBS}?id={name}", body, "Content-Type: application/json"))
        async with asyncio.timeout(120):
            await asyncio.gather(*waiting)
        print(
            f"  from a submission to the first {min(arrivals) - sent:.3f} s, to the last {max(arrivals) - sent:.3f} s"
        )
    for _, writer in streams:
        writer.close()


async def measure(folder: Path, options: argparse.Namespace) -> None:
    """Start everything, measure, and end it."""
    numbers = Numbers()
    servers = [service := await asyncio.to_thread(start_service, folder)]
    try:
        submitted = b""
        for number in range(options.jobs):
            name, body = numbers.job()
            path = f"{JOBS}?id={'first' if number == 0 else name}"
            if number == 0:
                body = body.replace(name.encode(), b"first")
            submitted = await once(service, service.head("POST", path, body, "Content-Type: application/json"))
        (folder / "submit").write_bytes(submitted)
        (folder / "get").write_bytes(await once(service, service.head("GET", f"{JOBS}/first")))
        (folder / "list").write_bytes(await once(service, service.head("GET", f"{JOBS}?limit=100")))
        servers.append(bare := await asyncio.to_thread(start_bare, folder))
        await watch(service, numbers, options.watchers)
        await compare(service, bare, numbers, options)
    finally:
        for each in servers:
            each.process.terminate()
            each.process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--watchers", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=100, help="that are there from the beginning")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory(prefix="gb") as folder:  # paths of sockets are short
        asyncio.run(measure(Path(folder), options))
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
