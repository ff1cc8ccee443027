"""Reads the openb trace (Alibaba, 2023): nodes, and pods that share GPUs.

Its pods are placed one by one and never leave, so a pod is read as a shape, not as a job with a run time.
"""

from collections.abc import Iterator
from pathlib import Path

from gangline.model import Node, NodeName, Resources
from gangline.scheduling.shapes import Shape
from gangline.simulator.traces.rows import read_rows


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
    for row in read_rows(path, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")):
        amounts = {
            "cpu_millis": row.whole("cpu_milli"),
            "memory_mib": row.whole("memory_mib"),
            "gpu_millis": row.whole("num_gpu") * row.whole("gpu_milli"),
        }
        yield Shape(
            amounts=tuple(sorted((name, amount) for name, amount in amounts.items() if amount)),
            gpu_types=tuple(name for name in row.text("gpu_spec").split("|") if name),
        )
