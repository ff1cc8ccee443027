"""The founding experiment: a grid of MNIST trainings on 1, 2 and 3 logical nodes with 2 and 5 workers, and its times.

    python experiment.py --data DIRECTORY [--epochs 5] [--nodes 1 2 3] [--workers 2 5] [--output DIRECTORY]
    python experiment.py --data DIRECTORY --context NAME --image IMAGE

A thin script over the sweep verbs of the SDK. Every number of nodes is a service of its own inside this process, whose
nodes have as many cores each as the largest number of nodes leaves them. With --context it runs on the nodes of that
Kubernetes cluster, in an image that has Gangline; the data travels with the code. Writes mnist-grid-N-cores.json (or
mnist-grid-kubernetes.json) and .png, and mnist-grid.md over all such results that lie beside each other.
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from experiment_report import counted, machine_name, print_tables, write_pictures, write_report

import gangline
from gangline.model import Resources
from gangline.model.kinds.sweep import Assignment, Parameter
from gangline.sdk import Client, load_sweep
from gangline.sweeps import trial_to_job

STAMP = time.strftime("-%H%M%S")
"""A cluster keeps the sweeps of earlier runs: each run has names of its own."""
HERE = Path(__file__).resolve().parent
MEMORY_MIB = 512
LATE_SECONDS = 10
"""On a cluster the last numbers of a job may arrive a moment after its end."""


def main():
    options = read_options()
    results = {"machine": machine(options), "epochs": options.epochs, "grids": [], "singles": []}
    with tempfile.TemporaryDirectory(prefix="mnist-grid-") as folder:
        options.code = Path(folder) / "code"
        pack(options)
        for nodes in [None] if options.context else options.nodes:
            with service(options, nodes) as client:
                for workers in options.workers:
                    grid = run_grid(client, options, workers)
                    results["grids"].append({"nodes": nodes or len(client.nodes()), "workers": workers, **grid})
        with service(options, 1) as client:
            results["singles"] = [run_single(client, options, workers) for workers in options.single_workers]
    print_tables(results)
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / f"{machine_name(results)}.json"
    file.write_text(json.dumps(results, indent=1))
    write_pictures(results, file.with_suffix(".png"))
    write_report(options.output)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DATA_DIR", "data/mnist")))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--single-workers", type=int, nargs="*", default=[1, 5])
    parser.add_argument("--layers", nargs="+", default=["1", "2", "3"])
    parser.add_argument("--rates", nargs="+", default=["0.1", "0.01", "0.001"])
    parser.add_argument("--parallelism", type=int, help="trials at once; by default as many as the nodes have room for")
    parser.add_argument("--context", help="use the Kubernetes cluster of this context instead of this machine")
    parser.add_argument("--image", help="the image of the replicas there: it has Python and Gangline")
    parser.add_argument("--output", type=Path, default=HERE.parent.parent / "docs" / "experiments")
    return parser.parse_args()


def pack(options):
    """What the replicas need: the program and, on a cluster that sees no disk of ours, the data beside it."""
    options.code.mkdir()
    shutil.copy(HERE / "train.py", options.code)
    if options.context:
        shutil.copytree(options.data, options.code / "data")


def machine(options):
    cores = len(os.sched_getaffinity(0))
    per_node = cores // max(options.nodes)
    return {
        "cores": cores,
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "node_cores": per_node or None,
        "kubernetes": bool(options.context),
    }


@contextlib.contextmanager
def service(options, nodes):
    """A client of the cluster, or of a service with so many nodes."""
    if options.context:
        client = Client(context=options.context)
    else:
        # Nodes of equal size whatever their number: the service and all it starts get no more cores than that.
        allowed, per_node = os.sched_getaffinity(0), machine(options)["node_cores"]
        os.sched_setaffinity(0, sorted(allowed)[: nodes * per_node] if per_node else allowed)
        client = Client.embedded(nodes=nodes)
        os.sched_setaffinity(0, allowed)
    with client:
        yield client


def sweep_for(client, options, workers, name):
    """The sweep file, cut to the nodes there are: the largest gang fills the smallest node."""
    spec = load_sweep(HERE / "sweep.yaml")
    values = {"hidden-layers": options.layers, "learning-rate": options.rates, "epochs": [str(options.epochs)]}
    smallest = min(node.capacity.cpu_millis for node in client.nodes())
    largest = max([*options.workers, *options.single_workers]) + 2
    share = Resources(cpu_millis=smallest // largest, memory_mib=MEMORY_MIB)
    roles = tuple(
        replace(
            role,
            replicas=workers if role.name == "worker" else 1,
            # On this machine, the very Python that runs this script; elsewhere, the one that is found there.
            command=role.command if options.context else (sys.executable, *role.command[1:]),
            image=options.image,
            resources=share,
        )
        for role in spec.template.roles
    )
    env = {"DATA_DIR": "data"}
    if not options.context:
        env = {"DATA_DIR": str(options.data.resolve()), "PYTHONPATH": str(Path(gangline.__file__).parents[1])}
    return replace(
        spec,
        name=name,
        parallelism=options.parallelism,
        parameters=tuple(Parameter(parameter, tuple(given)) for parameter, given in values.items()),
        template=replace(spec.template, name=name, roles=roles, env=env, inputs=(), code=str(options.code)),
    )


def run_grid(client, options, workers):
    name = f"grid-{workers}-workers{STAMP}"
    client.sweeps.submit(sweep_for(client, options, workers, name))
    done = client.sweeps.wait(name)
    trials = [trial_figures(client, trial) for trial in done.trials]
    seconds = done.finished_at - done.created_at
    print(f"{name} on {counted(len(client.nodes()), 'node')}: {done.state} after {seconds:.1f} s", flush=True)
    return {"seconds": seconds, "trials": trials}


def trial_figures(client, trial):
    return {"layers": trial.values["hidden-layers"], "rate": trial.values["learning-rate"]} | job_figures(
        client, client.get(trial.job_id)
    )


def run_single(client, options, workers):
    """One job alone on one node: what more workers cost at the start and gain later."""
    sweep = sweep_for(client, options, workers, f"single-{workers}{STAMP}")
    middle = {"hidden-layers": "2", "learning-rate": "0.01", "epochs": str(options.epochs)}
    assignment = Assignment(number=0, values=middle)
    # A job of its own, no trial: there is no sweep whose code it could use.
    job = client.submit(replace(trial_to_job(sweep, assignment), labels={}))
    return {"workers": workers} | job_figures(client, client.wait(job.id))


def job_figures(client, job):
    """Times, accuracy and the curve of a job that is over, from the numbers that its chief reported last."""
    deadline = time.monotonic() + LATE_SECONDS
    while True:
        result = {metric.name: metric.value for metric in client.latest_metrics(job.id)}
        if "seconds" in result or job.phase != "COMPLETED" or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    running = next((entry.at for entry in job.history if entry.phase == "PROCESSING"), job.created_at)
    points = client.metrics(job.id, name="accuracy")
    return {
        "phase": job.phase.value,
        "compute": result.get("seconds"),
        "submit_to_done": round(job.finished_at - job.created_at, 3),
        "waited": round((job.started_at or job.created_at) - job.created_at, 3),
        "start_up": round(running - (job.started_at or running), 3),
        "accuracy": result.get("accuracy"),
        "curve": [[round(point.at - running, 2), round(point.value, 4)] for point in points],
    }


if __name__ == "__main__":
    main()
