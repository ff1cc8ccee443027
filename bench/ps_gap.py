"""What asynchrony costs: MNIST accuracy with 5 workers against 1, over the same samples, for several seeds.

    python bench/ps_gap.py [--epochs 10] [--seeds 1 2] [--data data/mnist]

Runs examples/mnist/train.py (3 hidden layers, as the demo job does) as bare processes: a server, a chief and workers.
Target: 5 workers lose less than 0.5 points.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ps_throughput import free_address

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "examples" / "mnist" / "train.py"


def result_of(workers, epochs, seed, data):
    address = free_address()
    cluster = {"chief": [""], "ps": [address], "worker": [""] * workers}
    with tempfile.TemporaryDirectory() as folder:
        places = {name: f"{folder}/{name.lower()}" for name in ("RESULT_DIR", "CHECKPOINT_DIR")}

        def start(role, index=0):
            own = {
                "GANGLINE_JOB_ID": "gap", "GANGLINE_ROLE": role, "GANGLINE_INDEX": str(index),
                "GANGLINE_CLUSTER": json.dumps(cluster), "GANGLINE_ADDRESS": address if role == "ps" else "",
                "PYTHONPATH": str(ROOT / "src"), "DATA_DIR": str(data),
            }  # fmt: skip
            command = [sys.executable, PROGRAM, "--epochs", str(epochs), "--seed", str(seed)]
            return subprocess.Popen(command, env=os.environ | own | places, stdout=subprocess.DEVNULL)

        server = start("ps")
        training = [start("chief"), *(start("worker", index) for index in range(workers))]
        codes = [process.wait() for process in training]
        server.terminate()
        server.wait()
        if any(codes):
            raise RuntimeError(f"training failed: {codes}")
        return json.loads(Path(places["RESULT_DIR"], "result.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "mnist")
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {options.epochs} epochs")
    gaps = []
    for seed in options.seeds:
        one, five = (result_of(workers, options.epochs, seed, options.data.resolve()) for workers in (1, 5))
        gaps.append(100 * (one["accuracy"] - five["accuracy"]))
        print(
            f"seed {seed}: 1 worker {one['accuracy']:.4f} in {one['seconds']:.1f} s, "
            f"5 workers {five['accuracy']:.4f} in {five['seconds']:.1f} s: gap {gaps[-1]:+.2f} points",
            flush=True,
        )
    print(f"mean gap {sum(gaps) / len(gaps):+.2f} points")


if __name__ == "__main__":
    main()
