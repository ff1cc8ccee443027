"""Pods per second from the first submission to the last pod bound, beside kube-scheduler and the server's own rate.

    python bench/kubernetes_rate.py [--pods 1000] [--gangs 1,8,20,500] [--nodes 100,1000] [--fleet 20000]
                                    [--real-nodes 0] [--cluster bench]

Six ways to get pods onto the same pretended nodes of the same API server, one after another:

bare            the smallest pods there are, created with a node name by one client: the server's own limit
same pods       the very pods that Gangline writes, created the same way, nothing decided: the ceiling
jobs and pods   the same after the job object that they belong to: no controller whose record is an object is quicker
gangline        jobs submitted to a controller with the real scheduler, a process of its own; whole gangs
kube-scheduler  the smallest pods, created without a node name and bound by kube-scheduler, one by one
kube same pods  the very pods that Gangline writes, bound by kube-scheduler

No client reads what the server answers to a new pod. Rates depend on who else uses the machine; compare those of one
line. ``--fleet`` then fills the nodes with that many pods and measures a controller that has nothing to do. Needs what
``python -m tools.cluster`` needs, and with ``--real-nodes 0`` no root; ends with one line of JSON.
"""

import argparse
import asyncio
import itertools
import json
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gangline.controller import Controller
from gangline.engines.kubernetes import KubernetesEngine, install
from gangline.engines.kubernetes.manifests.gang import Surroundings, gang_to_pods
from gangline.kube import NAMESPACES, NODES, PODS, Applied, KubeClient, load_access
from gangline.lifecycle import new_job
from gangline.model import (
    Gang,
    GangId,
    GangReplica,
    Job,
    JobId,
    JobSpec,
    NodeName,
    PlacementRule,
    Policy,
    ReplicaId,
    Resources,
    RoleName,
    RoleSpec,
    Tenant,
    Timestamp,
)
from gangline.storage.kubernetes import DEFINITIONS, JOBS, KubernetesStore
from tools.cluster import BUSYBOX, Cluster
from tools.cluster.kwok import LABEL

CPU_MILLIS = 100
MEMORY_MIB = 64
CONCURRENCY = 64
PATIENCE_SECONDS = 600


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
            await client.create_unread(PODS, body, namespace=namespace)

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


async def bare(client: KubeClient, namespace: str, case: Case, names: list[str]) -> float:
    bodies = [pod(f"p-{number}", node) for number, node in zip(range(case.pods), itertools.cycle(names), strict=False)]
    return await measured(client, namespace, case.pods, lambda: create_all(client, namespace, bodies))


async def same_pods(client: KubeClient, namespace: str, case: Case, names: list[str], *, bound: bool = True) -> float:
    places = itertools.cycle(names)
    bodies: list[dict[str, object]] = []
    for number in range(case.pods // case.gang):
        job = make_job(case, namespace, number)
        ids = [ReplicaId(RoleName("worker"), index) for index in range(case.gang)]
        replicas = tuple(GangReplica(id=replica, node=NodeName(next(places))) for replica in ids)
        gang = Gang(id=GangId(job.id, 1), spec=job.spec, replicas=replicas)
        bodies += gang_to_pods(gang, replicas, Surroundings(controller=namespace))
    if not bound:
        for body in bodies:
            body["spec"].pop("nodeName")
    return await measured(client, namespace, case.pods, lambda: create_all(client, namespace, bodies))


async def jobs_and_pods(client: KubeClient, namespace: str, case: Case, names: list[str]) -> float:
    store = KubernetesStore(client, namespace=namespace)
    places = itertools.cycle(names)
    slots = asyncio.Semaphore(CONCURRENCY)

    async def create(body: dict[str, object]) -> None:
        async with slots:
            await client.create_unread(PODS, body, namespace=namespace)

    async def one(number: int) -> None:
        job = make_job(case, namespace, number)
        async with slots:
            await store.create(job)
        ids = [ReplicaId(RoleName("worker"), index) for index in range(case.gang)]
        replicas = tuple(GangReplica(id=replica, node=NodeName(next(places))) for replica in ids)
        gang = Gang(id=GangId(job.id, 1), spec=job.spec, replicas=replicas)
        await asyncio.gather(*map(create, gang_to_pods(gang, replicas, Surroundings(controller=namespace))))

    async def submit() -> None:
        await asyncio.gather(*(one(number) for number in range(case.pods // case.gang)))

    return await measured(client, namespace, case.pods, submit)


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


async def gangline(client: KubeClient, kubeconfig: Path, namespace: str, case: Case) -> float:
    store = KubernetesStore(client, namespace=namespace)
    jobs = [make_job(case, namespace, number) for number in range(case.pods // case.gang)]

    async def submit() -> None:
        slots = asyncio.Semaphore(CONCURRENCY)

        async def one(job: Job) -> None:
            async with slots:
                await store.create(job)

        await asyncio.gather(*(one(job) for job in jobs))

    async with controller_process(kubeconfig, namespace, alone=True):
        return await measured(client, namespace, case.pods, submit)


async def controller_ready(store: KubernetesStore) -> None:
    """Wait until the store's watch has seen everything."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not store.following:  # noqa: ASYNC110  # nobody else waits for this
            await asyncio.sleep(0.05)


@asynccontextmanager
async def controller_process(
    kubeconfig: Path, namespace: str, *, alone: bool
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Have a controller that has seen everything: a service is up long before somebody submits to it."""
    command = [sys.executable, __file__, "--controller", str(kubeconfig), namespace, *(["--alone"] if alone else [])]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.stdout.readline()
        yield process
    finally:
        process.kill()
        await process.wait()


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


async def kwok_names(client: KubeClient) -> list[str]:
    return [item.metadata.name for item in (await client.list(NODES)).items or () if LABEL in item.metadata.labels]


async def run_case(client: KubeClient, kubeconfig: Path, case: Case) -> dict[str, float]:
    """Return the pods per second of every way."""
    names = await kwok_names(client)
    return {
        "bare": await with_namespace(client, lambda name: bare(client, name, case, names)),
        "same pods": await with_namespace(client, lambda name: same_pods(client, name, case, names)),
        "jobs and pods": await with_namespace(client, lambda name: jobs_and_pods(client, name, case, names)),
        "gangline": await with_namespace(client, lambda name: gangline(client, kubeconfig, name, case)),
        "kube-scheduler": await with_namespace(client, lambda name: kube_scheduler(client, name, case)),
        "kube same pods": await with_namespace(client, lambda name: same_pods(client, name, case, names, bound=False)),
    }


async def idle(client: KubeClient, kubeconfig: Path, pods: int, seconds: float) -> dict[str, float]:
    """Fill the nodes, and measure a controller of its own that has nothing to do."""
    names = await kwok_names(client)

    async def fill_and_measure(namespace: str) -> float:
        bodies = [pod(f"p-{number}", node) for number, node in zip(range(pods), itertools.cycle(names), strict=False)]
        await measured(client, namespace, pods, lambda: create_all(client, namespace, bodies))
        await all_running(client, namespace)
        began = time.monotonic()
        async with controller_process(kubeconfig, namespace, alone=False) as process:
            figures["seconds to be ready"] = time.monotonic() - began
            await asyncio.sleep(10)  # what the start left to do
            before = process_cpu_seconds(process.pid)
            figures["CPU seconds to be ready"] = before
            await asyncio.sleep(seconds)
            figures["percent of a core"] = 100 * (process_cpu_seconds(process.pid) - before) / seconds
            figures["MiB of memory"] = resident_mib(process.pid)
        return 0.0

    figures: dict[str, float] = {"nodes": len(names), "pods": pods}
    await with_namespace(client, fill_and_measure)
    return figures


async def all_running(client: KubeClient, namespace: str) -> None:
    """Wait until the pretended kubelets have started every pod: until then there is always something new."""
    waiting = {"status.phase": "Pending"}
    while (await client.list(PODS, namespace=namespace, fields=waiting)).items:  # noqa: ASYNC110  # nobody announces it
        await asyncio.sleep(5)


def process_cpu_seconds(number: int) -> float:
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(number: int) -> float:
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


async def only_control(kubeconfig: Path, name: str, *, alone: bool) -> None:
    """Be a controller over the whole cluster or one namespace, for ever; says a line when it has seen everything."""
    async with KubeClient(load_access(path=kubeconfig)) as client:
        namespace = name if alone else None
        store = KubernetesStore(client, namespace=namespace)
        engine = KubernetesEngine(
            client, clock=SystemClock(), controller=name, namespace=namespace, owners=store, keeps_logs=not alone
        )
        controller = Controller(store=store, engine=engine, clock=SystemClock())
        following = asyncio.gather(controller.run(), store.follow(controller, SystemClock()))
        await engine.nodes()
        await controller_ready(store)
        print("ready", flush=True)
        await following


def print_case(case: Case, rates: dict[str, float]) -> None:
    columns = "".join(f"{rate:>16.0f}" for rate in rates.values())
    ratios = "".join(f"{rates['gangline'] / rates[way]:>16.2f}" for way in rates if way != "gangline")
    print(f"{case.nodes:>6} {case.gang:>5}{columns}  {ratios}", flush=True)


async def main(arguments: argparse.Namespace) -> None:
    cluster = await asyncio.to_thread(
        Cluster.up, arguments.cluster, lambda line: print(line, file=sys.stderr), nodes=arguments.real_nodes
    )
    results: list[dict[str, object]] = []
    ways = ("bare", "same pods", "jobs and pods", "gangline", "kube-scheduler", "kube same pods")
    ratios = (f"of {way}"[:15] for way in ways if way != "gangline")
    print(
        f"{'nodes':>6} {'gang':>5}"
        + "".join(f"{way:>16}" for way in ways)
        + "  "
        + "".join(f"{of:>16}" for of in ratios)
    )
    for nodes in arguments.nodes:
        await asyncio.to_thread(cluster.add_kwok_nodes, nodes)
        async with KubeClient(load_access(path=cluster.kubeconfig)) as client:
            await install(client, DEFINITIONS, lambda _: None)
            for gang in arguments.gangs:
                case = Case(nodes=nodes, gang=gang, pods=arguments.pods // gang * gang)
                found = await run_case(client, cluster.kubeconfig, case)
                print_case(case, found)
                results.append({"nodes": nodes, "gang": gang, "pods": case.pods, **found})
            if arguments.fleet and nodes == max(arguments.nodes):
                figures = await idle(client, cluster.kubeconfig, arguments.fleet, arguments.idle_seconds)
                print(", ".join(f"{name}: {value:.1f}" for name, value in figures.items()))
                results.append(dict(figures))
        await asyncio.to_thread(cluster.remove_kwok_nodes)
    print(json.dumps(results))
    if not arguments.keep:
        await asyncio.to_thread(cluster.down)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--gangs", type=numbers, default=[1, 8, 20, 500])
    parser.add_argument("--nodes", type=numbers, default=[100, 1000])
    parser.add_argument("--real-nodes", type=int, default=3, help="nodes with kubelets, besides the pretended ones")
    parser.add_argument("--cluster", default="bench", help="the name of the cluster that is started for it")
    parser.add_argument("--fleet", type=int, default=0, help="pods beside which an idle controller is measured")
    parser.add_argument("--idle-seconds", type=float, default=30)
    parser.add_argument("--controller", nargs=2, metavar=("KUBECONFIG", "NAME"), help=argparse.SUPPRESS)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help="leave the cluster running for the next run")
    given = parser.parse_args()
    if given.controller:
        asyncio.run(only_control(Path(given.controller[0]), given.controller[1], alone=given.alone))
    else:
        asyncio.run(main(given))
