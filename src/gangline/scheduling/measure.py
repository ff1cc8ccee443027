"""Amounts as queues count them: vectors over the resources that shares and limits are about."""

from collections.abc import Mapping, Sequence

import numpy as np

from gangline.model import Resources
from gangline.scheduling.draft import MANY
from gangline.scheduling.table import FIXED_COLUMNS, GPU, Ints, NodeTable

COUNTED = ("cpu_millis", "memory_mib", "gpu_millis")
"""Every queue is measured in these and in extended resources; ``gpu_millis.TYPE`` counts the GPUs of one type."""


class Measure:
    """Turns amounts and placements into vectors over the counted resources of one table."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.gpu_types = table.gpu_type.ids
        extended = table.columns[len(FIXED_COLUMNS) :]
        self.names = (*COUNTED, *extended, *(f"gpu_millis.{name}" for name in table.gpu_type.names))
        self.typed = slice(len(COUNTED) + len(extended), len(self.names))
        capacity = table.capacity[table.usable]
        per_type = [capacity[table.gpu_type.ids[table.usable] == number, GPU].sum() for number in self._types()]
        self._columns = [table.columns.index(name) for name in (*COUNTED, *extended)]
        self.total: Ints = np.array([*capacity[:, self._columns].sum(axis=0), *per_type], dtype=np.int64)

    def _types(self) -> range:
        return range(len(self._table.gpu_type.names))

    def of_amounts(self, amounts: Mapping[str, int]) -> Ints:
        """A vector without regard to GPU types, for example of a gang that has no place yet."""
        return np.array([amounts.get(name, 0) for name in self.names], dtype=np.int64)

    def of_limit(self, limit: Resources | None) -> Ints:
        """A ceiling; what it does not mention is unlimited, and zero of a named one means none."""
        if limit is None:
            return np.full(len(self.names), MANY, dtype=np.int64)
        amounts = limit.amounts()
        return np.array([amounts.get(name, MANY) for name in self.names], dtype=np.int64)

    def of_count(self, row: Ints, count: int) -> Ints:
        """What that many replicas use, GPU types aside."""
        used = np.zeros(len(self.names), dtype=np.int64)
        used[: self.typed.start] = row[self._columns] * count
        return used

    def of_rows(self, row: Ints, rows: Sequence[int] | Ints) -> Ints:
        """What replicas that each take ``row`` use on these nodes."""
        used = self.of_count(row, len(rows))
        if row[GPU] and len(rows):
            types = self._table.gpu_type.ids[np.asarray(rows, dtype=np.int64)]
            used[self.typed] = row[GPU] * np.bincount(types[types >= 0], minlength=len(self._types()))
        return used
