"""Pods of others per second: single pods that name our scheduler, beside the same pods left to kube-scheduler.

    python bench/foreign_rate.py [--pods 500] [--nodes 100] [--turns 2]

Both schedulers get the very same pods, created one by one on the same API server with the same pretended nodes, in
turns; the time runs from the first creation to the last pod bound. Gangline is a whole controller in a process of its
own, with the store and the engine that an installation has. Rates depend on who else uses the machine; compare those
of one line. Ends with one line of JSON.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from kubernetes_rate import (
    PATIENCE_SECONDS,
    SystemClock,
    controller_ready,
    create_all,
    measured,
    pod,
    process_cpu_seconds,
    with_namespace,
)

from gangline.compose.leader_store import LeaderStore
from gangline.controller import Controller
from gangline.engines.kubernetes import KubernetesEngine, install
from gangline.kube import KubeClient, load_access
from gangline.storage.kubernetes import DEFINITIONS
from tools.cluster import Cluster

CLUSTER = "bench-foreign"


async def only_control(kubeconfig: Path) -> None:
    """Be the controller of the whole cluster, for ever; says a line when it has seen everything."""
    async with KubeClient(load_access(path=kubeconfig)) as client:
        clock, store = SystemClock(), LeaderStore(client)
        engine = KubernetesEngine(client, clock=clock, owners=store)
        controller = Controller(store=store, engine=engine, clock=clock)
        working = asyncio.gather(
            controller.run(), store.follow(controller, clock), engine.place_foreign_pods(controller, store)
        )
        await engine.nodes()
        await controller_ready(store)
        print("ready", flush=True)
        await working


async def rate(client: KubeClient, count: int, scheduler: str) -> float:
    """Return the pods per second of one scheduler."""
    bodies = [pod(f"p-{number}", None) for number in range(count)]
    for body in bodies:
        body["spec"]["schedulerName"] = scheduler

    def act(namespace: str) -> "asyncio.Future[float]":
        return asyncio.ensure_future(measured(client, namespace, count, lambda: create_all(client, namespace, bodies)))

    return await with_namespace(client, act)


async def compare(client: KubeClient, kubeconfig: Path, arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Measure both in turns."""
    command = [sys.executable, __file__, "--controller", str(kubeconfig)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    results = []
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.stdout.readline()
        for _ in range(arguments.turns):
            before = process_cpu_seconds(process.pid)
            found = {"gangline": await rate(client, arguments.pods, "gangline")}
            found["controller CPU seconds"] = process_cpu_seconds(process.pid) - before
            found["kube-scheduler"] = await rate(client, arguments.pods, "default-scheduler")
            found["ratio"] = found["gangline"] / found["kube-scheduler"]
            print("".join(f"{found[name]:>24.2f}" for name in found), flush=True)
            results.append(found)
    finally:
        process.kill()
        await process.wait()
    return results


async def main(arguments: argparse.Namespace) -> None:
    cluster = await asyncio.to_thread(Cluster.up, arguments.cluster, lambda line: print(line, file=sys.stderr))
    await asyncio.to_thread(cluster.add_kwok_nodes, arguments.nodes)
    columns = ("gangline", "controller CPU seconds", "kube-scheduler", "ratio")
    print("".join(f"{name:>24}" for name in columns))
    async with KubeClient(load_access(path=cluster.kubeconfig)) as client:
        await install(client, DEFINITIONS, lambda _: None)
        results = await compare(client, cluster.kubeconfig, arguments)
    await asyncio.to_thread(cluster.remove_kwok_nodes)
    print(json.dumps(results))
    if not arguments.keep:
        await asyncio.to_thread(cluster.down)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--cluster", default=CLUSTER, help="the cluster of tests to use; made if it is not there")
    parser.add_argument("--controller", type=Path, metavar="KUBECONFIG", help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help="leave the cluster running for the next run")
    given = parser.parse_args()
    asyncio.run(only_control(given.controller) if given.controller else main(given))
