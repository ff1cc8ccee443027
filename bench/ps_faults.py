"""Fault drill of the parameter server: the MNIST example undisturbed, and with workers and the server being killed.

    python bench/ps_faults.py --data DIRECTORY [--workers 5] [--epochs 10]

Runs examples/mnist/train.py as processes under the environment contract, kills (-9) one worker every few seconds and
the server twice, brings each back at once, and prints both accuracies; draws accuracy over time where matplotlib is.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

TRAIN = Path(__file__).resolve().parent.parent / "examples" / "mnist" / "train.py"


@dataclass
class Gang:
    """A chief, one server and some workers on this machine. Restarts a replica in place when it was killed."""

    data: Path
    home: Path
    workers: int
    arguments: list[str]
    processes: dict[tuple[str, int], subprocess.Popen] = field(default_factory=dict)
    incarnations: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        hosts = (f"127.{200 + os.getpid() % 50}.0.{number}:{port}" for number in count(1))
        sizes = {"chief": 1, "worker": self.workers, "ps": 1}
        self.cluster = {role: [next(hosts) for _ in range(size)] for role, size in sizes.items()}
        for role, addresses in self.cluster.items():
            for index in range(len(addresses)):
                self.start(role, index)

    def start(self, role, index):
        key = (role, index)
        self.incarnations[key] = self.incarnations.get(key, -1) + 1
        environment = os.environ | {
            "JOB_NAME": "faults",
            "GANGLINE_JOB_ID": f"faults-{os.getpid()}",
            "GANGLINE_ROLE": role,
            "GANGLINE_INDEX": str(index),
            "GANGLINE_INCARNATION": str(self.incarnations[key]),
            "GANGLINE_CLUSTER": json.dumps(self.cluster),
            "GANGLINE_ADDRESS": self.cluster[role][index],
            "GANGLINE_METRICS": str(self.home / f"{role}-{index}.metrics"),
            "DATA_DIR": str(self.data),
            "RESULT_DIR": str(self.home / "results"),
            "CHECKPOINT_DIR": str(self.home / "checkpoints"),
        }
        with (self.home / f"{role}-{index}.log").open("ab") as log:
            command = [sys.executable, str(TRAIN), *self.arguments]
            self.processes[key] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill(self, role, index):
        process = self.processes[role, index]
        if process.poll() is None:
            process.kill()
            process.wait()
            self.start(role, index)
            return True
        return False

    def finished(self):
        for (role, index), process in self.processes.items():
            if process.poll() not in (None, 0):
                log = (self.home / f"{role}-{index}.log").read_text()
                raise RuntimeError(f"{role}-{index} ended with {process.returncode}:\n{log[-3000:]}")
        return self.processes["chief", 0].poll() == 0

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            process.wait(30)


def drill(options, *, faults):
    home = Path(tempfile.mkdtemp(prefix="ps-faults-"))
    gang = Gang(options.data, home, options.workers, ["--epochs", str(options.epochs)])
    began = time.monotonic()
    killed = {"worker": 0, "ps": 0}
    server_times = [began + at for at in options.kill_server_at] if faults else []
    worker_time = began + options.kill_worker_every if faults else float("inf")
    try:
        while not gang.finished():
            now = time.monotonic()
            if now - began > options.limit:
                raise RuntimeError(f"not finished after {options.limit} s; see {home}")
            if server_times and now >= server_times[0]:
                server_times.pop(0)
                killed["ps"] += gang.kill("ps", 0)
            if now >= worker_time:
                worker_time += options.kill_worker_every
                killed["worker"] += gang.kill("worker", killed["worker"] % options.workers)
            time.sleep(0.05)
    finally:
        gang.stop()
    result = json.loads((home / "results" / "result.json").read_text())
    result |= {"wall": time.monotonic() - began, "killed": killed, "curve": curve(home)}
    shutil.rmtree(home)  # kept only when something went wrong
    return result


def curve(home):
    records = [json.loads(line) for line in (home / "chief-0.metrics").read_text().splitlines()]
    points = [(record["at"], record["value"]) for record in records if record["name"] == "accuracy"]
    return [(at - points[0][0], value) for at, value in points]


def plot(outcomes, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no plot")
        return
    figure = Figure(figsize=(7, 4))
    axes = figure.subplots()
    for name, outcome in outcomes.items():
        axes.plot(*zip(*outcome["curve"], strict=True), marker=".", label=f"{name}: {outcome['accuracy']:.4f}")
    axes.set(xlabel="seconds", ylabel="test accuracy", ylim=(0.9, 1.0), title="MNIST with and without faults")
    axes.legend()
    figure.savefig(path, dpi=120)
    print(f"plot: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DATA_DIR"), required="DATA_DIR" not in os.environ)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--kill-worker-every", type=float, default=5.0)
    parser.add_argument("--kill-server-at", type=float, nargs="*", default=[7.0, 17.0])
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--plot", type=Path, default=Path(tempfile.gettempdir()) / "ps_faults.png")
    parser.add_argument("--only", choices=["undisturbed", "faults", "one-worker"], action="append")
    options = parser.parse_args()
    wanted = options.only or ["undisturbed", "faults"]
    outcomes = {}
    for name in wanted:
        if name == "one-worker":
            options.workers = 1
        outcomes[name] = outcome = drill(options, faults=name == "faults")
        print(
            f"{name:12} accuracy {outcome['accuracy']:.4f}  training {outcome['seconds']:.1f} s"
            f"  wall {outcome['wall']:.1f} s  killed {outcome['killed']}",
            flush=True,
        )
    if {"undisturbed", "faults"} <= set(outcomes):
        gap = 100 * (outcomes["undisturbed"]["accuracy"] - outcomes["faults"]["accuracy"])
        print(f"cost of the faults: {gap:.2f} points")
    plot(outcomes, options.plot)


if __name__ == "__main__":
    main()
