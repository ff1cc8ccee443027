"""One node: containerd, kubelet and service proxy on a pretended machine, with its network and control group."""

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tools.cluster import control_plane
from tools.cluster.errors import ClusterError, UnsupportedMachineError
from tools.cluster.host import CONTROL_GROUPS, network_plugins, program, snapshotter
from tools.cluster.images import PAUSE
from tools.cluster.layout import SERVICE_DNS, Layout
from tools.cluster.processes import Processes, wait_until
from tools.cluster.sandbox import INSIDE_BINARIES, Sandbox

_SOCKET = "/run/containerd/containerd.sock"


class Node:
    """One of the cluster's real nodes; numbered from one."""

    def __init__(self, layout: Layout, number: int, processes: Processes) -> None:
        self._layout = layout
        self.number = number
        self._processes = processes
        self.name = layout.node_name(number)
        self._folder = layout.node_folder(number)
        self.sandbox = Sandbox(self.name, self._folder, processes)

    def create(self, binaries: Path) -> None:
        """Make the machine, its control group and its configuration; starts nothing yet."""
        self.sandbox.create(binaries, own_disk=True)
        _create_control_group(self._layout.cgroup(self.number))
        network = self._folder / "network"
        network.mkdir()
        (network / "10-gangline.conflist").write_text(json.dumps(self._pod_network()), encoding="utf-8")
        (self._folder / "containerd.toml").write_text(self._containerd(), encoding="utf-8")
        (self._folder / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet()), encoding="utf-8")

    def start_runtime(self) -> None:
        """Start containerd and wait until it answers."""
        name = f"containerd-{self.name}"
        self.sandbox.start(name, [program("containerd"), "--config", f"{self._folder}/containerd.toml"])
        # The socket is seen from outside: the machine's /run is a folder of ours.
        if not wait_until((self._folder / "run/containerd/containerd.sock").exists, seconds=60):
            raise self._processes.failure(name, "did not begin to listen")

    def start(self) -> None:
        """Start kubelet and service proxy."""
        pki = self._layout.pki
        kubelet = [
            str(INSIDE_BINARIES / "kubelet"),
            f"--kubeconfig={pki}/{self.name}.kubeconfig",
            f"--config={self._folder}/kubelet.yaml",
            f"--hostname-override={self.name}",
            f"--node-ip={self._layout.node_address(self.number)}",
        ]
        self.sandbox.start(f"kubelet-{self.name}", kubelet)
        self.sandbox.start(f"kube-proxy-{self.name}", control_plane.proxy(self._layout, INSIDE_BINARIES, self.number))

    def load(self, archive: Path) -> None:
        """Load an image archive into the node."""
        with archive.open("rb") as file:
            command = [program("ctr"), "--address", _SOCKET, "--namespace", "k8s.io", "images", "import", "-"]
            self.sandbox.run(command, stdin=file.fileno())

    def destroy(self) -> None:
        """Kill the machine with all that runs on it and remove its control group."""
        self.sandbox.destroy()
        remove_control_group(self._layout.cgroup(self.number))

    def _pod_network(self) -> dict[str, Any]:
        # Point-to-point rather than a bridge: all traffic is routed, so that service addresses work between pods of
        # one node without the kernel's bridge filter, which is a setting of the whole host.
        addresses = {
            "type": "host-local",
            "dataDir": "/var/lib/cni/networks",
            "ranges": [[{"subnet": self._layout.pod_range(self.number)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        plugins = [
            {"type": "ptp", "ipMasq": False, "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ]
        return {"cniVersion": "0.4.0", "name": "gangline", "plugins": plugins}

    def _containerd(self) -> str:
        return f"""
version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
# Some machines withhold the right to lower a process's out-of-memory score.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{network_plugins()}"
conf_dir = "{self._folder}/network"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter(self._folder)}"
"""

    def _kubelet(self) -> dict[str, Any]:
        pki = self._layout.pki
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{pki}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{pki}/{self.name}.crt",
            "tlsPrivateKeyFile": f"{pki}/{self.name}.key",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._layout.cgroup(self.number)}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "enforceNodeAllocatable": [],
            "containerRuntimeEndpoint": f"unix://{_SOCKET}",
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            "clusterDNS": [SERVICE_DNS],
            "clusterDomain": "cluster.local",
            "maxPods": 200,
            "resolvConf": "",
            "serializeImagePulls": False,
            "nodeStatusUpdateFrequency": "4s",
            "nodeStatusReportFrequency": "4s",
            "nodeLeaseDurationSeconds": 16,
            "kubeAPIQPS": 100,
            "kubeAPIBurst": 200,
            "evictionHard": {
                "memory.available": "50Mi",
                "nodefs.available": "1%",
                "nodefs.inodesFree": "0%",
                "imagefs.available": "1%",
                "imagefs.inodesFree": "0%",
            },
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
        }


def _hierarchies() -> list[Path]:
    """List where control groups are made: everywhere under version 1, in one place under version 2."""
    if (CONTROL_GROUPS / "cgroup.controllers").exists():
        return [CONTROL_GROUPS]
    return [folder for folder in CONTROL_GROUPS.iterdir() if folder.is_dir() and not folder.is_symlink()]


def _delegate_controllers() -> None:
    """Under version 2 a group has only the controllers its parent hands down; a kubelet needs all there are."""
    available = (CONTROL_GROUPS / "cgroup.controllers").read_text(encoding="utf-8").split()
    handed_down = CONTROL_GROUPS / "cgroup.subtree_control"
    for controller in sorted(set(available) - set(handed_down.read_text(encoding="utf-8").split())):
        try:
            handed_down.write_text(f"+{controller}", encoding="utf-8")
        except OSError as error:
            raise UnsupportedMachineError(f"control group controller {controller} cannot be used: {error}") from error


def _create_control_group(name: str) -> None:
    if _hierarchies() == [CONTROL_GROUPS]:
        _delegate_controllers()
    for hierarchy in _hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        # Under version 1 a new group has no processors and no memory until it is given some.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (group / setting).exists() and hierarchy != CONTROL_GROUPS:
                (group / setting).write_text((hierarchy / setting).read_text(encoding="utf-8"), encoding="utf-8")


def remove_control_group(name: str) -> None:
    """Remove a group with all below it; they are empty once their processes are dead, which takes a moment."""
    for hierarchy in _hierarchies():
        _thaw(hierarchy / name)
    for hierarchy in _hierarchies():
        group = hierarchy / name
        if not group.is_dir():
            continue
        if not wait_until(partial(_removed, group), seconds=60):
            raise ClusterError(f"control group {group} cannot be removed; a process in it will not die")


def _thaw(group: Path) -> None:
    """A container runtime that is killed while it pauses a container leaves it frozen, where no signal reaches it."""
    for setting, running in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        for frozen in group.rglob(setting):
            with suppress(FileNotFoundError):
                frozen.write_text(running, encoding="utf-8")


def _removed(group: Path) -> bool:
    below = sorted((path for path in group.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
    try:
        for folder in [*below, group]:
            folder.rmdir()
    except OSError:
        return False  # a process in it is still being buried; the caller asks again
    return True
