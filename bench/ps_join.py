"""How soon a worker takes part: a newcomer in a running training, and all workers of a new job, one against five.

    python bench/ps_join.py [--rounds 5]

Newcomer: from the start of its process, and from `scale` of a running job, to its first confirmed push (target: one
second). Start-up: from submission to all replicas running, and to the first push of the last worker, for 5 workers and
for 1 (target: 1.3 x for the former). The median of several rounds; a start is measured when nothing of the job before
is left, as the end of that would be counted as part of it. Beside it, the same Python with the same imports that does
nothing else, and how much of the processor that takes in the best round: where workers outnumber processors it decides.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ps_throughput import replica, servers

import gangline
from gangline import Client, ps
from gangline.model import Framework, JobSpec, Phase, Resources, RoleName, RoleSpec

RESOURCES = Resources(cpu_millis=50, memory_mib=256)
DEADLINE_SECONDS = 60.0
# Pushes once, says when in a file that exists only whole, and stays until it is told to stop.
WORKER = """
import os, sys, time
from pathlib import Path
import numpy as np
from gangline import ps, runtime
here = runtime.current()
with ps.connect({"w": np.zeros(1024, np.float32)}) as session:
    session.push_pull({"w": np.ones(1024, np.float32)})
    draft = Path(sys.argv[1], f".{here.name}")
    draft.write_text(str(time.time()))
    draft.rename(Path(sys.argv[1], here.name))
    while not runtime.stopping():
        time.sleep(0.02)
"""
IMPORTS = "import numpy; from gangline import ps, runtime; ps.connect"


def pushed_at(folder, workers):
    """When each of so many workers had pushed; waits for them."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(names := [path for path in folder.iterdir() if not path.name.startswith(".")]) < workers:
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {len(names)} of {workers} workers have pushed")
        time.sleep(0.005)
    return sorted(float(path.read_text()) for path in names)


def newcomer_by_process(folder):
    """Seconds from the start of a second worker's process to its first push."""
    import numpy as np

    model = {"w": np.zeros(1024, np.float32)}
    with servers(1) as (addresses, _), ps.connect(model, replica=replica(addresses)):
        environment = os.environ | {
            "GANGLINE_ROLE": "worker", "GANGLINE_INDEX": "1", "GANGLINE_JOB_ID": "bench",
            "GANGLINE_CLUSTER": f'{{"ps": ["{addresses[0]}"]}}',
        }  # fmt: skip
        began = time.time()
        process = subprocess.Popen([sys.executable, "-c", WORKER, str(folder)], env=environment)
        found = pushed_at(folder, 1)[0] - began
        process.terminate()
        process.wait()
    return found


def bare(program):
    """Seconds, and seconds of the processor, that a Python needs for a program."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def job(name, workers, folder):
    def role(kind, count, command):
        return RoleSpec(
            name=RoleName(kind), replicas=count, maximum=8 if kind == "worker" else None,
            command=command, resources=RESOURCES,
        )  # fmt: skip

    return JobSpec(
        name=name,
        framework=Framework.PARAMETER_SERVER,
        env={"PYTHONPATH": str(Path(gangline.__file__).parents[1])},
        roles=(
            role("ps", 1, (sys.executable, "-m", "gangline.ps")),
            role("worker", workers, (sys.executable, "-c", WORKER, str(folder))),
        ),
    )


def start_of_job(client, folder, name, workers):
    """Seconds from submission to all replicas running, and to the last worker's first push."""
    began = time.time()
    client.submit(job(name, workers, folder))
    pushed = pushed_at(folder, workers)[-1] - began
    running = next(entry.at for entry in client.get(name).history if entry.phase is Phase.PROCESSING) - began
    return running, pushed


def newcomer_by_scale(client, folder, name, workers):
    """Seconds from `scale` of a running job to the newcomer's first push."""
    began = time.time()
    client.scale(name, {"worker": workers + 1})
    return pushed_at(folder, workers + 1)[-1] - began


def end(client, name):
    """Cancel a job, and wait until nothing of it runs."""
    client.cancel(name)
    client.wait(name)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while client.get(name).holding:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the machines of {name} are not free")
        time.sleep(0.005)


def median_ms(samples):
    return f"{statistics.median(samples) * 1e3:6.0f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, median of {options.rounds}")
    imports, numpy_alone, by_process, by_scale = [], [], [], []
    starts = {1: [], 5: []}
    with Client.embedded() as client:
        for number in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                by_process.append(newcomer_by_process(Path(folder)))
            imports.append(bare(IMPORTS))
            numpy_alone.append(bare("import numpy"))
            for workers, found in starts.items():
                name = f"join-{workers}-{number}"
                with tempfile.TemporaryDirectory() as folder:
                    found.append(start_of_job(client, Path(folder), name, workers))
                    if workers == 1:
                        by_scale.append(newcomer_by_scale(client, Path(folder), name, workers))
                    end(client, name)
    print(f"bare Python with the same imports                {median_ms([wall for wall, _ in imports])}")
    ours, theirs = (min(processor for _, processor in found) for found in (imports, numpy_alone))
    print(f"processor time of that, and with NumPy alone     {ours * 1e3:6.0f} ms, {ours / theirs:.2f} x")
    print(f"newcomer, process start to first push            {median_ms(by_process)}")
    print(f"newcomer, scale of a job to first push           {median_ms(by_scale)}")
    for part, what in enumerate(("all replicas running", "last worker's first push")):
        one, five = (statistics.median(sample[part] for sample in starts[workers]) for workers in (1, 5))
        times = f"{one * 1e3:6.0f} ms with 1 worker, {five * 1e3:6.0f} ms with 5"
        print(f"submission to {what:26} {times}: {five / one:.2f} x")


if __name__ == "__main__":
    main()
