"""500 TFJobs of 1 chief, 1 parameter server and 2 workers on KWOK nodes, under Gangline and under upstream's operator.

    python bench/kubeflow_rate.py [--jobs 500] [--upstream-jobs 100] [--nodes 100] [--only gangline] [--real-nodes 0]

Both controllers are a process of their own on the same API server, one after the other, with the settings they ship
with; the same client submits the same objects and watches the pods. A job counts as started when its four pods run.
Before them the client itself creates the very objects of every job, pods already bound, and no controller is there
(after a few jobs that are not counted, for a fresh cluster is slower): what the cluster's own components need for those
objects is needed under any controller, and on few cores it bounds the rate.
CPU times do not depend on what else the machine does, rates do.
Upstream's pods are bound by kube-scheduler, Gangline's by Gangline. Upstream's webhook is not asked, which saves it a
call per job. The operator is built once from its Go module (deploy/upstream, about two minutes on two cores).

Needs what ``python -m tools.cluster`` needs. Figures are printed as a table and as one line of JSON.
"""

import argparse
import asyncio
import base64
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gangline.compose import SystemClock
from gangline.controller import Controller
from gangline.dialects import read_plain
from gangline.dialects.kubeflow import KINDS
from gangline.engines.kubernetes import KubernetesEngine, install
from gangline.engines.kubernetes.manifests.kubeflow_pods import KubeflowGang, kubeflow_pods, kubeflow_services
from gangline.kube import (
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Applied,
    GenericObject,
    KubeClient,
    NotFoundError,
    Resource,
    load_access,
)
from gangline.model import Gang, GangId, GangReplica, JobId, NodeName, ReplicaId
from gangline.storage.kubernetes import DEFINITIONS, KubernetesStore, kubeflow_definitions
from tools.cluster import BUSYBOX, Cluster
from tools.cluster.kwok import LABEL
from tools.cluster.upstream import TRAINING_OPERATOR, ensure_upstream

CLUSTER = "bench-kubeflow"
WARMING_JOBS = 50
TFJOBS = Resource(group="kubeflow.org", plural="tfjobs", kind="TFJob", type=GenericObject)
SUBMISSIONS = 32
REPLICAS = {"Chief": 1, "PS": 1, "Worker": 2}
GANG = sum(REPLICAS.values())
PATIENCE_SECONDS = 600
TICKS = os.sysconf("SC_CLK_TCK")
Complete = Callable[[int], Awaitable[None]]
OPERATOR_FOLDER = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where upstream's operator looks for its certificate; it has no setting for it."""
OPERATOR_SECRET = "training-operator-webhook-cert"


def tfjob(number: int) -> dict[str, Any]:
    container = {
        "name": "tensorflow",
        "image": BUSYBOX,
        "command": ["sleep", "infinity"],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    pod = {"containers": [container], "nodeSelector": {LABEL: "true"}, "terminationGracePeriodSeconds": 1}
    pod["automountServiceAccountToken"] = False
    specs = {
        name: {"replicas": count, "restartPolicy": "Never", "template": {"spec": pod}}
        for name, count in REPLICAS.items()
    }
    return {"metadata": {"name": f"job-{number}"}, "spec": {"tfReplicaSpecs": specs}}


@dataclass
class Outcome:
    """What was measured of one controller."""

    jobs: int
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    cluster_cpu_seconds: float = 0.0
    delays: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.jobs * GANG / self.seconds

    def plain(self) -> dict[str, float]:
        centiles = statistics.quantiles(self.delays, n=100)
        return {
            "jobs": self.jobs,
            "seconds": round(self.seconds, 2),
            "replicas_per_second": round(self.rate, 1),
            "p50_seconds": round(centiles[49], 2),
            "p99_seconds": round(centiles[98], 2),
            "cpu_seconds_per_100_jobs": round(100 * self.cpu_seconds / self.jobs, 2),
            "cluster_cpu_seconds_per_100_jobs": round(100 * self.cluster_cpu_seconds / self.jobs, 2),
        }


async def measure(
    cluster: Cluster, client: KubeClient, namespace: str, jobs: int, pid: int, complete: Complete | None = None
) -> Outcome:
    """Submit all jobs and wait until the pods of the last one run; ``complete`` is what the client does itself."""
    submitted: dict[str, float] = {}
    running: dict[str, set[str]] = {}
    outcome = Outcome(jobs=jobs)
    watching = asyncio.Event()

    async def watch() -> None:
        async with aclosing(client.reflect(PODS, namespace=namespace)) as changes:
            async for change in changes:
                watching.set()
                if not isinstance(change, Applied) or change.object.status.phase != "Running":
                    continue
                name = change.object.metadata.labels.get("training.kubeflow.org/job-name", "")
                pods = running.setdefault(name, set())
                if change.object.metadata.name in pods:
                    continue
                pods.add(change.object.metadata.name)
                if len(pods) == GANG:
                    outcome.delays.append(time.monotonic() - submitted[name])
                    if len(outcome.delays) == jobs:
                        return

    task = asyncio.create_task(watch())
    await watching.wait()
    components = component_pids(cluster)
    cpu, cluster_cpu, began = cpu_seconds(pid), sum(map(cpu_seconds, components)), time.monotonic()
    slots = asyncio.Semaphore(SUBMISSIONS)

    async def submit(number: int) -> None:
        async with slots:
            submitted[f"job-{number}"] = time.monotonic()
            await client.create(TFJOBS, tfjob(number), namespace=namespace)
            if complete is not None:
                await complete(number)

    await asyncio.gather(*(submit(number) for number in range(jobs)))
    await asyncio.wait_for(task, PATIENCE_SECONDS)
    outcome.seconds, outcome.cpu_seconds = time.monotonic() - began, cpu_seconds(pid) - cpu
    outcome.cluster_cpu_seconds = sum(map(cpu_seconds, components)) - cluster_cpu
    return outcome


def component_pids(cluster: Cluster) -> list[int]:
    """The processes of the cluster: all that were given a file of its folder."""
    folder = str(Path(cluster.kubeconfig).parent).encode()
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (
                place.name.isdigit()
                and b"--serve" not in (words := (place / "cmdline").read_bytes())
                and folder in words
            ):
                found.append(int(place.name))
    return found


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


# Nobody ------------------------------------------------------------------------------------------------------


async def by_hand(cluster: Cluster, client: KubeClient, namespace: str, jobs: int) -> Outcome:
    """Create the objects of every job without anybody who watches over them."""
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    nodes = [item.metadata.name for item in (await client.list(NODES)).items or () if LABEL in item.metadata.labels]
    places = itertools.cycle(map(NodeName, nodes))

    async def complete(number: int) -> None:
        document = tfjob(number)
        document["metadata"]["namespace"] = namespace
        (translation,) = read_plain({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", **document})
        spec = translation.spec
        ids = [ReplicaId(role.name, index) for role in spec.roles for index in range(role.replicas)]
        replicas = tuple(GangReplica(id=replica, node=next(places)) for replica in ids)
        gang = Gang(id=GangId(JobId(spec.name), 1), spec=spec, replicas=replicas)
        job = KubeflowGang(gang=gang, kind=KINDS["TFJob"], controller=namespace, owner=None)
        await asyncio.gather(
            *(client.create_unread(SERVICES, body) for body in kubeflow_services(job, replicas)),
            *(client.create_unread(PODS, body) for body in kubeflow_pods(job, replicas)),
        )

    try:
        return await measure(cluster, client, namespace, jobs, os.getpid(), complete)
    finally:
        await client.delete_all(PODS, labels=None, namespace=namespace, grace_seconds=0)
        await client.delete(NAMESPACES, namespace)


# Gangline ------------------------------------------------------------------------------------------------------


async def serve(kubeconfig: Path, namespace: str) -> None:
    """Be Gangline's controller for one namespace, until killed."""
    async with KubeClient(load_access(path=kubeconfig)) as client:
        clock = SystemClock()
        store = KubernetesStore(client, namespace=namespace)
        engine = KubernetesEngine(client, clock=clock, controller=namespace, namespace=namespace, owners=store)
        controller = Controller(store=store, engine=engine, clock=clock)
        await engine.nodes()
        print("ready", flush=True)
        await asyncio.gather(controller.run(), store.follow(controller, clock))


@asynccontextmanager
async def gangline(kubeconfig: Path, namespace: str) -> AsyncIterator[int]:
    command = [sys.executable, __file__, "--serve", str(kubeconfig), namespace]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()


# Upstream ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def upstream(client: KubeClient, kubeconfig: Path, namespace: str, log: Path) -> AsyncIterator[int]:
    """Run upstream's operator, which waits for the files of its own secret in a fixed folder."""
    built = await asyncio.to_thread(ensure_upstream, TRAINING_OPERATOR, lambda line: print(line, file=sys.stderr))
    operator = built / "training-operator.v1"
    with contextlib.suppress(NotFoundError):
        await client.delete(SECRETS, OPERATOR_SECRET, namespace=namespace)
    await client.create(SECRETS, {"metadata": {"name": OPERATOR_SECRET}}, namespace=namespace)
    arguments = [f"--namespace={namespace}", "--enable-scheme=tfjob", "--metrics-bind-address=127.0.0.1:0"]
    arguments += ["--health-probe-bind-address=127.0.0.1:0", "--webhook-server-port=19443"]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "MY_POD_NAMESPACE": namespace}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(operator), *arguments, env=environment, stdout=output, stderr=output
        )
        try:
            await certify(client, namespace)
            await until_ready(log)
            yield process.pid
        finally:
            process.kill()
            await process.wait()


async def certify(client: KubeClient, namespace: str) -> None:
    while True:
        raw = json.loads(await client.raw(f"/api/v1/namespaces/{namespace}/secrets/{OPERATOR_SECRET}"))
        if raw.get("data", {}).get("tls.crt"):
            break
        await asyncio.sleep(0.2)
    await asyncio.to_thread(OPERATOR_FOLDER.mkdir, parents=True, exist_ok=True)
    for name, value in raw["data"].items():
        (OPERATOR_FOLDER / name).write_bytes(base64.b64decode(value))


async def until_ready(log: Path) -> None:
    async with asyncio.timeout(120):
        while b"Starting workers" not in await asyncio.to_thread(log.read_bytes):  # noqa: ASYNC110  # a file
            await asyncio.sleep(0.2)


# Both ----------------------------------------------------------------------------------------------------------


async def in_namespace(cluster: Cluster, client: KubeClient, name: str, jobs: int, controller: Any) -> Outcome:
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    try:
        async with controller as pid:
            return await measure(cluster, client, name, jobs, pid)
    finally:
        await client.delete(NAMESPACES, name)
        while (await client.list(PODS, namespace=name)).items:  # noqa: ASYNC110  # the server sends no event
            await asyncio.sleep(0.5)


async def main(arguments: argparse.Namespace) -> None:
    cluster = await asyncio.to_thread(
        Cluster.up, CLUSTER, lambda line: print(line, file=sys.stderr), nodes=arguments.real_nodes
    )
    await asyncio.to_thread(cluster.add_kwok_nodes, arguments.nodes)
    results: dict[str, Outcome] = {}
    async with KubeClient(load_access(path=cluster.kubeconfig)) as client:
        await install(client, [*DEFINITIONS, *kubeflow_definitions()], lambda _: None)
        await by_hand(cluster, client, f"first-{uuid.uuid4().hex[:6]}", WARMING_JOBS)
        name = f"nobodys-{uuid.uuid4().hex[:6]}"
        results["nobody"] = await by_hand(cluster, client, name, min(arguments.jobs, 200))
        name = f"ours-{uuid.uuid4().hex[:6]}"
        results["gangline"] = await in_namespace(
            cluster, client, name, arguments.jobs, gangline(cluster.kubeconfig, name)
        )
        if arguments.only is None:
            name = f"theirs-{uuid.uuid4().hex[:6]}"
            log = Path(cluster.kubeconfig).with_name("training-operator.log")
            theirs = upstream(client, cluster.kubeconfig, name, log)
            results["upstream"] = await in_namespace(cluster, client, name, arguments.upstream_jobs, theirs)
    rows = {name: outcome.plain() for name, outcome in results.items()}
    print(
        f"{'':>10} {'jobs':>5} {'replicas/s':>11} {'p50 s':>7} {'p99 s':>7}   CPU s per 100 jobs: controller, cluster"
    )
    for name, row in rows.items():
        print(
            f"{name:>10} {row['jobs']:>5} {row['replicas_per_second']:>11} {row['p50_seconds']:>7} "
            f"{row['p99_seconds']:>7} {row['cpu_seconds_per_100_jobs']:>31} "
            f"{row['cluster_cpu_seconds_per_100_jobs']:>8}"
        )
    if "upstream" in results:
        print(f"gangline is {results['gangline'].rate / results['upstream'].rate:.1f} times as fast")
    print(f"gangline is {results['gangline'].rate / results['nobody'].rate:.2f} times as fast as a client by itself")
    print(json.dumps(rows))
    if not arguments.keep:
        await asyncio.to_thread(cluster.down)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--upstream-jobs", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--real-nodes", type=int, default=3, help="nodes with kubelets, besides the pretended ones")
    parser.add_argument("--only", choices=["gangline"])
    parser.add_argument("--keep", action="store_true", help="leave the cluster running for the next run")
    parser.add_argument("--serve", nargs=2, metavar=("KUBECONFIG", "NAMESPACE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(Path(given.serve[0]), given.serve[1]))
    else:
        asyncio.run(main(given))
