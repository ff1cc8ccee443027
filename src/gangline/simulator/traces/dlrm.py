"""Reads the DLRM trace (Alibaba, 2025): instances of recommendation services, with and without a GPU, as jobs.

What was there before the trace begins arrives at its beginning; what outlives it runs to its end. Shares of network
cards, disks and the most instances of an application on one node are not read.
"""

from collections.abc import Iterator
from pathlib import Path

from gangline.model import JobSpec, Node, NodeName, Policy, Resources, RoleName, RoleSpec, Timestamp
from gangline.simulator.traces.arrival import Arrival
from gangline.simulator.traces.rows import Row, read_each, read_rows

_COLUMNS = ("instance_sn", "cpu_request", "gpu_request", "memory_request", "creation_time", "deletion_time")


def read_dlrm(path: Path) -> Iterator[Arrival]:
    """Read every instance in the order of the file."""
    end = max((row.number("deletion_time") for row in read_rows(path, _COLUMNS)), default=0.0)
    return read_each(path, _COLUMNS, lambda row: _arrival(row, end))


def dlrm_nodes() -> list[Node]:
    """Machines with a tenth more than is ever asked for at once; the real ones were not published."""
    kinds = (("gpu", 470, 8), ("cpu", 1950, 0))
    return [
        Node(
            name=NodeName(f"{kind}-{number:04d}"),
            capacity=Resources(cpu_millis=192_000, memory_mib=1024 * 1024, gpu_millis=1000 * gpus),
        )
        for kind, count, gpus in kinds
        for number in range(count)
    ]


def _arrival(row: Row, end: float) -> Arrival:
    begun = row.number("creation_time")
    seconds = max((row.number("deletion_time") or end) - begun, 0.0)
    resources = Resources(
        cpu_millis=round(1000 * row.number("cpu_request")),
        memory_mib=round(1024 * row.number("memory_request")),
        gpu_millis=round(1000 * row.number("gpu_request")),
    )
    role = RoleSpec(name=RoleName("worker"), command=("serve",), resources=resources)
    name = row.text("instance_sn").replace("_", "-")
    spec = JobSpec(name=name, roles=(role,), policy=Policy(expected_seconds=seconds))
    return Arrival(at=Timestamp(begun), spec=spec, seconds=seconds)
