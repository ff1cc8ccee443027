"""How long a full node takes from one job to the next, beside kube-scheduler with plain pods on the same node.

    python bench/kubernetes_turnover.py [--jobs 4] [--seconds 3] [--rounds 3] [--cluster bench] [--keep]

in a row    jobs that each need the whole node, submitted at once, until the last has ended
urgent      an elastic gang has the node and shrinks for a job of higher priority: from its submission until its pod
            runs; beside it, a plain pod of higher priority for which kube-scheduler preempts one of lower priority

The node is full of a resource that nobody else asks for. Each round measures both, one after the other; compare those
of one line. Needs root and what ``python -m tools.cluster`` needs; ends with one line of JSON.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from kubernetes_rate import SystemClock, controller_process, with_namespace

from gangline.engines.kubernetes import install
from gangline.kube import NODES, PODS, PRIORITY_CLASSES, Applied, KubeClient, Pod, load_access
from gangline.lifecycle import new_job
from gangline.model import JobId, JobSpec, Policy, Resources, RoleName, RoleSpec, Tenant
from gangline.storage.kubernetes import DEFINITIONS, KubernetesStore
from tools.cluster import BUSYBOX, Cluster

PLACES = 2
PLACE = "example.com/turnover"
GRACE_SECONDS = 10
PATIENCE_SECONDS = 120
STAYS = "trap 'exit 143' TERM; sleep 1000 & wait"


@dataclass(slots=True)
class Seen:
    """What a watch has seen of the pods of one namespace: when each phase of each pod was first shown."""

    times: dict[str, dict[str, float]] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, pod: Pod, *, gone: bool) -> None:
        over = gone or pod.status.phase in ("Succeeded", "Failed")
        phase = "ended" if over else "ending" if pod.metadata.deletion_timestamp else pod.status.phase
        self.times.setdefault(pod.metadata.name, {}).setdefault(phase, time.monotonic())
        self.changed.set()

    def in_phase(self, phase: str, prefix: str = "") -> list[float]:
        return [times[phase] for name, times in self.times.items() if phase in times and name.startswith(prefix)]

    async def until(self, count: int, phase: str, prefix: str = "") -> float:
        """Wait until so many pods were in a phase, and return when the last came into it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.in_phase(phase, prefix)) < count:
                self.changed.clear()
                await self.changed.wait()
        return max(self.in_phase(phase, prefix))


async def watched(client: KubeClient, namespace: str, act: Callable[[Seen], Awaitable[float]]) -> float:
    seen, begun = Seen(), asyncio.Event()

    async def watch() -> None:
        async with aclosing(client.reflect(PODS, namespace=namespace)) as changes:
            async for change in changes:
                begun.set()
                if (pod := getattr(change, "object", None)) is not None:
                    seen.note(pod, gone=not isinstance(change, Applied))

    watching = asyncio.create_task(watch())
    try:
        await begun.wait()
        return await act(seen)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def plain_pod(name: str, script: str, places: int, priority: str = "") -> dict[str, object]:
    amounts = {"cpu": "50m", "memory": "32Mi", PLACE: str(places)}
    container = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", script]}
    spec = {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "containers": [{**container, "resources": {"requests": amounts, "limits": {PLACE: str(places)}}}],
    }
    return {"metadata": {"name": name}, "spec": spec | ({"priorityClassName": priority} if priority else {})}


@dataclass(frozen=True, slots=True)
class Submitter:
    """Submits jobs to one namespace."""

    store: KubernetesStore
    namespace: str

    async def __call__(self, name: str, script: str, places: int, *, priority: int = 50, replicas: int = 1) -> None:
        role = RoleSpec(
            name=RoleName("worker"),
            replicas=replicas,
            minimum=1,
            maximum=replicas,
            command=("sh", "-c", script),
            image=BUSYBOX,
            resources=Resources(cpu_millis=50, memory_mib=32, extended={PLACE: places}),
        )
        spec = JobSpec(
            name=name,
            roles=(role,),
            tenant=Tenant(self.namespace),
            priority=priority,
            policy=Policy(grace_seconds=float(GRACE_SECONDS)),
        )
        await self.store.create(new_job(JobId(f"{self.namespace}-{name}"), spec, SystemClock().now()))


async def jobs_in_a_row(client: KubeClient, kubeconfig: Path, namespace: str, jobs: int, seconds: float) -> float:
    submit = Submitter(KubernetesStore(client, namespace=namespace), namespace)

    async def act(seen: Seen) -> float:
        began = time.monotonic()
        for number in range(jobs):
            await submit(f"job-{number}", f"sleep {seconds:g}", PLACES)
        return await seen.until(jobs, "ended") - began

    async with controller_process(kubeconfig, namespace, alone=True):
        return await watched(client, namespace, act)


async def pods_in_a_row(client: KubeClient, namespace: str, jobs: int, seconds: float) -> float:
    async def act(seen: Seen) -> float:
        began = time.monotonic()
        for number in range(jobs):
            await client.create(PODS, plain_pod(f"pod-{number}", f"sleep {seconds:g}", PLACES), namespace=namespace)
        return await seen.until(jobs, "ended") - began

    return await watched(client, namespace, act)


async def urgent_job(client: KubeClient, kubeconfig: Path, namespace: str) -> float:
    submit = Submitter(KubernetesStore(client, namespace=namespace), namespace)

    async def act(seen: Seen) -> float:
        await submit("elastic", STAYS, 1, priority=10, replicas=PLACES)
        await seen.until(PLACES, "Running")
        await asyncio.sleep(3)  # a gang that has been at work for a while
        began = time.monotonic()
        await submit("urgent", STAYS, 1, priority=90)
        took = await seen.until(1, "Running", "urgent") - began
        print_steps(seen, began)
        return took

    async with controller_process(kubeconfig, namespace, alone=True):
        return await watched(client, namespace, act)


async def urgent_pod(client: KubeClient, namespace: str) -> float:
    async def act(seen: Seen) -> float:
        for number in range(PLACES):
            await client.create(PODS, plain_pod(f"low-{number}", STAYS, 1), namespace=namespace)
        await seen.until(PLACES, "Running")
        await asyncio.sleep(3)
        began = time.monotonic()
        await client.create(PODS, plain_pod("urgent", STAYS, 1, priority="turnover-urgent"), namespace=namespace)
        took = await seen.until(1, "Running", "urgent") - began
        print_steps(seen, began)
        return took

    return await watched(client, namespace, act)


def print_steps(seen: Seen, began: float) -> None:
    """What happened since, for whoever wants to know where the time went."""
    steps = sorted((at - began, name, phase) for name, times in seen.times.items() for phase, at in times.items())
    print("  ", "; ".join(f"{at:.1f} {name} {phase}" for at, name, phase in steps if at > 0), file=sys.stderr)


async def measure(client: KubeClient, kubeconfig: Path, arguments: argparse.Namespace) -> dict[str, float]:
    jobs, seconds = arguments.jobs, arguments.seconds
    found = {
        "in a row": await with_namespace(client, lambda name: jobs_in_a_row(client, kubeconfig, name, jobs, seconds)),
        "kube in a row": await with_namespace(client, lambda name: pods_in_a_row(client, name, jobs, seconds)),
        "urgent": await with_namespace(client, lambda name: urgent_job(client, kubeconfig, name)),
        "kube urgent": await with_namespace(client, lambda name: urgent_pod(client, name)),
    }
    return found | {
        "in a row, of kube": found["in a row"] / found["kube in a row"],
        "urgent, of kube": found["urgent"] / found["kube urgent"],
        "load": os.getloadavg()[0],
    }


async def main(arguments: argparse.Namespace) -> None:
    cluster = await asyncio.to_thread(Cluster.up, arguments.cluster, lambda line: print(line, file=sys.stderr))
    rounds = []
    async with KubeClient(load_access(path=cluster.kubeconfig)) as client:
        await install(client, DEFINITIONS, lambda _: None)
        nodes = (await client.list(NODES)).items or ()
        node = next(each.metadata.name for each in nodes if not each.spec.taints and not each.spec.unschedulable)
        await offer(client, node, str(PLACES))
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": "turnover-urgent"}, "value": 1000})
        try:
            for _ in range(arguments.rounds):
                rounds.append(await measure(client, cluster.kubeconfig, arguments))
                print("  ".join(f"{name} {value:.2f}" for name, value in rounds[-1].items()), flush=True)
        finally:
            await client.delete(PRIORITY_CLASSES, "turnover-urgent")
            await offer(client, node, None)
    print(json.dumps(rounds))
    if not arguments.keep:
        await asyncio.to_thread(cluster.down)


async def offer(client: KubeClient, node: str, amount: str | None) -> None:
    status = {"status": {"capacity": {PLACE: amount}, "allocatable": {PLACE: amount}}}
    await client.patch(NODES, node, status, subresource="status")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cluster", default="bench", help="the name of the cluster that is started for it")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running for the next run")
    asyncio.run(main(parser.parse_args()))
