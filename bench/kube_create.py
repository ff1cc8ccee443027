"""How many pods a second Gangline's client creates, beside the API server's own limit, in the same run.

    python bench/kube_create.py [--pods 1000] [--nodes 100] [--concurrency 32]

Starts a cluster of its own with pretended nodes. The limit is taken by a bare HTTP loop that sends bodies encoded
beforehand and looks at nothing but the status; rounds alternate, so that both meet the same machine. The controller
manager and KWOK work on the pods meanwhile, as they would in earnest.
"""

import argparse
import asyncio
import os
import ssl
import statistics
import time
from typing import Any

import aiohttp
import msgspec

from gangline.kube import NAMESPACES, PODS, KubeClient, load_access
from tools.cluster import BUSYBOX, Cluster

ROUNDS = 3


def bound_pod(name: str, node: str) -> dict[str, Any]:
    """A pod that needs no scheduler."""
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": BUSYBOX, "resources": {"requests": {"cpu": "100m"}}}],
        },
    }


async def rate_of_client(client: KubeClient, namespace: str, pods: list[dict[str, Any]], concurrency: int) -> float:
    """Pods a second through ``KubeClient``."""
    waiting = asyncio.Semaphore(concurrency)

    async def create(pod: dict[str, Any]) -> None:
        async with waiting:
            await client.create(PODS, pod, namespace=namespace)

    began = time.perf_counter()
    await asyncio.gather(*map(create, pods))
    return len(pods) / (time.perf_counter() - began)


async def rate_of_server(cluster: Cluster, namespace: str, pods: list[dict[str, Any]], concurrency: int) -> float:
    """Pods a second through nothing at all."""
    tls = ssl.create_default_context(cafile=str(cluster.layout.pki / "ca.crt"))
    tls.load_cert_chain(cluster.layout.pki / "admin.crt", cluster.layout.pki / "admin.key")
    url = cluster.layout.server + PODS.path(namespace=namespace)
    bodies = [msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", **pod}) for pod in pods]
    waiting = asyncio.Semaphore(concurrency)

    async def post(session: aiohttp.ClientSession, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        async with waiting, session.post(url, data=body, headers=headers, ssl=tls) as response:
            assert response.status == 201, await response.text()
            await response.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:
        began = time.perf_counter()
        await asyncio.gather(*(post(session, body) for body in bodies))
        return len(pods) / (time.perf_counter() - began)


async def measure(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Alternate both, each round in a namespace of its own."""
    rates: dict[str, list[float]] = {"server": [], "client": []}
    async with KubeClient(load_access(path=cluster.kubeconfig), connections=arguments.concurrency) as client:
        for number in range(ROUNDS):
            for kind, measured in rates.items():
                namespace = f"bench-{kind}-{number}"
                await client.create(NAMESPACES, {"metadata": {"name": namespace}})
                pods = [bound_pod(f"p{index}", f"kwok-{index % arguments.nodes:05}") for index in range(arguments.pods)]
                if kind == "server":
                    rate = await rate_of_server(cluster, namespace, pods, arguments.concurrency)
                else:
                    rate = await rate_of_client(client, namespace, pods, arguments.concurrency)
                measured.append(rate)
                await client.delete_all(PODS, labels=None, namespace=namespace, grace_seconds=0)
    server, ours = statistics.median(rates["server"]), statistics.median(rates["client"])
    print(f"{arguments.pods} pods already bound to {arguments.nodes} nodes, {arguments.concurrency} at once")
    print(f"API server's own rate   {server:7.0f} pods/s")
    print(f"gangline.kube           {ours:7.0f} pods/s   {ours / server:.2f} of it")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--concurrency", type=int, default=32)
    arguments = parser.parse_args()
    cluster = Cluster.up(f"bench-{os.getpid()}", print)
    try:
        cluster.add_kwok_nodes(arguments.nodes)
        asyncio.run(measure(cluster, arguments))
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
