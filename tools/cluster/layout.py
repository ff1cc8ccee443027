"""Where everything of one test cluster lives: names, addresses and folders. Pure.

Only what the host can see carries the slot number, so that clusters side by side do not clash: one link, one address
range, one cgroup per node. Everything else is inside the cluster's own namespaces and the same in every cluster.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/var/tmp/gangline-clusters")
SLOTS = 16
NODES = 3
SERVICE_RANGE = "10.96.0.0/16"
SERVICE_API = "10.96.0.1"
SERVICE_DNS = "10.96.0.10"
POD_RANGE = "10.244.0.0/16"
API_PORT = 6443


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One cluster's names, addresses and folders."""

    name: str
    slot: int
    nodes: int = NODES
    """None for a control plane alone: it runs on the host itself, by addresses that only the host can reach."""

    @property
    def folder(self) -> Path:
        """Everything the cluster writes is below here."""
        return ROOT / self.name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's way in."""
        return self.folder / "admin.kubeconfig"

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.folder / "pki"

    @property
    def network(self) -> str:
        """The range that joins host, control plane and nodes."""
        return f"10.199.{self.slot}.0/24"

    @property
    def control_address(self) -> str:
        """Where the API server and the name server listen."""
        return f"10.199.{self.slot}.1" if self.nodes else f"127.199.{self.slot}.1"

    @property
    def inner_address(self) -> str:
        """Where the parts of the control plane listen that nobody else asks."""
        return "127.0.0.1" if self.nodes else self.control_address

    @property
    def host_address(self) -> str:
        """Where the cluster sees the host."""
        return f"10.199.{self.slot}.254"

    @property
    def host_link(self) -> str:
        """The one network link the host has into the cluster."""
        return f"gangline{self.slot}"

    @property
    def server(self) -> str:
        """The API server as host and nodes reach it."""
        return f"https://{self.control_address}:{API_PORT}"

    def node_name(self, node: int) -> str:
        """The name a node registers with."""
        return f"node{node}"

    def node_address(self, node: int) -> str:
        """The address of a node's kubelet."""
        return f"10.199.{self.slot}.{10 + node}"

    def node_folder(self, node: int) -> Path:
        """What the node takes for its own disk."""
        return self.folder / self.node_name(node)

    def pod_range(self, node: int) -> str:
        """The addresses of a node's pods."""
        return f"10.244.{node}.0/24"

    def cgroup(self, node: int) -> str:
        """The control group that holds a node's pods."""
        return f"gangline-{self.slot}-{node}"

    def save(self) -> None:
        """Record the layout for whoever opens the cluster later."""
        document = {"name": self.name, "slot": self.slot, "nodes": self.nodes}
        (self.folder / "cluster.json").write_text(json.dumps(document), encoding="utf-8")

    @classmethod
    def load(cls, name: str) -> "Layout | None":
        """Read the layout of a cluster that was started before, or None."""
        try:
            return cls(**json.loads((ROOT / name / "cluster.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None


def saved_layouts() -> list[Layout]:
    """Find every cluster on this machine."""
    if not ROOT.is_dir():
        return []
    found = (Layout.load(folder.name) for folder in sorted(ROOT.iterdir()) if folder.is_dir())
    return [layout for layout in found if layout is not None]


def cache_folder() -> Path:
    """Where binaries and images are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gangline" / "kubernetes"
