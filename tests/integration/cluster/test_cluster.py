"""What the test cluster promises: real nodes that talk, components that can be broken, and no traces."""

import asyncio
import os
import signal
import subprocess
from contextlib import aclosing
from pathlib import Path

import pytest

from gangline.kube import (
    CONFIG_MAPS,
    NODES,
    PODS,
    SERVICES,
    Applied,
    KubeClient,
    KubeError,
    Node,
    Synced,
    load_access,
)
from tools.cluster import Cluster, ComponentFailedError
from tools.cluster.kwok import LABEL
from tools.cluster.layout import ROOT, Layout
from tools.cluster.pytest_plugin import ClusterUnderTest

from .conftest import ended, make_pod, object_where, pod_where, running

pytestmark = [pytest.mark.kubernetes, pytest.mark.alone]

TALK = """
import socket, sys, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(socket.gethostname().encode())

HTTPServer(("", 8000), Answer).serve_forever()
"""
ASK = """
import sys, time, urllib.error, urllib.request

def ask(name):
    for _ in range(100):
        try:
            return urllib.request.urlopen(f"http://{name}:8000", timeout=10).read().decode()
        except urllib.error.URLError:
            time.sleep(0.1)  # service addresses and names follow the pods with a little delay
    raise SystemExit(f"{name} does not answer")

for name in sys.argv[1:]:
    print(ask(name))
"""


async def test_pods_on_three_nodes_talk_by_name(client: KubeClient, kubernetes_python_image: str) -> None:
    nodes = [node.metadata.name for node in (await client.list(NODES)).items or ()][:3]
    headless = {"clusterIP": "None", "selector": {"app": "talk"}, "publishNotReadyAddresses": True}
    await client.create(SERVICES, {"metadata": {"name": "gang"}, "spec": headless})
    ports = [{"port": 8000}]
    await client.create(SERVICES, {"metadata": {"name": "any"}, "spec": {"selector": {"app": "talk"}, "ports": ports}})
    for number, node in enumerate(nodes):
        where = {"nodeName": node, "hostname": f"talk-{number}", "subdomain": "gang"}
        pod = make_pod(f"talk-{number}", "python", "-c", TALK, image=kubernetes_python_image, **where)
        await client.create(PODS, pod)
    async with asyncio.timeout(60):
        for number in range(len(nodes)):
            await pod_where(client, f"talk-{number}", running)
        names = [f"talk-{number}.gang" for number in range(len(nodes))]
        result = await client.execute("talk-0", ["python", "-c", ASK, *names, "any"])
    assert result.exit_code == 0, result.stderr
    answers = result.stdout.decode().split()
    assert answers[: len(nodes)] == [f"talk-{number}" for number in range(len(nodes))]
    assert answers[-1] in answers[: len(nodes)]


async def test_image_runs_gangline_as_an_ordinary_user(client: KubeClient, kubernetes_python_image: str) -> None:
    code = (
        "import os, numpy, aiohttp, msgspec, yaml, ssl, sqlite3, gangline.kube; print(os.getuid(), numpy.ones(3).sum())"
    )
    await client.create(PODS, make_pod("trains", "python", "-c", code, image=kubernetes_python_image))
    async with asyncio.timeout(60):
        await pod_where(client, "trains", ended)
    assert [line async for line in client.logs("trains")] == [b"1000 3.0"]


async def test_a_watch_outlives_the_api_server(client: KubeClient, kubernetes_cluster: ClusterUnderTest) -> None:
    machines = kubernetes_cluster.require_machines()
    seen: list[str] = []
    reflected = client.reflect(CONFIG_MAPS, namespace=client.namespace, labels={"kind": "note"})
    async with asyncio.timeout(60), aclosing(reflected) as changes:
        async for change in changes:
            match change:
                case Synced() if not seen:
                    await _note(client, "before")
                case Applied(item):
                    seen.append(item.metadata.name)
                    if item.metadata.name == "before":
                        await asyncio.to_thread(_crash_and_start, machines, "kube-apiserver")
                        await _note(client, "after")
                    else:
                        break
    assert seen == ["before", "after"]


async def test_a_watch_outlives_etcd(client: KubeClient, kubernetes_cluster: ClusterUnderTest) -> None:
    machines = kubernetes_cluster.require_machines()
    await _note(client, "before")
    await asyncio.to_thread(_crash_and_start, machines, "etcd")
    assert (await client.get(CONFIG_MAPS, "before")).metadata.name == "before"
    await _note(client, "after")


async def test_a_stopped_kubelet_makes_its_node_lost(client: KubeClient, kubernetes_cluster: ClusterUnderTest) -> None:
    machines = kubernetes_cluster.require_machines()
    machines.stop("kubelet-node3", signal.SIGKILL)
    try:
        async with asyncio.timeout(60):
            await object_where(client, NODES, "node3", lambda node: not _ready(node))
    finally:
        machines.start("kubelet-node3")
    async with asyncio.timeout(60):
        await object_where(client, NODES, "node3", _ready)


async def test_pretended_nodes_run_pods(client: KubeClient, kubernetes_cluster: ClusterUnderTest) -> None:
    machines = kubernetes_cluster.require_machines()
    with machines.kwok_nodes(20):
        nodes = await client.list(NODES, labels={LABEL: "true"})
        assert len(nodes.items or ()) == 20
        await client.create(PODS, make_pod("pretends", "true", nodeName="kwok-00007"))
        async with asyncio.timeout(30):
            await pod_where(client, "pretends", running)
        await client.delete(PODS, "pretends", grace_seconds=0)
    left = await client.list(NODES, labels={LABEL: "true"})
    assert left.items == []


@pytest.mark.slow
def test_a_second_cluster_runs_beside_the_first_and_leaves_nothing(kubernetes_cluster: ClusterUnderTest) -> None:
    kubernetes_cluster.require_machines()
    host_before = _host_folders()
    name = f"beside-{os.getpid()}"
    second = Cluster.up(name, print)
    try:
        assert second.healthy()
        assert Cluster.up(name, print).layout == second.layout
        assert all(_traces(second.layout).values()), "the search for traces must be able to find some"
    finally:
        second.down()
    assert not any(_traces(second.layout).values())
    assert _host_folders() == host_before
    assert Cluster.open(name) is None


@pytest.mark.slow
def test_a_component_that_cannot_start_is_named_and_nothing_stays(
    kubernetes_cluster: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubernetes_cluster.require_machines()
    layouts: list[Layout] = []

    def broken(layout: Layout, binaries: Path) -> list[str]:
        layouts.append(layout)
        return ["/bin/sh", "-c", "echo the disk is full; exit 1"]

    monkeypatch.setattr("tools.cluster.control_plane.etcd", broken)
    with pytest.raises(ComponentFailedError, match="the disk is full") as caught:
        Cluster.up(f"broken-{os.getpid()}", print)
    assert caught.value.component == "etcd"
    assert not any(_traces(layouts[0]).values())


def _crash_and_start(machines: Cluster, component: str) -> None:
    machines.restart(component, signal.SIGKILL)
    machines.wait_ready()


async def _note(client: KubeClient, name: str) -> None:
    await client.create(CONFIG_MAPS, {"metadata": {"name": name, "labels": {"kind": "note"}}})


def _ready(node: Node) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def _traces(layout: Layout) -> dict[str, list[str]]:
    """Everything a cluster has on the host; other clusters may come and go meanwhile."""
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout.splitlines()
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout.splitlines()
    groups = Path("/sys/fs/cgroup").glob(f"**/gangline-{layout.slot}-*")
    return {
        "processes": [line for line in processes if f"{layout.folder}/" in line],
        "links": [line for line in links if f"{layout.host_link}@" in line],
        "routes": [line for line in routes if layout.network in line],
        "groups": [str(path) for path in groups],
        "folders": [str(layout.folder)] if layout.folder.exists() else [],
    }


def _host_folders() -> list[Path]:
    """The folders that a kubelet, containerd or network plug-in makes on a host it believes to be its own."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return [path for path in _HOST_FOLDERS if path.exists()] + [Path(line) for line in mounts if str(ROOT) in line]


_HOST_FOLDERS = [
    Path("/run/containerd"),
    Path("/run/netns"),
    Path("/usr/libexec/kubernetes"),
    Path("/var/lib/cni"),
    Path("/var/lib/kubelet"),
    Path("/var/log/containers"),
    Path("/var/log/pods"),
]


async def test_keys_are_private(kubernetes_cluster: ClusterUnderTest) -> None:
    machines = kubernetes_cluster.require_machines()
    secret = [*machines.layout.pki.glob("*.key"), *machines.layout.pki.glob("*.kubeconfig"), machines.kubeconfig]
    assert {oct(path.stat().st_mode & 0o777) for path in secret} == {"0o600"}


async def test_components_have_no_more_rights_than_their_own(kubernetes_cluster: ClusterUnderTest) -> None:
    layout: Layout = kubernetes_cluster.require_machines().layout
    async with KubeClient(load_access(path=layout.pki / "node1.kubeconfig")) as node:
        with pytest.raises(KubeError, match="forbidden"):
            await node.create(CONFIG_MAPS, {"metadata": {"name": "x"}})
