"""This machine as nodes: what it has, and how it is divided when several logical nodes are wanted."""

import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gangline.engines.local.keeper.system import cgroups
from gangline.engines.local.nodes.devices import Device
from gangline.model import Node, NodeName, Resources

_UNLIMITED = 1 << 60
_MOST_REPLICAS = 500
"""How many replicas a node may run: each costs the service a descriptor, of which a user has 1024 as a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    """A node with what stands behind its capacity."""

    node: Node
    cpus: tuple[int, ...]
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What this process may use of the machine it runs on."""

    cpus: tuple[int, ...]
    cpu_millis: int
    memory_mib: int
    devices: tuple[Device, ...]
    faults: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with GPUs that have errors, by their ids."""

    @classmethod
    def measure(cls, devices: tuple[Device, ...], faults: Mapping[str, str] | None = None) -> "Machine":
        """Look at the affinity mask, the control group's limits and the machine's memory."""
        cpus = tuple(sorted(os.sched_getaffinity(0)))
        meminfo = Path("/proc/meminfo").read_text().splitlines()
        total_kib = next(int(line.split()[1]) for line in meminfo if line.startswith("MemTotal:"))
        return cls(
            cpus=cpus,
            cpu_millis=min(len(cpus) * 1000, _cpu_quota_millis()),
            memory_mib=min(total_kib << 10, _memory_limit_bytes()) >> 20,
            devices=devices,
            faults=faults or {},
        )

    def divide(self, count: int) -> tuple[LocalNode, ...]:
        """Return logical nodes whose capacities add up to the machine's; GPUs are dealt out one by one."""
        host = platform.node().lower() or "localhost"
        names = [host] if count == 1 else [f"node-{index}" for index in range(count)]
        return tuple(self._part(index, count, name, host) for index, name in enumerate(names))

    def _part(self, index: int, count: int, name: str, host: str) -> LocalNode:
        whole = tuple(device for device in self.devices if device.profile is None)[index::count]
        slices = tuple(device for device in self.devices if device.profile is not None)[index::count]
        devices = (*whole, *slices)
        kinds = {device.type for device in devices}
        gpu_type = kinds.pop() if len(kinds) == 1 else None
        labels = {"gangline.dev/hostname": host} | ({"gangline.dev/gpu-type": gpu_type} if gpu_type else {})
        capacity = Resources(
            cpu_millis=_share(self.cpu_millis, index, count),
            memory_mib=_share(self.memory_mib, index, count),
            gpu_millis=1000 * len(whole),
            extended=Counter(device.resource for device in slices if device.resource is not None),
        )
        node = Node(name=NodeName(name), capacity=capacity, gpu_type=gpu_type, labels=labels, pods=_MOST_REPLICAS)
        closed = {device.id: self.faults[device.id] for device in whole if device.id in self.faults}
        node = replace(
            node,
            gpu_memory_mib=min((device.memory_mib for device in whole), default=0),
            foreign=Resources(gpu_millis=1000 * len(closed)),
            closed_gpus=closed,
        )
        return LocalNode(node=node, cpus=_part_of(self.cpus, index, count), devices=devices)


def _share(amount: int, index: int, count: int) -> int:
    """Divide exactly: the shares of all add up to the amount."""
    return amount * (index + 1) // count - amount * index // count


def _part_of(cpus: Sequence[int], index: int, count: int) -> tuple[int, ...]:
    """The CPUs that a node's share touches: with fewer CPUs than nodes, neighbours share one; nobody has none."""
    first = index * len(cpus) // count
    last = -(-(index + 1) * len(cpus) // count)
    return tuple(cpus[first:last])


def _memory_limit_bytes() -> int:
    names = ("memory.max", "memory.limit_in_bytes")
    return min((_number(path / name) for path in _own_groups("memory") for name in names), default=_UNLIMITED)


def _cpu_quota_millis() -> int:
    quotas = [_UNLIMITED]
    for path in _own_groups("cpu"):
        fields = _words(path / "cpu.max") or _words(path / "cpu.cfs_quota_us") + _words(path / "cpu.cfs_period_us")
        if len(fields) == 2 and fields[0].isdigit():
            quotas.append(int(fields[0]) * 1000 // int(fields[1]))
    return min(quotas)


def _own_groups(controller: str) -> list[Path]:
    """The control groups this process is in, each with its ancestors: any of them may set a limit."""
    try:
        hierarchies = cgroups.hierarchies(controller)
    except OSError:
        return []
    return [
        place
        for hierarchy in hierarchies
        for place in (Path(hierarchy.own), *Path(hierarchy.own).parents)
        if place.is_relative_to(hierarchy.mount)
    ]


def _number(path: Path) -> int:
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else _UNLIMITED


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
