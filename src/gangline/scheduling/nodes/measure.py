"""Amounts as queues count them: vectors over the resources that shares and limits are about."""

from collections.abc import Mapping, Sequence

import numpy as np

from gangline.model import NamedAmounts, Resources
from gangline.model.resources import GPU_MEMORY, TYPED_GPU
from gangline.scheduling.nodes.draft import MANY
from gangline.scheduling.nodes.table import FIXED_COLUMNS, GPU, Ints, NodeTable

COUNTED = ("cpu_millis", "memory_mib", "gpu_millis")
"""Every queue is measured in these and in extended resources; ``gpu_millis.TYPE`` counts the GPUs of one type."""


class Measure:
    """Turns amounts and placements into vectors over the counted resources of one table."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.gpu_types = table.gpu_type.ids
        extended = tuple(name for name in table.columns[len(FIXED_COLUMNS) :] if name != GPU_MEMORY)
        self.names = (*COUNTED, *extended, *(TYPED_GPU + name for name in table.gpu_type.names))
        self.typed = slice(len(COUNTED) + len(extended), len(self.names))
        capacity = table.capacity[table.usable]
        per_type = [capacity[table.gpu_type.ids[table.usable] == number, GPU].sum() for number in self._types()]
        self._memory = table.columns.index(GPU_MEMORY) if GPU_MEMORY in table.columns else None
        self._columns = [table.columns.index(name) for name in (*COUNTED, *extended)]
        self.total: Ints = np.array([*capacity[:, self._columns].sum(axis=0), *per_type], dtype=np.int64)

    def _types(self) -> range:
        return range(len(self._table.gpu_type.names))

    def of_amounts(self, amounts: Mapping[str, int]) -> Ints:
        """A vector without regard to GPU types, for example of a gang that has no place yet."""
        vector = np.array([amounts.get(name, 0) for name in self.names], dtype=np.int64)
        if GPU_MEMORY in amounts:
            vector[COUNTED.index("gpu_millis")] += self._table.charge_of(amounts[GPU_MEMORY])
        return vector

    def of_limit(self, limit: NamedAmounts | None) -> Ints:
        """A ceiling; what it does not mention is unlimited, and zero of a named one means none."""
        if limit is None:
            return np.full(len(self.names), MANY, dtype=np.int64)
        return np.array([limit.amounts.get(name, MANY) for name in self.names], dtype=np.int64)

    def of_guarantee(self, guarantee: Resources) -> Ints:
        """What a queue is promised: as many GPUs as it is promised of all types together, at least."""
        amounts = self.of_amounts(guarantee.amounts())
        amounts[GPU] = max(amounts[GPU], amounts[self.typed].sum())
        return amounts

    def of_type(self, amounts: Ints, number: int) -> Ints:
        """The same amounts, with all GPUs of one type."""
        typed = amounts.copy()
        typed[self.typed.start + number] = amounts[GPU]
        return typed

    def of_count(self, row: Ints, count: int) -> Ints:
        """What that many replicas use, GPU types aside."""
        used = np.zeros(len(self.names), dtype=np.int64)
        used[: self.typed.start] = row[self._columns] * count
        if self._memory is not None and row[self._memory]:
            used[COUNTED.index("gpu_millis")] += self._table.charge_of(int(row[self._memory]) * count)
        return used

    def of_free(self, free: Ints) -> Ints:
        """What nodes with these free amounts have together, GPU types aside."""
        total = np.zeros(len(self.names), dtype=np.int64)
        total[: self.typed.start] = np.maximum(free[:, self._columns], 0).sum(axis=0)
        return total

    def of_rows(self, row: Ints, rows: Sequence[int] | Ints) -> Ints:
        """What replicas that each take ``row`` use on these nodes."""
        used = self.of_count(row, len(rows))
        if row[GPU] and len(rows):
            types = self._table.gpu_type.ids[np.asarray(rows, dtype=np.int64)]
            used[self.typed] = row[GPU] * np.bincount(types[types >= 0], minlength=len(self._types()))
        return used
