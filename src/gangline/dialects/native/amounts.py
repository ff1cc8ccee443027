"""Resources in a job file: cpu, memory and gpu with their units, extended names, and T-shirt sizes."""

from collections.abc import Mapping

from gangline.dialects import quantities
from gangline.dialects.native import fields
from gangline.dialects.value import Value
from gangline.model import Resources

DEFAULT_CPU_MILLIS = 1000

GPU_NAMES = ("gpu", "nvidia.com/gpu", "amd.com/gpu")
"""The same thing under its short name and under the names device plugins give it."""

MIG_PREFIX, MIG_MAKER = "mig-", "nvidia.com/"
"""A slice of a GPU is a device of its own: ``mig-1g.5gb`` is short for the name that its device plugin gives it."""

_SIZE_TABLE = {
    # name: (gpus, cpus, memory in GiB)
    "1-k80": (1, 4, 24),
    "2-k80": (2, 8, 48),
    "4-k80": (4, 16, 96),
    "1-p100": (1, 8, 24),
    "2-p100": (2, 16, 48),
    "1-v100": (1, 26, 24),
    "2-v100": (2, 42, 48),
}

SIZES: Mapping[str, Resources] = {
    name: Resources(cpu_millis=cpus * 1000, memory_mib=gib * 1024, gpu_millis=gpus * 1000)
    for name, (gpus, cpus, gib) in _SIZE_TABLE.items()
}
"""The built-in T-shirt sizes. The name counts the GPUs; ``placement.gpu_type`` is what insists on their type."""


def read_resources(given: Mapping[str, Value], sizes: Mapping[str, Resources]) -> Resources | None:
    """Read ``size`` and ``resources`` of a role or of the spec; None when it has neither.

    ``resources`` adds to and replaces what ``size`` says. What neither says is 1 CPU and no limit of memory.
    """
    if "size" not in given and "resources" not in given:
        return None
    known = {**SIZES, **sizes}
    start = Resources(cpu_millis=DEFAULT_CPU_MILLIS)
    if "size" in given:
        start = known[_size_name(given["size"], known)]
    return _amounts(given["resources"], start) if "resources" in given else start


def _size_name(value: Value, known: Mapping[str, Resources]) -> str:
    if value.text() not in known:
        raise value.unknown("size", value.text(), known)
    return value.text()


def _amounts(value: Value, start: Resources) -> Resources:
    cpu, memory, gpu, extended = start.cpu_millis, start.memory_mib, start.gpu_millis, dict(start.extended)
    gpu_memory = start.gpu_memory_mib
    for name, amount in value.fields().items():
        if name == "cpu":
            cpu = amount.converted(quantities.cpu_millis, quantities.CPU_FORM)
        elif name == "memory":
            memory = amount.converted(_memory, quantities.MEMORY_FORM)
        elif name in GPU_NAMES:
            gpu = amount.converted(quantities.gpu_millis, quantities.GPU_FORM)
        elif name == "gpu_memory":
            gpu_memory = amount.converted(_memory, quantities.MEMORY_FORM)
        elif "/" in name or name.startswith(MIG_PREFIX):
            full = f"{MIG_MAKER}{name}" if name.startswith(MIG_PREFIX) else name
            extended[full] = amount.converted(quantities.count, quantities.COUNT_FORM)
        else:
            raise value.unknown("resource", name, (*fields.RESOURCES, "vendor.example/name"), below=f".{name}")
    return Resources(cpu_millis=cpu, memory_mib=memory, gpu_millis=gpu, extended=extended, gpu_memory_mib=gpu_memory)


def _memory(amount: str | int | float) -> int:
    mib = quantities.memory_mib(amount)
    if 0 < quantities.quantity(amount) < 1024 * 1024:
        # "memory: 4" is read as bytes by Kubernetes; nobody has ever meant that.
        raise ValueError("is less than 1 MiB: the unit is missing")
    return mib


def resources_to_plain(resources: Resources) -> dict[str, object]:
    """Write resources so that ``read_resources`` returns them again."""
    plain: dict[str, object] = {"cpu": quantities.cpu_text(resources.cpu_millis)}
    if resources.memory_mib:
        plain["memory"] = quantities.memory_text(resources.memory_mib)
    if resources.gpu_millis:
        plain["gpu"] = quantities.gpu_text(resources.gpu_millis)
    if resources.gpu_memory_mib:
        plain["gpu_memory"] = quantities.memory_text(resources.gpu_memory_mib)
    return plain | dict(resources.extended)
