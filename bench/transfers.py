"""How fast data moves to and from an S3 server, beside rclone and the AWS command line, in the same run.

    python bench/transfers.py [--rounds N] [--scale PERCENT] [--aws PROGRAM]

1 GB in four files and 20,000 files of 4 kB, up and then down, against one versitygw on this machine, which is built
from its Go module as rclone is. Each tool runs as a program of its own, with the settings it has by itself, in an order
that changes with every round, and begins when the disk has all that was written before. The best of the rounds counts.
The ratio is the time of the faster of the other two over ours: more than 1 is faster. In brackets is the processor time
of each program itself, which says more on a busy machine. The client and the server share the machine's cores, so the
figures say more of work per byte than of networks.
"""

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.data.servers import Server, program, s3_server

MOVER = """
import json, sys
from gangline.data.credentials import StoreCredentials
from gangline.data.transfers import Transfer, transfer
source, target, credentials = json.loads(sys.argv[1])
transfer(Transfer(source=source, target=target, credentials=StoreCredentials(**credentials)))
"""
Tool = Callable[[str, str], None]


def make_files(folder: Path, count: int, size: int) -> Path:
    block = hashlib.shake_128(b"").digest(1 << 20)
    for number in range(count):
        path = folder / f"{number % 100:02}" / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            head = hashlib.shake_128(str(number).encode()).digest(min(size, 4096))
            file.write(head)
            for start in range(len(head), size, len(block)):
                file.write(block[: size - start])
    return folder


def tools(server: Server, aws: str | None) -> dict[str, Tool]:
    endpoint, key, secret = server.credentials.endpoint, server.credentials.key, server.credentials.secret
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "RCLONE_CONFIG": "/dev/null",
    }

    def run(*command: str) -> None:
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)

    def gangline(source: str, target: str) -> None:
        run(sys.executable, "-c", MOVER, json.dumps([source, target, server.credentials.as_plain()]))

    def rclone(source: str, target: str) -> None:
        remote = f":s3,provider=Other,env_auth=true,endpoint='{endpoint}':"
        places = [place.replace("s3://", remote) for place in (source, target)]
        run(str(program("rclone")), "copy", "--quiet", *places)

    def awscli(source: str, target: str) -> None:
        run(str(aws), "s3", "cp", "--recursive", "--only-show-errors", source, target)

    return {"gangline": gangline, "rclone": rclone, **({"aws": awscli} if aws else {})}


def measure(name: str, folder: Path, scratch: Path, chosen: dict[str, Tool], rounds: int) -> None:
    best: dict[tuple[str, str], float] = {}
    least: dict[tuple[str, str], float] = {}
    order = list(chosen)
    for turn in range(rounds):
        first = turn % len(order)
        for tool in order[first:] + order[:first]:
            label, back = f"{name.replace(' ', '')}-{tool}-{turn}", scratch / "back"
            remote = f"s3://bucket/{label}"
            for way, source, target in (("up", str(folder), remote), ("down", remote, str(back))):
                os.sync()
                used, begin = _processor_seconds(), time.perf_counter()
                chosen[tool](source, target)
                took, used = time.perf_counter() - begin, _processor_seconds() - used
                best[tool, way] = min(took, best.get((tool, way), took))
                least[tool, way] = min(used, least.get((tool, way), used))
            assert sum(path.is_file() for path in back.rglob("*")) == sum(path.is_file() for path in folder.rglob("*"))
            shutil.rmtree(back)
            shutil.rmtree(scratch / "s3" / "bucket" / label)
    for way in ("up", "down"):
        faster = min(best[tool, way] for tool in chosen if tool != "gangline")
        times = "  ".join(f"{tool} {best[tool, way]:6.2f} s ({least[tool, way]:.1f})" for tool in chosen)
        print(f"{name:12} {way:5} {times}  ratio {faster / best['gangline', way]:.2f}", flush=True)


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--scale", type=int, default=100, help="percent of the data")
    parser.add_argument("--aws", default=shutil.which("aws"), help="the AWS command line (pip install awscli)")
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, rounds {given.rounds}, scale {given.scale} %")
    with tempfile.TemporaryDirectory() as directory, s3_server(Path(directory) / "s3") as server:
        scratch, chosen = Path(directory), tools(server, given.aws)
        large = make_files(scratch / "large", 4, 250_000_000 * given.scale // 100)
        measure("4 x 250 MB", large, scratch, chosen, given.rounds)
        small = make_files(scratch / "small", 200 * given.scale, 4096)
        measure("20k x 4 kB", small, scratch, chosen, given.rounds)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
