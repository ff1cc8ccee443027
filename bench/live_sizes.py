"""Real trainings on this machine whose sizes the scheduler chooses, beside the same with fixed sizes.

    python bench/live_sizes.py [--case three|two] [--seconds 1200] [--only auto|fixed]

Three: a long training is alone at first; a short one comes beside it, ends, and another one comes; fixed, each has half
of the machine. Two: both come at once, and fixed each asks for more than half (as two gangs of 13 on 24 processors), so
that the second waits for the first. They train through real parameter servers and report how far they are; computing is
a pause, as on an accelerator, so that processors do not decide. With `replicas: auto` a training has between one worker
and eight, and begins without any knowledge of its speed. Printed: seconds until all have ended, the sizes that were
seen, and that every example was counted exactly once.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import gangline
from gangline import Client
from gangline.model import Framework, JobSpec, Phase, Policy, Resources, RoleName, RoleSpec, Sizing

EXAMPLE_SECONDS = 0.5
SLOTS = 8
"""Workers that the machine has room for, beside the servers."""
TRAIN = f"""
import sys, time
import numpy as np
from gangline import ps, runtime
examples = int(sys.argv[1])
with ps.connect({{"w": np.zeros(8)}}, settings=ps.Settings(learning_rate=1.0)) as session:
    for shard in session.shards(examples=examples, size=1, epochs=1):
        for _ in shard.batches(1):
            time.sleep({EXAMPLE_SECONDS})
            session.push_pull({{"w": np.ones(8)}})
            runtime.report(step=session.progress().examples_done, total_steps=examples)
    if runtime.current().index == 0:
        while not session.progress().finished and not runtime.stopping():
            time.sleep(0.1)
        session.pull()
        print("counted", -round(float(session.parameters["w"][0])), flush=True)
"""


Arrivals = dict[str, tuple[float, int]]
"""When each training comes, and how many examples it has."""
FIXED = {"three": SLOTS // 2, "two": SLOTS // 2 + 1}


def arrivals_of(case: str, seconds: float) -> Arrivals:
    whole = round(seconds / EXAMPLE_SECONDS)
    if case == "two":
        return {"first": (0.0, whole // 2), "second": (0.0, whole // 2)}
    return {"long": (0.0, whole), "short": (seconds / 15, whole // 8), "next": (seconds / 7, whole // 8)}


def training(name: str, examples: int, fixed: int | None) -> JobSpec:
    """A training with so many workers, or as many as the scheduler gives it."""
    processors = 1000 * len(os.sched_getaffinity(0))

    def role(kind: str, command: tuple[str, ...], share: int, **facts: int) -> RoleSpec:
        resources = Resources(cpu_millis=processors // share)
        return RoleSpec(name=RoleName(kind), command=command, resources=resources, **facts)

    size = {"replicas": 1, "minimum": 1, "maximum": SLOTS} if fixed is None else {"replicas": fixed}
    return JobSpec(
        name=name,
        framework=Framework.PARAMETER_SERVER,
        env={"PYTHONPATH": str(Path(gangline.__file__).parents[1])},
        roles=(
            role("ps", (sys.executable, "-m", "gangline.ps"), 20 * SLOTS, replicas=1),
            role("worker", (sys.executable, "-c", TRAIN, str(examples)), SLOTS + 1, **size),
        ),
        policy=Policy(replicas=Sizing.AUTO if fixed is None else Sizing.ASKED),
    )


def watch(client: Client, arrivals: Arrivals, fixed: int | None) -> dict[str, list[int]]:
    """Submit each when its time comes, and wait for all of them; return the sizes that each was seen to have."""
    began, waiting = time.time(), dict(arrivals)
    sizes: dict[str, list[int]] = {name: [0] for name in arrivals}
    while waiting or any(not client.get(name).finished for name in arrivals):
        for name, (at, examples) in list(waiting.items()):
            if time.time() - began >= at:
                client.submit(training(name, examples, fixed))
                del waiting[name]
        for name in arrivals.keys() - waiting.keys():
            job = client.get(name)
            size = sum(each.id.role == "worker" for each in job.replicas)
            if job.phase is Phase.PROCESSING and sizes[name][-1] != size:
                sizes[name].append(size)
                print(f"{time.time() - began:6.0f} s  {name} has {size} workers", flush=True)
        time.sleep(0.5)
    return sizes


def run(arrivals: Arrivals, fixed: int | None) -> float:
    """Run all of them; return the seconds until the last has ended."""
    kind = "auto" if fixed is None else "fixed"
    with Client.embedded() as client:
        began, sizes = time.time(), watch(client, arrivals, fixed)
        jobs = [client.get(name) for name in arrivals]
        assert all(job.phase is Phase.COMPLETED for job in jobs), [(job.name, job.phase) for job in jobs]
        for name, (_, examples) in arrivals.items():
            told = [line.text for line in client.logs(name, role="worker") if line.text.startswith("counted")]
            assert told == [f"counted {examples}"], (name, examples, told)
            print(f"{kind:>6}  {name:>6}: sizes {sizes[name][1:]}, every one of {examples} examples counted once")
    took = max(entry.at for job in jobs for entry in job.history) - began
    print(f"{kind:>6}  all ended after {took:.0f} s", flush=True)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=FIXED, default="three")
    parser.add_argument("--seconds", type=float, default=1200.0, help="how long the work takes one worker, about")
    parser.add_argument("--only", choices=["auto", "fixed"])
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    arrivals = arrivals_of(options.case, options.seconds)
    sizes = {"auto": None, "fixed": FIXED[options.case]}
    took = {name: run(arrivals, fixed) for name, fixed in sizes.items() if options.only in (None, name)}
    if len(took) == 2:
        print(f"replicas: auto needs {took['auto'] / took['fixed']:.2f} of the time of fixed sizes")


if __name__ == "__main__":
    main()
