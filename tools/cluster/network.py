"""Joins the machines: one bridge inside the control plane's namespace, one link to each node, one to the host.

The bridge is not on the host, so that the host's packet filter, forwarding and bridge settings neither matter nor are
changed.
"""

import ipaddress
import json
import subprocess
from collections.abc import Sequence

from tools.cluster.errors import ClusterError, UnsupportedMachineError
from tools.cluster.host import program
from tools.cluster.layout import SLOTS, Layout
from tools.cluster.node import Node
from tools.cluster.sandbox import Sandbox

_BRIDGE = "bridge"


def free_slot(name: str, taken: Sequence[int], *, nodes: int) -> Layout:
    """Choose a slot whose addresses nobody on this machine uses; without nodes they are the host's own."""
    used = _used_networks() if nodes else []
    for slot in range(SLOTS):
        layout = Layout(name=name, slot=slot, nodes=nodes)
        wanted = ipaddress.ip_network(layout.network)
        if slot not in taken and not any(network.overlaps(wanted) for network in used):
            return layout
    raise UnsupportedMachineError("no free address range for another cluster; take one down first")


def _used_networks() -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    routes = json.loads(_ip("-json", "route", "show", "table", "all"))
    return [
        ipaddress.ip_network(route["dst"], strict=False)
        for route in routes
        if "." in route.get("dst", "") and route["dst"] not in ("default", "0.0.0.0/0")
    ]


def connect(layout: Layout, control: Sandbox, nodes: Sequence[Node]) -> None:
    """Join host, control plane and nodes."""
    commands = ["link set lo up", f"link add {_BRIDGE} type bridge", f"link set {_BRIDGE} up"]
    commands.append(f"address add {layout.control_address}/24 dev {_BRIDGE}")
    for node in nodes:
        _ip(*f"link add {node.name} netns {control.pid} type veth peer name eth0 netns {node.sandbox.pid}".split())
        commands.append(f"link set {node.name} master {_BRIDGE} up")
    _ip(*f"link add {layout.host_link} type veth peer name host netns {control.pid}".split())
    commands.append(f"link set host master {_BRIDGE} up")
    _batch(control, commands)
    _ip("address", "add", f"{layout.host_address}/24", "dev", layout.host_link)
    _ip("link", "set", layout.host_link, "up")
    # The API server answers pods (and calls webhooks in them), so the control plane must know the way to them.
    _batch(control, [f"route add {layout.pod_range(n.number)} via {layout.node_address(n.number)}" for n in nodes])
    for node in nodes:
        _connect_node(layout, node, nodes)


def _connect_node(layout: Layout, node: Node, nodes: Sequence[Node]) -> None:
    commands = ["link set lo up", f"address add {layout.node_address(node.number)}/24 dev eth0", "link set eth0 up"]
    commands.append(f"route add default via {layout.control_address}")
    commands += [
        f"route add {layout.pod_range(peer.number)} via {layout.node_address(peer.number)}"
        for peer in nodes
        if peer is not node
    ]
    _batch(node.sandbox, commands)
    node.sandbox.run([program("sh"), "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])


def disconnect(layout: Layout) -> None:
    """Remove the host's link; it goes by itself with the namespace, but later than the caller would like."""
    links = json.loads(_ip("-json", "link", "show"))
    if any(link["ifname"] == layout.host_link for link in links):
        result = subprocess.run([program("ip"), "link", "delete", layout.host_link], capture_output=True, check=False)
        if result.returncode and layout.host_link in _ip("link", "show"):
            raise ClusterError(f"link {layout.host_link} cannot be removed: {result.stderr.decode().strip()}")


def _batch(sandbox: Sandbox, commands: Sequence[str]) -> None:
    script = "\n".join(["set -e", *(f"{program('ip')} {command}" for command in commands)])
    sandbox.run([program("sh"), "-c", script])


def _ip(*arguments: str) -> str:
    result = subprocess.run([program("ip"), *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise ClusterError(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout
