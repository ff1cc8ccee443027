"""What a pipeline's step costs beside kfp.local, how a long loop runs, and how lists of finished runs answer.

1. A chain of steps that do nothing, made with the kfp package and run twice in the same minutes: by ``kfp.local`` with
   its SubprocessRunner without an environment of its own, and by a local service. Overhead per step is the whole time
   divided by the number of steps; the interpreter that runs the step is the same.
2. A loop of many steps with parallelism 8 on the local service, and the memory of the service before and after.
3. Many finished runs in the store of a service; a page of 100 through the interface of kfp.Client, as it
   is, sorted and filtered, and through our own.

    python bench/pipelines.py [--steps 10] [--items 1000] [--runs 10000]
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gangline.cli.connection.kubeconfig import read_endpoint
from gangline.kinds.pipeline import PIPELINE
from gangline.model import Timestamp
from gangline.model.kinds.pipeline import PipelineSpec, PipelineState, PipelineStatus, StepStatus
from gangline.sdk import Client
from gangline.sdk.transports.background import address_of, running_process, start_service, stop_service
from gangline.settings import Settings
from gangline.storage.sql import open_sqlite
from gangline.testing.builders import make_run
from tests.environments import environment_with
from tests.pipelines.compiled import KFP

CHAIN = """
import sys, time, warnings
warnings.simplefilter("ignore")
from kfp import compiler, dsl, local

@dsl.component(base_image="python:3.11")
def step(n: int) -> int:
    return n + 1

@dsl.pipeline(name="chain")
def chain(n: int = 0) -> int:
    last = step(n=n)
    for _ in range({steps} - 1):
        last = step(n=last.output)
    return last.output

compiler.Compiler().compile(chain, sys.argv[1])
local.init(local.SubprocessRunner(use_venv=False), pipeline_root=sys.argv[2])
for _ in range({rounds}):
    began = time.perf_counter()
    assert chain().output == {steps}
    print("seconds", time.perf_counter() - began)
"""
ROUNDS = 3
LIST_MILLISECONDS = 100


def main() -> int:
    parser = argparse.ArgumentParser()
    for name, default in (("steps", 10), ("items", 1000), ("runs", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as place:
        settings = Settings.load({}, home=Path(place, "home"), runtime_directory=Path(place, "run"))
        settings.home.mkdir()
        if arguments.runs:
            asyncio.run(fill(settings, arguments.runs))
        start_service(settings)
        try:
            client = Client(address_of(settings), settings=settings)
            if arguments.runs:
                good &= lists(settings, client, arguments.runs)
            if arguments.steps:
                good &= chain(client, Path(place), arguments.steps)
            if arguments.items:
                loop(settings, client, arguments.items)
        finally:
            stop_service(settings)
    return 0 if good else 1


def chain(client: Client, place: Path, steps: int) -> bool:
    """Run the chain by kfp.local and by the service."""
    script, file = place / "chain.py", place / "chain.yaml"
    script.write_text(CHAIN.format(steps=steps, rounds=ROUNDS))
    python = environment_with(KFP, "pip")  # the compiled command asks for it
    path = {"PATH": f"{python.parent}:{os.environ['PATH']}"}  # it starts 'python', whichever that is
    done = subprocess.run(
        [python, script, file, place / "root"], stdout=subprocess.PIPE, text=True, check=True, env=os.environ | path
    )
    theirs = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("seconds")]
    import yaml

    documents = json.dumps(list(yaml.safe_load_all(file.read_text())))
    ours = []
    for number in range(ROUNDS + 1):  # the first makes the environment
        began = time.perf_counter()
        run(client, PipelineSpec(name=f"chain-{number}", documents_json=documents, cache=False))
        ours.append(time.perf_counter() - began)
    their_step, our_step = (1000 * statistics.median(each) / steps for each in (theirs, ours[1:]))
    ratio = our_step / their_step
    print(f"chain of {steps}: kfp.local {their_step:.0f} ms a step, gangline {our_step:.0f} ms, ratio {ratio:.2f}")
    return our_step <= their_step / 2


def run(client: Client, spec: PipelineSpec) -> None:
    runs = client.records(PIPELINE)
    runs.create(spec)
    done = runs.wait(spec.name, timeout=3600)
    assert done.status.state is PipelineState.SUCCEEDED, done.status.failure


def loop(settings: Settings, client: Client, items: int) -> None:
    """Run many steps, eight at a time; then again, for the memory."""
    for number in range(2):
        before = memory_mib(settings)
        began = time.perf_counter()
        run(client, PipelineSpec(name=f"loop-{number}", documents_json=json.dumps([loop_document(items)]), cache=False))
        took = time.perf_counter() - began
        after = memory_mib(settings)
        print(
            f"loop of {items}, 8 at a time: {took:.0f} s, {1000 * took / items:.0f} ms a step, "
            f"memory of the service {before} MiB before, {after} MiB after"
        )


def loop_document(items: int) -> dict[str, Any]:
    """Return a compiled loop whose steps are as small as a step can be."""
    integer = {"parameters": {"n": {"parameterType": "NUMBER_INTEGER"}}}
    step = {"componentRef": {"name": "comp-step"}, "inputs": {"parameters": {"n": {"componentInputParameter": "n"}}}}
    over = {"itemInput": "n", "items": {"raw": json.dumps(list(range(items)))}}
    many = {
        "componentRef": {"name": "comp-loop"},
        "parameterIterator": over,
        "iteratorPolicy": {"parallelismLimit": 8},
    }
    return {
        "pipelineInfo": {"name": "loop"},
        "schemaVersion": "2.1.0",
        "components": {
            "comp-step": {"inputDefinitions": integer, "executorLabel": "exec"},
            "comp-loop": {"inputDefinitions": integer, "dag": {"tasks": {"step": step}}},
        },
        "deploymentSpec": {"executors": {"exec": {"container": {"image": "alpine", "command": ["true"]}}}},
        "root": {"dag": {"tasks": {"loop": many}}},
    }


def memory_mib(settings: Settings) -> int:
    pid = running_process(settings)
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) // 1024


def cpu_seconds(settings: Settings) -> float:
    """What the service has used so far: on a busy machine this says more than the clock."""
    fields = Path(f"/proc/{running_process(settings)}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def fill(settings: Settings, runs: int) -> None:
    """Write finished runs, each with what ten steps leave."""
    store = await open_sqlite(settings.database_file)
    steps = tuple(
        StepStatus(path=f"step-{each}", number=each, state="succeeded", result='{"parameters": {"n": 1}}', key="k" * 65)
        for each in range(10)
    )
    records = store.records(PIPELINE)
    for number in range(runs):
        made = make_run(
            f"old-{number}",
            at=1e9 + number,
            experiment="even" if number % 2 else "odd",
            display_name=f"Old run {number}",
        )
        await records.create(replace(made, status=PipelineStatus(steps=steps, finished_at=Timestamp(2e9))))
    await store.close()


def lists(settings: Settings, client: Client, runs: int) -> bool:
    """Ask for pages of many runs."""
    endpoint = read_endpoint(settings.kubernetes_file)

    def ask(**query: str) -> Callable[[], int]:
        address = f"{endpoint['address']}/apis/v2beta1/runs?{urllib.parse.urlencode({'page_size': '100', **query})}"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {endpoint['token']}"})
        return lambda: json.loads(urllib.request.urlopen(request).read())["total_size"]

    named = json.dumps({"predicates": [{"operation": "IS_SUBSTRING", "key": "display_name", "stringValue": "99"}]})
    asked: dict[str, Callable[[], object]] = {
        "oldest page": ask(),
        "newest page": ask(sort_by="created_at desc"),
        "of one experiment, by name": ask(experiment_id="odd", sort_by="display_name"),
        "by part of the name": ask(filter=named),
        "newest page, our own interface": lambda: client.records(PIPELINE).list(limit=100),
    }
    slowest = 0.0
    for name, question in asked.items():
        question()
        times, cpu = [], cpu_seconds(settings)
        for _ in range(7):
            began = time.perf_counter()
            question()
            times.append(1000 * (time.perf_counter() - began))
        used = 1000 * (cpu_seconds(settings) - cpu) / 7
        print(f"list of 100 of {runs} finished runs, {name}: {statistics.median(times):.0f} ms, of CPU {used:.0f} ms")
        slowest = max(slowest, statistics.median(times))
    return slowest < LIST_MILLISECONDS


if __name__ == "__main__":
    sys.exit(main())
