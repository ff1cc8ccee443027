"""Pods per second from the first submission to the last pod bound, beside kube-scheduler and the server's own rate.

    python bench/kubernetes_rate.py [--pods 1000] [--gangs 1,20,500] [--nodes 100,1000] [--store memory|kubernetes]

Three ways to get the same pods onto the same pretended nodes of the same API server, one after another:

already bound   pods created with a node name by one client, nothing decided: the ceiling
gangline        jobs submitted to a controller with the real scheduler; whole gangs
kube-scheduler  pods created without a node name by the same client and bound by kube-scheduler, one by one

Needs what ``python -m gangline.testing.cluster`` needs. Figures are printed as a table and as one line of JSON.
"""

import argparse
import asyncio
import itertools
import json
import resource
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from gangline.controller import Controller
from gangline.engines.kubernetes import KubernetesEngine, install
from gangline.kube import NAMESPACES, NODES, PODS, Applied, KubeClient, load_access
from gangline.lifecycle import new_job
from gangline.model import Job, JobId, JobSpec, PlacementRule, Policy, Resources, RoleName, RoleSpec, Tenant, Timestamp
from gangline.storage.interface import Store
from gangline.storage.kubernetes import DEFINITIONS, JOBS, KubernetesStore
from gangline.storage.memory import MemoryStore
from gangline.testing.cluster import BUSYBOX, Cluster
from gangline.testing.cluster.kwok import LABEL

CLUSTER = "bench"
CPU_MILLIS = 100
MEMORY_MIB = 64
CONCURRENCY = 64
PATIENCE_SECONDS = 300


class SystemClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time())


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    nodes: int
    gang: int
    pods: int


def pod(name: str, node: str | None) -> dict[str, object]:
    requests = {"cpu": f"{CPU_MILLIS}m", "memory": f"{MEMORY_MIB}Mi"}
    spec: dict[str, object] = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {LABEL: "true"},
        "containers": [{"name": "main", "image": BUSYBOX, "resources": {"requests": requests}}],
    }
    return {
        "metadata": {"name": name, "labels": {"bench": "true"}},
        "spec": spec | ({"nodeName": node} if node else {}),
    }


async def create_all(client: KubeClient, namespace: str, bodies: list[dict[str, object]]) -> None:
    slots = asyncio.Semaphore(CONCURRENCY)

    async def create(body: dict[str, object]) -> None:
        async with slots:
            await client.create(PODS, body, namespace=namespace)

    await asyncio.gather(*(create(body) for body in bodies))


async def measured(client: KubeClient, namespace: str, count: int, act: Callable[[], Awaitable[object]]) -> float:
    """Act, and return pods per second until a watch has seen that many pods with a node."""
    bound: set[str] = set()
    watching = asyncio.Event()

    async def watch() -> None:
        async with aclosing(client.reflect(PODS, namespace=namespace)) as changes:
            async for change in changes:
                watching.set()
                if isinstance(change, Applied) and change.object.spec.node_name:
                    bound.add(change.object.metadata.name)
                    if len(bound) >= count:
                        return

    task = asyncio.create_task(watch())
    await watching.wait()
    began = time.monotonic()
    acting = asyncio.ensure_future(act())
    await asyncio.wait_for(task, PATIENCE_SECONDS)
    elapsed = time.monotonic() - began
    await acting
    return count / elapsed


async def already_bound(client: KubeClient, namespace: str, case: Case, names: list[str]) -> float:
    bodies = [pod(f"p-{number}", node) for number, node in zip(range(case.pods), itertools.cycle(names), strict=False)]
    return await measured(client, namespace, case.pods, lambda: create_all(client, namespace, bodies))


async def kube_scheduler(client: KubeClient, namespace: str, case: Case) -> float:
    bodies = [pod(f"p-{number}", None) for number in range(case.pods)]
    return await measured(client, namespace, case.pods, lambda: create_all(client, namespace, bodies))


def make_job(case: Case, namespace: str, number: int) -> Job:
    role = RoleSpec(
        name=RoleName("worker"),
        replicas=case.gang,
        command=("true",),
        image=BUSYBOX,
        resources=Resources(cpu_millis=CPU_MILLIS, memory_mib=MEMORY_MIB),
    )
    spec = JobSpec(
        name=f"job-{number}",
        roles=(role,),
        tenant=Tenant(namespace),
        policy=Policy(grace_seconds=1.0),
        placement=PlacementRule(node_selector={LABEL: "true"}),
    )
    return new_job(JobId(f"{namespace}-{number}"), spec, SystemClock().now())


async def gangline(client: KubeClient, namespace: str, case: Case, store: Store) -> float:
    engine = KubernetesEngine(
        client,
        clock=SystemClock(),
        controller=namespace,
        namespace=namespace,
        owners=store if isinstance(store, KubernetesStore) else None,
        keeps_logs=False,
    )
    controller = Controller(store=store, engine=engine, clock=SystemClock())
    await engine.nodes()
    running = [asyncio.create_task(controller.run())]
    if isinstance(store, KubernetesStore):
        running.append(asyncio.create_task(store.follow(controller, SystemClock())))
    jobs = [make_job(case, namespace, number) for number in range(case.pods // case.gang)]

    async def submit() -> None:
        slots = asyncio.Semaphore(CONCURRENCY)

        async def one(job: Job) -> None:
            async with slots:
                await store.create(job)
            controller.changed(job.id)

        await asyncio.gather(*(one(job) for job in jobs))

    try:
        return await measured(client, namespace, case.pods, submit)
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=10)
        await engine.close()
        await store.close()


async def with_namespace(client: KubeClient, act: Callable[[str], Awaitable[float]]) -> float:
    """Run something in a namespace of its own, and wait until its pods are gone before the next."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    try:
        return await act(name)
    finally:
        for item in (await client.list(JOBS, namespace=name)).items or ():
            await client.patch(JOBS, item.metadata.name, {"metadata": {"finalizers": None}}, namespace=name)
        await client.delete_all(PODS, labels=None, namespace=name, grace_seconds=0)
        await client.delete(NAMESPACES, name)
        while (await client.list(PODS, namespace=name)).items:  # noqa: ASYNC110  # the server sends no event
            await asyncio.sleep(0.2)


async def run_case(client: KubeClient, case: Case, store: str) -> dict[str, float]:
    names = [item.metadata.name for item in (await client.list(NODES)).items or () if LABEL in item.metadata.labels]

    def make_store(namespace: str) -> Store:
        return KubernetesStore(client, namespace=namespace) if store == "kubernetes" else MemoryStore()

    return {
        "already bound": await with_namespace(client, lambda name: already_bound(client, name, case, names)),
        "gangline": await with_namespace(client, lambda name: gangline(client, name, case, make_store(name))),
        "kube-scheduler": await with_namespace(client, lambda name: kube_scheduler(client, name, case)),
    }


async def main(arguments: argparse.Namespace) -> None:
    cluster = await asyncio.to_thread(Cluster.up, CLUSTER, lambda line: print(line, file=sys.stderr))
    results = []
    print(
        f"{'nodes':>6} {'gang':>5} {'already bound':>14} {'gangline':>9} {'kube-scheduler':>15}"
        "  of already bound  of kube-scheduler"
    )
    for nodes in arguments.nodes:
        await asyncio.to_thread(cluster.add_kwok_nodes, nodes)
        async with KubeClient(load_access(path=cluster.kubeconfig)) as client:
            await install(client, DEFINITIONS, lambda _: None)
            for gang in arguments.gangs:
                case = Case(nodes=nodes, gang=gang, pods=arguments.pods)
                rates = await run_case(client, case, arguments.store)
                bound, ours, theirs = rates["already bound"], rates["gangline"], rates["kube-scheduler"]
                print(
                    f"{nodes:>6} {gang:>5} {bound:>14.0f} {ours:>9.0f} {theirs:>15.0f}"
                    f"  {ours / bound:>16.2f}  {ours / theirs:>17.2f}"
                )
                results.append({"nodes": nodes, "gang": gang, "pods": arguments.pods, **rates})
        await asyncio.to_thread(cluster.remove_kwok_nodes)
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    print(json.dumps(results))
    if not arguments.keep:
        await asyncio.to_thread(cluster.down)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--gangs", type=numbers, default=[1, 20, 500])
    parser.add_argument("--nodes", type=numbers, default=[100, 1000])
    parser.add_argument("--store", choices=["memory", "kubernetes"], default="kubernetes")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running for the next run")
    asyncio.run(main(parser.parse_args()))
