"""Which CPUs and which GPUs a replica gets, given what others were given. Pure."""

from collections import Counter
from collections.abc import Iterable

from gangline.engines.local.nodes.machine import LocalNode
from gangline.engines.local.wire import ReplicaOrder
from gangline.errors import EngineError
from gangline.model import Resources
from gangline.model.resources import part_of_gpu

WHOLE_DEVICE = 1000


class NoFreeGpuError(EngineError):
    """Others have the GPUs that a replica was to get."""


class Allocation:
    """What is given out on every node, by the orders that are in force.

    ``offset`` says with which of equally free CPUs to begin. Gangs differ in it, so that several engines on one
    machine, which do not know of each other, do not all crowd onto the first. ``closed`` are GPUs that nobody gets.
    """

    def __init__(self, orders: Iterable[ReplicaOrder], *, offset: int = 0, closed: Iterable[str] = ()) -> None:
        self._offset = offset
        self._cpu_millis: Counter[int] = Counter()
        self._gpu_millis: Counter[str] = Counter(dict.fromkeys(closed, WHOLE_DEVICE))
        self._shared: dict[tuple[str, int], str] = {}
        """The device that stands for a slot of a node, as long as anybody is in it."""
        for order in orders:
            self._note(order.cpus, order.cpu_millis, order.gpu_millis)
            self._bind(order.node, order.gpu_slot, order.gpu_millis)

    def choose(
        self, node: LocalNode, wanted: Resources, gpu_slot: int | None = None
    ) -> tuple[list[int], dict[str, int]]:
        """Choose CPUs and GPUs for one replica and count them as given. Raises NoFreeGpuError if GPUs are missing.

        ``gpu_slot`` is where the scheduler has put its part of a GPU: beside those of the same number, and nobody else.
        """
        cpus = self._choose_cpus(node, wanted.cpu_millis)
        gpus = self._choose_gpus(node, _gpu_millis(node, wanted), gpu_slot) | self._choose_slices(node, wanted)
        self._note(cpus, wanted.cpu_millis, gpus)
        self._bind(node.node.name, gpu_slot, gpus)
        return cpus, gpus

    def regain(self, order: ReplicaOrder) -> bool:
        """Give a replica that starts again what it had before; False, and nothing, if others have its GPUs by now."""
        bound = {self._shared.get((order.node, order.gpu_slot))} if order.gpu_slot is not None else set()
        moved = any(device is not None and device not in order.gpu_millis for device in bound)
        if moved or any(self._room(device) < millis for device, millis in order.gpu_millis.items()):
            return False
        self._note(order.cpus, order.cpu_millis, order.gpu_millis)
        self._bind(order.node, order.gpu_slot, order.gpu_millis)
        return True

    def _choose_cpus(self, node: LocalNode, millis: int) -> list[int]:
        """The least loaded CPUs, as many as the amount rounded up; without an amount, all of the node's."""
        count = min(-(-millis // 1000), len(node.cpus)) or len(node.cpus)
        begin = self._offset % len(node.cpus)
        turned = (*node.cpus[begin:], *node.cpus[:begin])
        return sorted(sorted(turned, key=lambda cpu: self._cpu_millis[cpu])[:count])

    def _choose_gpus(self, node: LocalNode, millis: int, slot: int | None) -> dict[str, int]:
        """Whole devices are exclusive. A fraction goes where its slot is, else to the fullest device with room."""
        whole, fraction = divmod(millis, WHOLE_DEVICE)
        ids = [device.id for device in node.devices if device.profile is None]
        free = [device for device in ids if not self._gpu_millis[device]]
        if len(free) < whole:
            raise NoFreeGpuError(f"{whole} free GPUs are needed on {node.node.name}, {len(free)} are there")
        chosen = dict.fromkeys(free[:whole], WHOLE_DEVICE)
        if fraction:
            possible = [device for device in ids if device not in chosen]
            if slot is not None:
                own = self._shared.get((node.node.name, slot))
                possible = [own] if own else [device for device in possible if device in free]
            roomy = [device for device in possible if self._room(device) >= fraction]
            if not roomy:
                raise NoFreeGpuError(
                    f"{fraction / WHOLE_DEVICE:g} of a GPU is needed on {node.node.name}, none has room"
                )
            chosen[min(roomy, key=self._room)] = fraction
        return chosen

    def _choose_slices(self, node: LocalNode, wanted: Resources) -> dict[str, int]:
        """Slices of GPUs of the sizes that are asked for, each of which is exclusive."""
        chosen: dict[str, int] = {}
        for name, count in wanted.extended.items():
            alike = [device.id for device in node.devices if device.resource == name]
            free = [device for device in alike if not self._gpu_millis[device]]
            if alike and len(free) < count:
                raise NoFreeGpuError(f"{count} free {name} are needed on {node.node.name}, {len(free)} are there")
            chosen |= dict.fromkeys(free[:count], WHOLE_DEVICE)
        return chosen

    def _room(self, device: str) -> int:
        return WHOLE_DEVICE - self._gpu_millis[device]

    def _bind(self, node: str, slot: int | None, gpu_millis: dict[str, int]) -> None:
        if slot is not None:
            shared = (device for device, millis in gpu_millis.items() if millis < WHOLE_DEVICE)
            self._shared.update(((node, slot), device) for device in shared)

    def _note(self, cpus: list[int], cpu_millis: int, gpu_millis: dict[str, int]) -> None:
        for cpu in cpus:
            self._cpu_millis[cpu] += cpu_millis // len(cpus)
        self._gpu_millis.update(gpu_millis)


def _gpu_millis(node: LocalNode, wanted: Resources) -> int:
    """Thousandths of GPUs; of a replica that asks for memory alone, as the scheduler counts them."""
    if wanted.gpu_millis or not wanted.gpu_memory_mib:
        return wanted.gpu_millis
    return part_of_gpu(wanted.gpu_memory_mib, node.node.gpu_memory_mib)
