"""Which of several nodes that have room is taken first: the one preferred, and then the fullest or the emptiest."""

from collections.abc import Mapping, Sequence

import numpy as np

from gangline.scheduling.demand.shapes import Shape
from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.nodes.table import CPU, GPU, MEMORY, PODS, Floats, Ints, NodeTable
from gangline.scheduling.plugins.filters import holds
from gangline.scheduling.plugins.fragmentation import FragmentationGradient
from gangline.scheduling.plugins.interface import Score

_GPUS_LAST = 1e6
"""More than any node has pods."""


class Pack:
    """Prefers the node with the fewest free GPUs, then with the least free processor and memory.

    Replicas without a GPU thereby fill nodes without (free) GPUs first and leave the others to those who need them.
    Where replicas share GPUs or are choosy about their type, tight packing strands what others need: there it is the
    node where a replica strands least, for the replicas that have been seen.
    """

    def taught(self, seen: Mapping[Shape, float]) -> Score:
        """The fragmentation gradient, if anybody shares GPUs or names their type."""
        if any(shape.gpu_part or shape.gpu_types for shape in seen):
            return FragmentationGradient(seen.items())
        return self

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
