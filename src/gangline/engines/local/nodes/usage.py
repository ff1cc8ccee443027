"""Measuring what replicas and nodes use now, from control groups, /proc and nvidia-smi."""

import os
from collections.abc import Sequence
from pathlib import Path

from gangline.engines.local.keeper.system import cgroups, processes
from gangline.engines.local.nodes.devices import find_devices
from gangline.engines.local.nodes.machine import LocalNode
from gangline.engines.local.wire import ReplicaOrder
from gangline.model import Clock, GangId, NodeName, NodeUsage, ReplicaId, ReplicaUsage, Resources, Usage

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

Running = tuple[GangId, ReplicaOrder, int, str | None]
"""A running replica: its gang, its order, its first process and its control group."""


class UsageMeter:
    """Turns counters into rates: each answer covers the time since the one before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before: dict[object, tuple[float, float]] = {}

    def measure(self, nodes: Sequence[LocalNode], running: Sequence[Running]) -> Usage:
        """Measure everything. The first answer after a start has no rates yet: zero."""
        now = self._clock.now()
        counters: dict[object, float] = {}
        replicas = []
        for gang_id, order, pid, group in running:
            seconds, memory = _processes_use(pid, group)
            counters[(gang_id, order.name)] = seconds
            replicas.append(
                ReplicaUsage(
                    job_id=gang_id.job_id,
                    replica=ReplicaId.parse(order.name),
                    node=NodeName(order.node),
                    cpu_millis=self._rate((gang_id, order.name), now, seconds),
                    memory_mib=memory >> 20,
                    gpus=tuple(order.gpu_millis),
                )
            )
        busy = _busy_seconds()
        rates = {cpu: self._rate(cpu, now, seconds) for cpu, seconds in busy.items()}
        self._before = {key: (now, seconds) for key, seconds in (*counters.items(), *busy.items())}
        return Usage(nodes=_node_usage(nodes, replicas, rates), replicas=tuple(replicas))

    def _rate(self, key: object, now: float, seconds: float) -> int:
        before, then = self._before.get(key, (now, seconds))
        return round(max(0.0, seconds - then) / (now - before) * 1000) if now > before else 0


def _node_usage(
    nodes: Sequence[LocalNode], replicas: Sequence[ReplicaUsage], cpu_rates: dict[int, int]
) -> tuple[NodeUsage, ...]:
    """What replicas use is counted on their node; the rest of the machine's memory is shared out evenly."""
    devices = {device.id: device for device in find_devices()} if any(node.devices for node in nodes) else {}
    rest = max(0, _memory_used_mib() - sum(replica.memory_mib for replica in replicas)) // len(nodes)
    answers = []
    for part in nodes:
        own = [replica for replica in replicas if replica.node == part.node.name]
        present = [devices[device.id] for device in part.devices if device.id in devices]
        used = Resources(
            cpu_millis=sum(cpu_rates.get(cpu, 0) for cpu in part.cpus),
            memory_mib=rest + sum(replica.memory_mib for replica in own),
        )
        answers.append(
            NodeUsage(
                node=part.node.name,
                used=used,
                gpu_percent={device.id: device.percent for device in present},
                gpu_memory_mib={device.id: device.used_mib for device in present},
            )
        )
    return tuple(answers)


def _processes_use(pid: int, group: str | None) -> tuple[float, int]:
    """Return CPU seconds and bytes of a replica: by its control group, else by the tree below its first process."""
    pids = cgroups.members(group) if group else []
    pids = pids or [pid, *processes.descendants(pid)]
    ticks = sum(_cpu_ticks(each) for each in pids)
    memory = cgroups.memory_bytes(group) if group else None
    return ticks / _TICKS, sum(_resident_bytes(each) for each in pids) if memory is None else memory


def cpu_seconds(pid: int, group: str | None) -> float:
    """Return the processor time that a replica has used."""
    return _processes_use(pid, group)[0]


def _cpu_ticks(pid: int) -> int:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15])


def _resident_bytes(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def _busy_seconds() -> dict[int, float]:
    """Return how long each CPU has worked: all its time but idle and waiting."""
    busy = {}
    for line in _read("/proc/stat").splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit():
            user, nice, system, _, _, interrupt, soft, *_ = (int(field) for field in fields)
            busy[int(name[3:])] = (user + nice + system + interrupt + soft) / _TICKS
    return busy


def _memory_used_mib() -> int:
    fields = {line.split(":")[0]: int(line.split()[1]) for line in _read("/proc/meminfo").splitlines()}
    return (fields["MemTotal"] - fields["MemAvailable"]) >> 10


def _read(path: str) -> str:
    """Return a file of /proc; a process that has just ended reads as nothing."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""
