"""Nodes as arrays: everything about the machines that does not change while gangs come and go.

Built once per set of nodes and reused from cycle to cycle. Labels, taints, GPU types and topology domains are
interned, so that a condition over all nodes is one comparison of arrays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gangline.model import Node, NodeName, Taint
from gangline.model.resources import GPU_MEMORY
from gangline.scheduling.demand.shapes import GPU_MILLIS

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

CPU, MEMORY, GPU, PODS, WHOLE_GPUS = range(5)
FIXED_COLUMNS = ("cpu_millis", "memory_mib", "gpu_millis", "pods", "whole_gpus")
"""The columns every table has; extended resources follow. ``whole_gpus`` counts GPUs that nobody shares."""

ABSENT = -1
"""The interned id of a label or domain that a node does not have."""


@dataclass(frozen=True, slots=True)
class Interned:
    """One string per node as an array of small numbers."""

    ids: Ints
    names: tuple[str, ...]

    def equal_to(self, name: str) -> Bools:
        """Which nodes carry this string."""
        if name not in self.names:
            return np.zeros(len(self.ids), dtype=np.bool_)
        return np.asarray(self.ids == self.names.index(name))


def intern(values: Sequence[str | None]) -> Interned:
    """Number the distinct strings in alphabetical order."""
    names = tuple(sorted({value for value in values if value is not None}))
    numbers = {name: number for number, name in enumerate(names)}
    ids = np.fromiter((ABSENT if value is None else numbers[value] for value in values), np.int64, len(values))
    return Interned(ids, names)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """The machines. Row ``i`` of every array is ``nodes[i]``; rows are sorted by node name.

    ``source`` is the sequence it was built from, kept to recognise it. ``capacity`` is what Gangline may hand out:
    the node's own capacity less what others use of it.
    """

    source: Sequence[Node]
    nodes: tuple[Node, ...]
    names: tuple[NodeName, ...]
    rows: Mapping[NodeName, int]
    columns: tuple[str, ...]
    capacity: Ints
    ready: Bools
    cordoned: Bools
    gpu_type: Interned
    shares_gpus: Bools
    gpu_memory: Ints
    """The memory of each GPU of a node in MiB; 0 where it is not known."""
    _labels: dict[str, Interned] = field(default_factory=dict)
    _levels: dict[str, Interned] = field(default_factory=dict)
    _taints: list[Sequence[tuple[Taint, Bools]]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def usable(self) -> Bools:
        """Nodes that may receive something new."""
        return self.ready & ~self.cordoned

    def label(self, key: str) -> Interned:
        """The values of one label; interned the first time somebody asks."""
        if key not in self._labels:
            self._labels[key] = intern([node.labels.get(key) for node in self.nodes])
        return self._labels[key]

    def level(self, name: str) -> Interned:
        """The domains of one topology level. The level ``node`` always exists: every node is its own domain.

        A name that is not a level of a node is looked up among its labels: any label divides nodes into domains.
        """
        if name not in self._levels:
            if name == "node":
                self._levels[name] = intern(list(self.names))
            else:
                self._levels[name] = intern([node.topology.get(name, node.labels.get(name)) for node in self.nodes])
        return self._levels[name]

    def charge_of(self, memory_mib: int) -> int:
        """What queues count for an amount of GPU memory, in thousandths of the GPU that has most."""
        most = int(self.gpu_memory.max(initial=0))
        return -(-GPU_MILLIS * memory_mib // most) if most else 0

    def taints(self) -> Sequence[tuple[Taint, Bools]]:
        """Every distinct taint that keeps replicas away, with the nodes that carry it."""
        if not self._taints:
            carriers: dict[Taint, list[int]] = {}
            for row, node in enumerate(self.nodes):
                for taint in node.taints:
                    if taint.effect != "PreferNoSchedule":
                        carriers.setdefault(taint, []).append(row)
            self._taints.append(tuple((taint, self._mask(rows)) for taint, rows in carriers.items()))
        return self._taints[0]

    def _mask(self, rows: Sequence[int]) -> Bools:
        mask = np.zeros(len(self.nodes), dtype=np.bool_)
        mask[rows] = True
        return mask

    def vector(self, amounts: Mapping[str, int]) -> Ints:
        """Amounts by name as one row of the table; names that no node knows are left out."""
        row = np.zeros(len(self.columns), dtype=np.int64)
        for column, name in enumerate(self.columns):
            row[column] = amounts.get(name, 0)
        return row


def table_of(nodes: Sequence[Node]) -> NodeTable:
    """Lay the nodes out as arrays."""
    ordered = tuple(sorted(nodes, key=lambda node: node.name))
    extended = sorted({name for node in ordered for name in node.capacity.extended})
    # Only for quotas: whether a replica that asks for GPU memory has room is a matter of devices.
    memory = (GPU_MEMORY,) if any(node.gpu_memory_mib for node in ordered) else ()
    columns = (*FIXED_COLUMNS, *extended, *memory)
    capacity = np.array([_capacity_row(node, columns) for node in ordered], dtype=np.int64)
    return NodeTable(
        source=nodes,
        nodes=ordered,
        names=tuple(node.name for node in ordered),
        rows={node.name: row for row, node in enumerate(ordered)},
        columns=columns,
        capacity=capacity.reshape(len(ordered), len(columns)),
        ready=np.fromiter((node.ready for node in ordered), np.bool_, len(ordered)),
        cordoned=np.fromiter((node.cordoned for node in ordered), np.bool_, len(ordered)),
        gpu_type=intern([node.gpu_type for node in ordered]),
        shares_gpus=np.fromiter((node.shares_gpus for node in ordered), np.bool_, len(ordered)),
        gpu_memory=np.fromiter((node.gpu_memory_mib for node in ordered), np.int64, len(ordered)),
    )


def _capacity_row(node: Node, columns: Sequence[str]) -> list[int]:
    # A GPU that others use in part is lost to us whole: nobody can say which part of it is free.
    own, foreign = node.capacity, node.foreign
    whole = max(own.gpu_millis // GPU_MILLIS - -(-foreign.gpu_millis // GPU_MILLIS), 0)
    left = {name: max(amount - foreign.amounts().get(name, 0), 0) for name, amount in own.amounts().items()}
    left[GPU_MEMORY] = whole * node.gpu_memory_mib
    left |= {"gpu_millis": whole * GPU_MILLIS, "whole_gpus": whole, "pods": max(node.pods - node.foreign_pods, 0)}
    return [left.get(column, 0) for column in columns]
