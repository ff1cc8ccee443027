"""The founding experiment: a grid of MNIST trainings on 1, 2 and 3 logical nodes with 2 and 5 workers, and its times.

    python experiment.py --data DIRECTORY [--epochs 5] [--nodes 1 2 3] [--workers 2 5] [--output DIRECTORY]

A thin script over the sweep verbs of the SDK. Every number of nodes is a service of its own inside this process, whose
nodes have as many cores each as the largest number of nodes leaves them; with --server it runs on the nodes that the
service at that address has (data and results must then be on a disk that every node sees). Writes
mnist-grid-N-cores.json and .png, and mnist-grid.md over all such results that lie beside each other.
"""

import argparse
import contextlib
import json
import os
import platform
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from experiment_report import counted, machine_name, print_tables, write_pictures, write_report

import gangline
from gangline.model import DataMove, Resources
from gangline.model.sweep import Parameter
from gangline.sdk import Client, load_sweep
from gangline.sweeps import trial_to_job
from gangline.sweeps.samplers import GridSampler

HERE = Path(__file__).resolve().parent
MEMORY_MIB = 512


def main():
    options = read_options()
    results = {"machine": machine(options), "epochs": options.epochs, "grids": [], "singles": []}
    for nodes in [None] if options.server else options.nodes:
        with service(options, nodes) as (client, folder):
            for workers in options.workers:
                grid = run_grid(client, folder, options, workers)
                results["grids"].append({"nodes": nodes or len(client.nodes()), "workers": workers, **grid})
    with service(options, 1) as (client, folder):
        results["singles"] = [run_single(client, folder, options, workers) for workers in options.single_workers]
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
    parser.add_argument("--server", help="use the service at this address instead of one inside this process")
    parser.add_argument("--output", type=Path, default=HERE.parent.parent / "docs" / "experiments")
    return parser.parse_args()


def machine(options):
    cores = len(os.sched_getaffinity(0))
    per_node = cores // max(options.nodes)
    return {
        "cores": cores,
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "node_cores": per_node or None,
    }


@contextlib.contextmanager
def service(options, nodes):
    """A client, and a folder where results of its jobs arrive."""
    folder = tempfile.TemporaryDirectory(prefix="mnist-grid-", ignore_cleanup_errors=True)
    if options.server:
        client = Client(options.server)
    else:
        # Nodes of equal size whatever their number: the service and all it starts get no more cores than that.
        allowed, per_node = os.sched_getaffinity(0), machine(options)["node_cores"]
        os.sched_setaffinity(0, sorted(allowed)[: nodes * per_node] if per_node else allowed)
        client = Client.embedded(nodes=nodes)
        os.sched_setaffinity(0, allowed)
    with folder, client:
        yield client, Path(folder.name)


def sweep_for(client, folder, options, workers, name):
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
            command=role.command if options.server else (sys.executable, *role.command[1:]),
            resources=share,
        )
        for role in spec.template.roles
    )
    env = {"DATA_DIR": str(options.data.resolve())}
    if not options.server:
        env["PYTHONPATH"] = str(Path(gangline.__file__).parents[1])
    return replace(
        spec,
        name=name,
        parallelism=options.parallelism,
        parameters=tuple(Parameter(parameter, tuple(given)) for parameter, given in values.items()),
        template=replace(
            spec.template, name=name, roles=roles, env=env, outputs=(DataMove("$RESULT_DIR", f"{folder}/$JOB_NAME"),)
        ),
    )


def run_grid(client, folder, options, workers):
    name = f"grid-{workers}-workers"
    client.sweeps.submit(sweep_for(client, folder, options, workers, name))
    done = client.sweeps.wait(name)
    trials = [trial_figures(client, folder, trial) for trial in done.trials]
    seconds = done.finished_at - done.created_at
    print(f"{name} on {counted(len(client.nodes()), 'node')}: {done.state} after {seconds:.1f} s", flush=True)
    return {"seconds": seconds, "trials": trials}


def trial_figures(client, folder, trial):
    return {"layers": trial.values["hidden-layers"], "rate": trial.values["learning-rate"]} | job_figures(
        client, folder, client.get(trial.job_id)
    )


def run_single(client, folder, options, workers):
    """One job alone on one node: what more workers cost at the start and gain later."""
    sweep = sweep_for(client, folder, options, workers, f"single-{workers}")
    middle = {"hidden-layers": "2", "learning-rate": "0.01", "epochs": str(options.epochs)}
    assignment = replace(GridSampler().propose(sweep, [], {})[0], values=middle)
    job = client.submit(trial_to_job(sweep, assignment))
    return {"workers": workers} | job_figures(client, folder, client.wait(job.id))


def job_figures(client, folder, job):
    """Times, accuracy and the curve of a job that is over; a job that failed has no result."""
    file = folder / job.name / "result.json"
    result = json.loads(file.read_text()) if file.exists() else {"seconds": None, "accuracy": None}
    running = next((entry.at for entry in job.history if entry.phase == "PROCESSING"), job.created_at)
    points = client.metrics(job.id, name="accuracy")
    return {
        "phase": job.phase.value,
        "compute": result["seconds"],
        "submit_to_done": round(job.finished_at - job.created_at, 3),
        "waited": round((job.started_at or job.created_at) - job.created_at, 3),
        "start_up": round(running - (job.started_at or running), 3),
        "accuracy": result["accuracy"],
        "curve": [[round(point.at - running, 2), round(point.value, 4)] for point in points],
    }


if __name__ == "__main__":
    main()
