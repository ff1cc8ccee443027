"""Which of several nodes that have room is taken first: the one preferred, and then the fullest or the emptiest."""

from collections.abc import Sequence

import numpy as np

from gangline.scheduling.draft import Draft, Need
from gangline.scheduling.plugins.filters import holds
from gangline.scheduling.shapes import Shape
from gangline.scheduling.table import CPU, GPU, MEMORY, PODS, Floats, Ints, NodeTable

_GPUS_LAST = 1e6
"""More than any node has pods."""


class Pack:
    """Prefers the node with the fewest free GPUs, then with the least free processor and memory.

    Replicas without a GPU thereby fill nodes without (free) GPUs first and leave the others to those who need them.
    """

    def score(self, draft: Draft, need: Need, rows: Ints) -> Floats:
        """Free GPUs, with free processor and memory as fractions behind the point."""
        del need
        return _free(draft, rows)

    def score_one(self, free: Sequence[int], capacity: Sequence[int]) -> float:
        """The same for one node, operation for operation, without arrays."""
        fraction = (free[CPU] / max(capacity[CPU], 1) + free[MEMORY] / max(capacity[MEMORY], 1)) / 2.0
        return free[GPU] / 1000.0 + fraction / 1000.0


class Spread:
    """Prefers the emptiest node: for replicas that ask for nothing, the one with room for most others."""

    def score(self, draft: Draft, need: Need, rows: Ints) -> Floats:
        """The opposite of packing; GPUs count only for replicas that need one."""
        if not need.shape.amounts:
            return np.asarray(_GPUS_LAST * (draft.table.capacity[rows, GPU] > 0) - draft.free[rows, PODS])
        if need.shape.gpu_millis:
            return -_free(draft, rows)
        return np.asarray(np.minimum(draft.table.capacity[rows, GPU], 1) - _fraction(draft, rows))


def dislikes(table: NodeTable, shape: Shape) -> Floats | None:
    """The weight of the preferences that each node does not meet; None for a shape without any."""
    if not shape.preferences:
        return None
    return np.asarray(sum(each.weight * ~holds(table, each.term) for each in shape.preferences), dtype=np.float64)


def _free(draft: Draft, rows: Ints) -> Floats:
    return np.asarray(draft.free[rows, GPU] / 1000.0 + _fraction(draft, rows) / 1000.0)


def _fraction(draft: Draft, rows: Ints) -> Floats:
    capacity = draft.table.capacity[rows]
    free = draft.free[rows]
    processor = free[:, CPU] / np.maximum(capacity[:, CPU], 1)
    memory = free[:, MEMORY] / np.maximum(capacity[:, MEMORY], 1)
    return np.asarray((processor + memory) / 2.0)
