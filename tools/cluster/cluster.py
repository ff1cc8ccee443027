"""``Cluster``: starts, opens, breaks on purpose and takes down one real Kubernetes cluster on this machine.

Tests reach it through the ``kubernetes_cluster`` fixture, people through ``python -m tools.cluster``.
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tools.cluster import control_plane, host, images, kwok, network, pki
from tools.cluster.apiserver import ApiServer
from tools.cluster.build import Report, ensure_built, exclusive
from tools.cluster.errors import ClusterError
from tools.cluster.layout import NODES, ROOT, Layout, cache_folder, saved_layouts
from tools.cluster.node import Node
from tools.cluster.processes import Processes, wait_until
from tools.cluster.sandbox import Host, Sandbox

_READY_SECONDS = 120


class Cluster:
    """One cluster that was started on this machine, by this process or an earlier one."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.processes = Processes(layout.folder)
        self.control = (
            Sandbox("control", layout.folder / "control", self.processes) if layout.nodes else Host(self.processes)
        )
        self.nodes = [Node(layout, number, self.processes) for number in range(1, layout.nodes + 1)]

    @classmethod
    def open(cls, name: str) -> "Cluster | None":
        """Find a cluster that was started before."""
        layout = Layout.load(name)
        return cls(layout) if layout is not None else None

    @classmethod
    def up(cls, name: str, report: Report, *, nodes: int = NODES) -> "Cluster":
        """Start a cluster, or return the one of this name that runs; a broken one is replaced.

        Without nodes it is a control plane that pretended ones can join (``add_kwok_nodes``); that needs no root.
        """
        host.prepare(report, nodes=nodes)
        binaries = ensure_built(report)
        existing = cls.open(name)
        if existing is not None:
            if existing.healthy() and existing.layout.nodes == nodes:
                return existing
            report(f"cluster {name} is broken or has other nodes; starting it anew")
            existing.down()
        cluster = cls(_claim(name, nodes))
        try:
            cluster._start(binaries)
        except BaseException:
            cluster.down()
            raise
        return cluster

    @property
    def kubeconfig(self) -> Path:
        """The administrator's way in."""
        return self.layout.kubeconfig

    @property
    def api(self) -> ApiServer:
        """The API server, asked as the administrator."""
        return ApiServer(self.layout)

    def healthy(self) -> bool:
        """Whether every process runs and the API server is ready."""
        records = self.processes.all()
        return bool(records) and all(record.alive for record in records) and self.api.ready()

    def stop(self, component: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop a component, such as ``kube-apiserver`` or ``kubelet-node2``; SIGKILL to crash it."""
        self.processes.stop(component, number)

    def start(self, component: str) -> None:
        """Start a component again that was stopped."""
        record = self.processes.find(component)
        if record is None:
            known = ", ".join(record.name for record in self.processes.all())
            raise ClusterError(f"no component '{component}' (there are: {known})")
        self.processes.start(component, record.command)

    def restart(self, component: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop a component and start it again; does not wait until it is ready."""
        self.stop(component, number)
        self.start(component)

    def wait_ready(self) -> None:
        """Wait until the API server is ready, all nodes are Ready and pods can be created."""
        self._wait(self.api.ready, "kube-apiserver", "did not become ready")
        self._wait(self._accounts_exist, "kube-controller-manager", "did not make the default service account")
        for node in self.nodes:
            self._wait(partial(self._node_ready, node.name), f"kubelet-{node.name}", "did not become Ready")

    def load(self, image: images.Image) -> None:
        """Load an image into every node."""
        archive = image.archive()
        self._everywhere(lambda node: node.load(archive))

    @contextmanager
    def kwok_nodes(self, count: int, *, cpu: int = 32, memory_gib: int = 256, pods: int = 110) -> Iterator[None]:
        """Have pretended nodes while the context is open."""
        self.add_kwok_nodes(count, cpu=cpu, memory_gib=memory_gib, pods=pods)
        try:
            yield
        finally:
            self.remove_kwok_nodes()

    def add_kwok_nodes(self, count: int, *, cpu: int = 32, memory_gib: int = 256, pods: int = 110) -> None:
        """Create pretended nodes and wait until they are Ready. While there are some, no node counts as lost."""
        record = self.processes.find("kwok")
        if record is None or not record.alive:
            binaries = ensure_built(print)
            # Thousands of nodes that all renew their leases every few seconds would leave no time for anything else.
            self._watch_nodes(grace_seconds=kwok.LEASE_SECONDS)
            kwok.write(self.layout)
            self.control.start("kwok", kwok.command(self.layout, binaries))
        bodies = (kwok.node(number, cpu=cpu, memory_gib=memory_gib, pods=pods) for number in range(count))
        self.api.post_all("/api/v1/nodes", bodies)
        self._wait(lambda: self._kwok_ready() >= count, "kwok", "did not make its nodes Ready", every_seconds=1.0)

    def remove_kwok_nodes(self) -> None:
        """Delete the pretended nodes, stop KWOK, and let lost nodes count as lost again."""
        self.api.delete(f"/api/v1/nodes?labelSelector={kwok.LABEL}")
        self.processes.stop("kwok")
        self.processes.forget("kwok")
        self._watch_nodes(grace_seconds=control_plane.GRACE_SECONDS)

    def down(self) -> None:
        """Take everything away: processes, mounts, links, control groups and files. Needs nothing to be healthy."""
        self._everywhere(Node.destroy)
        self.control.destroy()
        if self.nodes:
            network.disconnect(self.layout)
        shutil.rmtree(self.layout.folder, ignore_errors=False)
        if ROOT.is_dir() and not any(ROOT.iterdir()):
            ROOT.rmdir()

    def _start(self, binaries: Path) -> None:
        pki.create(self.layout)
        if isinstance(self.control, Sandbox):
            self.control.create(binaries, own_disk=False)
            self._everywhere(lambda node: node.create(binaries))
            network.connect(self.layout, self.control, self.nodes)
        self.control.start("etcd", control_plane.etcd(self.layout, binaries))
        self.control.start("kube-apiserver", control_plane.api_server(self.layout, binaries))
        if self.nodes:
            self._everywhere(Node.start_runtime)
            for image in (images.pause_image(binaries), images.busybox_image()):
                self.load(image)
        self._wait(self.api.ready, "kube-apiserver", "did not become ready")
        if self.nodes:
            for path, body in control_plane.objects(self.layout):
                self.api.post(path, body)
            control_plane.write(self.layout)
        self.control.start("kube-controller-manager", control_plane.controller_manager(self.layout, binaries))
        self.control.start("kube-scheduler", control_plane.scheduler(self.layout, binaries))
        if self.nodes:
            self.control.start("coredns", control_plane.name_server(self.layout, binaries))
        for node in self.nodes:
            node.start()
        self.wait_ready()

    def _everywhere(self, act: Callable[[Node], object]) -> None:
        """Do something at all nodes at once."""
        if self.nodes:
            with ThreadPoolExecutor(len(self.nodes)) as pool:
                list(pool.map(act, self.nodes))

    def _watch_nodes(self, *, grace_seconds: int) -> None:
        """Restart the controller manager with another idea of when a silent node is lost."""
        command = control_plane.controller_manager(self.layout, ensure_built(print), grace_seconds=grace_seconds)
        self.stop("kube-controller-manager")
        self.control.start("kube-controller-manager", command)

    def _wait(
        self, condition: Callable[[], bool], component: str, problem: str, *, every_seconds: float = 0.05
    ) -> None:
        def holds() -> bool:
            self.processes.check_alive()
            return condition()

        if not wait_until(holds, seconds=_READY_SECONDS, every_seconds=every_seconds):
            raise self.processes.failure(component, problem)

    def _accounts_exist(self) -> bool:
        return self.api.get("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def _node_ready(self, name: str) -> bool:
        node = self.api.get(f"/api/v1/nodes/{name}")
        return node is not None and _open_for_pods(node)

    def _kwok_ready(self) -> int:
        nodes = self.api.get(f"/api/v1/nodes?labelSelector={kwok.LABEL}") or {"items": []}
        return sum(map(_open_for_pods, nodes["items"]))


def _open_for_pods(node: dict[str, Any]) -> bool:
    """Whether a node is Ready and the taint it is born with is gone."""
    conditions = node["status"].get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not node["spec"].get("taints")


def _claim(name: str, nodes: int) -> Layout:
    """Take a free slot and make the cluster's folder; two runs at once get different ones."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with exclusive(cache_folder() / "clusters.lock"):
        ROOT.mkdir(mode=0o700, exist_ok=True)
        if ROOT.is_symlink() or ROOT.stat().st_uid != os.geteuid():
            raise ClusterError(f"{ROOT} belongs to somebody else; remove it")
        if Layout.load(name) is not None:
            raise ClusterError(f"another run is starting cluster {name} at this moment")
        layout = network.free_slot(name, [other.slot for other in saved_layouts()], nodes=nodes)
        if layout.folder.exists():
            shutil.rmtree(layout.folder)  # a run died here before it had started anything
        layout.folder.mkdir(mode=0o700)
        layout.save()
    return layout
