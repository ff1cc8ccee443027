"""Reads the openb trace (Alibaba, 2023): nodes, and pods that share GPUs.

The published experiments place its pods one by one and let none leave, so a pod can be read as a mere shape; it can
also be read as a job of one replica that runs for as long as the pod did.
"""

from collections.abc import Iterator
from pathlib import Path

from gangline.model import (
    JobSpec,
    Node,
    NodeName,
    PlacementRule,
    Policy,
    Resources,
    RoleName,
    RoleSpec,
    Timestamp,
)
from gangline.scheduling.demand.shapes import Shape
from gangline.simulator.traces.arrival import Arrival
from gangline.simulator.traces.rows import Row, read_each, read_rows


def read_openb_nodes(path: Path) -> Iterator[Node]:
    """Read the node list."""
    for row in read_rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        yield Node(
            name=NodeName(row.text("sn")),
            capacity=Resources(
                cpu_millis=row.whole("cpu_milli"),
                memory_mib=row.whole("memory_mib"),
                gpu_millis=1000 * row.whole("gpu"),
            ),
            gpu_type=row.text("model") or None,
            pods=1000,
        )


def read_openb_pods(path: Path) -> Iterator[Shape]:
    """Read the pod list in the order of the file."""
    for row in read_rows(path, _POD_COLUMNS):
        amounts = _resources(row).amounts()
        yield Shape(
            amounts=tuple(sorted((name, amount) for name, amount in amounts.items() if amount)),
            gpu_types=_gpu_types(row),
        )


def read_openb_jobs(path: Path) -> Iterator[Arrival]:
    """Read the pod list as jobs; a pod that was never scheduled is taken to need its whole life.

    Lists without times are read as the published experiments use them: one pod a second, and none leaves before the
    last has come.
    """
    count = sum(1 for _ in read_rows(path, _POD_COLUMNS))
    return read_each(path, (*_POD_COLUMNS, "name"), lambda row: _arrival(row, count))


def _arrival(row: Row, count: int) -> Arrival:
    at, seconds = float(row.line - 2), float(count)
    if row.text("creation_time"):
        at = row.number("creation_time")
        begun = row.number("scheduled_time") if row.text("scheduled_time") else at
        seconds = max(row.number("deletion_time") - begun, 0.0)
    role = RoleSpec(name=RoleName("worker"), command=("train",), resources=_resources(row))
    return Arrival(
        at=Timestamp(at),
        seconds=seconds,
        spec=JobSpec(
            name=row.text("name"),
            roles=(role,),
            policy=Policy(expected_seconds=seconds),
            placement=PlacementRule(gpu_types=_gpu_types(row)),
        ),
    )


_POD_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


def _resources(row: Row) -> Resources:
    return Resources(
        cpu_millis=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
        gpu_millis=row.whole("num_gpu") * row.whole("gpu_milli"),
    )


def _gpu_types(row: Row) -> tuple[str, ...]:
    return tuple(name for name in row.text("gpu_spec").split("|") if name)
