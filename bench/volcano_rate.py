"""Pods per second of whole gangs under Gangline and under Volcano, on the same API server and pretended nodes.

    python bench/volcano_rate.py [--pods 1000] [--gangs 1,20,500] [--nodes 100,1000] [--turns 2]
                                 [--controller-qps 2000]

Four ways to get gangs of the same pods onto the nodes, one after another; the time runs from the first object that is
submitted to the last pod bound:

gangline jobs   jobs of Gangline's own, which creates the pods
volcano jobs    Jobs of batch.volcano.sh, whose controller manager creates the pods
gangline pods   PodGroups of scheduling.volcano.sh and their pods, which name Gangline as their scheduler
volcano pods    the very same objects, which name Volcano

Only the one that is measured runs, as a process of its own (two for Volcano), and has placed a gang before. Volcano's
scheduler has the settings of its chart. Its controller manager may write 50 objects per second by those, which would
be all that is measured; it gets --controller-qps instead. Volcano's webhooks are not asked, which saves it calls.
Rates depend on who else uses the machine: the best of the turns counts, and only those of one line compare. The
processor time of the scheduler's own processes per pod (ms) depends on it much less.

Volcano is built once from its Go module (deploy/upstream/volcano, about five minutes on two idle cores) and its custom
resources are read from there. Needs what ``python -m tools.cluster`` needs; ends with one line of JSON.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import foreign_rate
import yaml
from kubernetes_rate import (
    CONCURRENCY,
    PATIENCE_SECONDS,
    Case,
    create_all,
    make_job,
    measured,
    numbers,
    pod,
    process_cpu_seconds,
    with_namespace,
)

from gangline.engines.kubernetes import install
from gangline.engines.kubernetes.foreign.groups import GROUP_RESOURCES, VOLCANO_GROUP, GroupKind
from gangline.kube import NAMESPACES, GenericObject, KubeClient, Resource, load_access
from gangline.storage.kubernetes import DEFINITIONS, KubernetesStore
from tools.cluster import Cluster
from tools.cluster.upstream import VOLCANO, ensure_upstream, upstream_files

CLUSTER = "bench-volcano"
GROUPS = GROUP_RESOURCES[GroupKind.VOLCANO]
VOLCANO_JOBS = Resource(group="batch.volcano.sh", version="v1alpha1", plural="jobs", kind="Job", type=GenericObject)
SCHEDULER_SETTINGS = "installer/helm/chart/volcano/config/volcano-scheduler.conf"
RETRIES = 3

Submit = Callable[[KubeClient, str, Case], Awaitable[None]]
"""Puts all gangs of a case into a namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured of one way."""

    rate: float
    cpu_millis: float


def report(line: str) -> None:
    print(line, file=sys.stderr)


# What is submitted ---------------------------------------------------------------------------------------------


async def each_gang(case: Case, submit: Callable[[int], Awaitable[object]]) -> None:
    """Submit gang after gang, as many at a time as keep the client busy."""
    slots = asyncio.Semaphore(max(1, CONCURRENCY // case.gang))

    async def one(number: int) -> None:
        async with slots:
            await submit(number)

    await asyncio.gather(*(one(number) for number in range(case.pods // case.gang)))


async def grouped_pods(client: KubeClient, namespace: str, case: Case, *, scheduler: str) -> None:
    """Submit PodGroups, each followed by its pods."""

    async def gang(number: int) -> None:
        body = {"metadata": {"name": f"g-{number}"}, "spec": {"minMember": case.gang, "queue": "default"}}
        await client.create(GROUPS, body, namespace=namespace)
        pods: list[dict[str, Any]] = [pod(f"g-{number}-{index}", None) for index in range(case.gang)]
        for item in pods:
            item["metadata"]["annotations"] = {VOLCANO_GROUP: f"g-{number}"}
            item["spec"]["schedulerName"] = scheduler
        await create_all(client, namespace, pods)

    await each_gang(case, gang)


async def volcano_jobs(client: KubeClient, namespace: str, case: Case) -> None:
    """Submit Jobs of Volcano, complete with what its webhook would add."""

    async def gang(number: int) -> None:
        template: dict[str, Any] = pod("any", None)
        task = {
            "name": "worker",
            "replicas": case.gang,
            "minAvailable": case.gang,
            "maxRetry": RETRIES,
            "template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]},
        }
        spec = {"schedulerName": "volcano", "queue": "default", "maxRetry": RETRIES, "minAvailable": case.gang}
        body = {"metadata": {"name": f"g-{number}"}, "spec": {**spec, "tasks": [task]}}
        await client.create(VOLCANO_JOBS, body, namespace=namespace)

    await each_gang(case, gang)


async def gangline_jobs(client: KubeClient, namespace: str, case: Case) -> None:
    """Submit jobs of Gangline as its command line does."""
    store = KubernetesStore(client, namespace=namespace)
    await each_gang(case, lambda number: store.create(make_job(case, namespace, number)))
    await store.close()


# Who places it -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def gangline(kubeconfig: Path) -> AsyncIterator[list[int]]:
    """Run Gangline's controller, with all that an installed one does; it writes beside the cluster's kubeconfig."""
    command = [sys.executable, foreign_rate.__file__, "--controller", str(kubeconfig)]
    with kubeconfig.with_name("gangline-controller.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            async with asyncio.timeout(PATIENCE_SECONDS):
                await process.stdout.readline()
            yield [process.pid]
        finally:
            process.kill()
            await process.wait()


@contextmanager
def volcano_commands(kubeconfig: Path, qps: int) -> Iterator[list[tuple[list[str], IO[bytes]]]]:
    """Spell the command lines of Volcano's two programs, each with the file that it writes to."""
    programs = ensure_upstream(VOLCANO, report)
    settings = upstream_files(VOLCANO, "volcano.sh/volcano", report) / SCHEDULER_SETTINGS
    shared = [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--logtostderr"]
    limits = [f"--kube-api-qps={qps}", f"--kube-api-burst={qps}"]
    commands = {"scheduler": [f"--scheduler-conf={settings}"], "controller-manager": limits}
    logs = {name: kubeconfig.with_name(f"volcano-{name}.log").open("ab") for name in commands}
    try:
        yield [([str(programs / name), *shared, *more], logs[name]) for name, more in commands.items()]
    finally:
        for log in logs.values():
            log.close()


@asynccontextmanager
async def volcano(kubeconfig: Path, qps: int) -> AsyncIterator[list[int]]:
    """Run Volcano's scheduler and controller manager; what they say is beside the cluster's kubeconfig."""
    processes = []
    # As the cluster's own components: see tools.cluster.processes.
    environment = {"GOGC": "200", **os.environ}
    with volcano_commands(kubeconfig, qps) as commands:
        try:
            for command, log in commands:
                processes.append(
                    await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, env=environment)
                )
            yield [process.pid for process in processes]
        finally:
            for process in processes:
                if process.returncode is not None:
                    report(f"a program of Volcano ended by itself; see {kubeconfig.parent}/volcano-*.log")
                else:
                    process.kill()
                await process.wait()


async def define_volcano(client: KubeClient) -> None:
    """Give the cluster Volcano's custom resources, from the files of its module."""
    files = upstream_files(VOLCANO, "volcano.sh/volcano", report)
    paths = sorted(files.glob("config/crd/*/bases/*.yaml"))
    await install(client, [yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths], lambda _: None)


# Measuring -----------------------------------------------------------------------------------------------------


async def figure(
    client: KubeClient, case: Case, scheduler: AbstractAsyncContextManager[list[int]], submit: Submit
) -> Figure:
    """Measure one way, with nothing else running but the cluster."""
    spent = 0.0

    async def place(many: Case, namespace: str) -> float:
        return await measured(client, namespace, many.pods, lambda: submit(client, namespace, many))

    async def act(warm: str, namespace: str) -> float:
        nonlocal spent
        async with scheduler as pids:
            await place(Case(nodes=case.nodes, gang=1, pods=1), warm)
            before = sum(map(process_cpu_seconds, pids))
            rate = await place(case, namespace)
            spent = sum(map(process_cpu_seconds, pids)) - before
        return rate

    # Both namespaces are cleared when the scheduler is gone: it would go on working for the pods that vanish.
    rate = await in_namespace(client, lambda warm: with_namespace(client, partial(act, warm)))
    return Figure(rate=rate, cpu_millis=1000 * spent / case.pods)


async def in_namespace(client: KubeClient, act: Callable[[str], Awaitable[float]]) -> float:
    """Run something in a namespace of its own, and wait until all of it is gone: thousands of objects take a while."""
    rate = await with_namespace(client, act)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await leaving(client):  # noqa: ASYNC110  # the server sends no event
            await asyncio.sleep(0.5)
    return rate


async def leaving(client: KubeClient) -> bool:
    return any(item.metadata.deletion_timestamp for item in (await client.list(NAMESPACES)).items or ())


WAYS = ("gangline jobs", "volcano jobs", "gangline pods", "volcano pods")


async def run_case(
    client: KubeClient, kubeconfig: Path, case: Case, arguments: argparse.Namespace
) -> dict[str, Figure]:
    """Measure every way in turns, and return the best turn of each."""
    submissions: dict[str, Submit] = {
        "gangline jobs": gangline_jobs,
        "volcano jobs": volcano_jobs,
        "gangline pods": partial(grouped_pods, scheduler="gangline"),
        "volcano pods": partial(grouped_pods, scheduler="volcano"),
    }
    best: dict[str, Figure] = {}
    for way in WAYS * arguments.turns:
        ours = way.startswith("gangline")
        scheduler = gangline(kubeconfig) if ours else volcano(kubeconfig, arguments.controller_qps)
        found = await figure(client, case, scheduler, submissions[way])
        best[way] = max(found, best.get(way, found), key=lambda one: one.rate)
    return best


def print_header() -> None:
    columns = "".join(f"{way:>16}{'ms':>6}" for way in WAYS)
    print(f"{'nodes':>6} {'gang':>5}{columns}{'jobs':>8}{'pods':>7} times as fast", flush=True)


def print_case(case: Case, found: dict[str, Figure]) -> None:
    columns = "".join(f"{found[way].rate:>16.0f}{found[way].cpu_millis:>6.1f}" for way in WAYS)
    ratios = [found[f"gangline {what}"].rate / found[f"volcano {what}"].rate for what in ("jobs", "pods")]
    print(f"{case.nodes:>6} {case.gang:>5}{columns}{ratios[0]:>8.2f}{ratios[1]:>7.2f}", flush=True)


async def main(arguments: argparse.Namespace) -> None:
    await asyncio.to_thread(ensure_upstream, VOLCANO, report)
    cluster = await asyncio.to_thread(Cluster.up, arguments.cluster, report, nodes=arguments.real_nodes)
    results: list[dict[str, object]] = []
    print_header()
    for nodes in arguments.nodes:
        await asyncio.to_thread(cluster.add_kwok_nodes, nodes)
        async with KubeClient(load_access(path=cluster.kubeconfig)) as client:
            await install(client, DEFINITIONS, lambda _: None)
            await define_volcano(client)
            for gang in arguments.gangs:
                case = Case(nodes=nodes, gang=gang, pods=arguments.pods)
                found = await run_case(client, cluster.kubeconfig, case, arguments)
                print_case(case, found)
                figures = {way: {"rate": one.rate, "cpu_millis": one.cpu_millis} for way, one in found.items()}
                results.append({"nodes": nodes, "gang": gang, "pods": arguments.pods, **figures})
        await asyncio.to_thread(cluster.remove_kwok_nodes)
    print(json.dumps(results))
    if not arguments.keep:
        await asyncio.to_thread(cluster.down)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--gangs", type=numbers, default=[1, 20, 500])
    parser.add_argument("--nodes", type=numbers, default=[100, 1000])
    parser.add_argument("--turns", type=int, default=2, help="how often each way is measured; the best counts")
    parser.add_argument("--controller-qps", type=int, default=2000, help="writes per second of Volcano's controllers")
    parser.add_argument("--real-nodes", type=int, default=3, help="nodes with kubelets, besides the pretended ones")
    parser.add_argument("--cluster", default=CLUSTER, help="the cluster of tests to use; made if it is not there")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running for the next run")
    asyncio.run(main(parser.parse_args()))
