"""How much memory the mover of a cluster has at most, whatever it moves.

    python bench/mover_memory.py [--scale PERCENT]

The very program that runs in pods (``gangline.data.pod_mover``), as a process of its own against a versitygw on this
machine: outputs to the store, then the same as inputs. The largest resident size of each process is what the kernel
says of it at its end. It should stay below 150 MiB whatever the size.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.transfers import make_files
from tests.data.servers import Server, s3_server


def moved(kind: str, move: list[str], server: Server, scratch: Path) -> float:
    """Move data as a pod does; returns the largest resident size in MiB."""
    keys = scratch / "keys"
    keys.mkdir(exist_ok=True)
    (keys / "key").write_text(server.credentials.key)
    (keys / "secret").write_text(server.credentials.secret)
    store = {"endpoint": server.credentials.endpoint, "region": "", "keys": str(keys)}
    entry = {"job": "bench", "move": [*move, "lake"]}
    order = {"writer": "bench", "stores": {"lake": store}, "inputs": [entry], "outputs": [entry]}
    (scratch / "moves.json").write_text(json.dumps(order))
    command = [sys.executable, "-I", "-m", "gangline.data.pod_mover", kind, str(scratch / "moves.json")]
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, status
    return usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=int, default=100, help="percent of the data")
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, scale {given.scale} %")
    shapes = {
        "1 x 4 MB": (1, 4_000_000),
        "4 x 250 MB": (4, 250_000_000 * given.scale // 100),
        "1 x 2 GB": (1, 2_000_000_000 * given.scale // 100),
        "20k x 4 kB": (200 * given.scale, 4096),
    }
    for name, (count, size) in shapes.items():
        with tempfile.TemporaryDirectory() as directory, s3_server(Path(directory) / "s3") as server:
            scratch = Path(directory)
            files = make_files(scratch / "files", count, size)
            up = moved("store", [str(files), "s3://bucket/moved"], server, scratch)
            shutil.rmtree(files)
            down = moved("inputs", ["s3://bucket/moved", str(scratch / "back")], server, scratch)
        print(f"{name:12} up {up:6.1f} MiB   down {down:6.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
