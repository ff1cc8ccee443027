"""Fault drill: MNIST training undisturbed, and while workers and the parameter server are being killed.

    python chaos.py --data DIRECTORY [--workers 5] [--epochs 10] [--kill worker=5 --kill ps=8]

Runs job.yaml twice on a service inside this process, kills replicas of the second run as `gangline chaos` does, prints
what the faults cost in accuracy and time, and draws accuracy over time where matplotlib is.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import gangline
from gangline.sdk import Client, load
from gangline.sdk.chaos import disturb

HERE = Path(__file__).resolve().parent


def job_for(options, name):
    """The example's job: as many workers and epochs as wanted, and data that need not be copied."""
    spec = load(HERE / "job.yaml")
    roles = tuple(
        replace(
            role,
            replicas=options.workers if role.name == "worker" else 1,
            command=(sys.executable, *with_epochs(role.command[1:], options.epochs)),
            resources=replace(role.resources, cpu_millis=100),
        )
        for role in spec.roles
    )
    env = {"DATA_DIR": str(options.data.resolve()), "PYTHONPATH": str(Path(gangline.__file__).parents[1])}
    return replace(spec, name=name, roles=roles, inputs=(), env=env)


def with_epochs(command, epochs):
    """The command with another number of epochs; a role that is not told of epochs stays as it is."""
    words = list(command)
    if "--epochs" in words:
        words[words.index("--epochs") + 1] = str(epochs)
    return tuple(words)


def drill(client, options, name, periods):
    job = client.submit(job_for(options, name))
    killed = Counter()
    for strike in disturb(client, job.id, periods, seed=options.seed, for_seconds=options.limit):
        if strike.replica is not None:
            killed[strike.role] += 1
    done = client.wait(job.id, timeout=30 if periods else options.limit)
    points = client.metrics(job.id, name="accuracy")
    if done.phase != "COMPLETED" or not points:
        raise SystemExit(f"{name} is {done.phase}: {done.message}")
    seconds = done.finished_at - done.started_at
    print(f"{name:12} accuracy {points[-1].value:.4f}  {seconds:.1f} s  killed {dict(killed)}", flush=True)
    return seconds, [(point.at - done.started_at, point.value) for point in points]


def plot(curves, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture: matplotlib is not installed (pip install 'gangline[plot]')")
        return
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker=".", label=f"{name}: {points[-1][1]:.4f}")
    axes.set(xlabel="seconds", ylabel="test accuracy", title="MNIST with and without faults")
    axes.legend()
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DATA_DIR", "data/mnist")))
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--kill", action="append", metavar="ROLE=SECONDS", help="default: worker=5 and ps=8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--plot", type=Path, default=Path(tempfile.gettempdir()) / "mnist-chaos.png")
    options = parser.parse_args()
    pairs = (text.partition("=") for text in options.kill or ["worker=5", "ps=8"])
    periods = {role: float(seconds) for role, _, seconds in pairs}
    with Client.embedded() as client:
        calm, without = drill(client, options, "undisturbed", {})
        rough, curve = drill(client, options, "faults", periods)
    print(f"cost of the faults: {100 * (without[-1][1] - curve[-1][1]):.2f} points, {rough / calm:.1f} times as long")
    curves = {"undisturbed": without, "faults": curve}
    plot(curves, options.plot)


if __name__ == "__main__":
    main()
