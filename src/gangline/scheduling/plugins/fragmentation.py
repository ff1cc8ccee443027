"""Prefers the node where a placement strands the least GPU capacity.

The idea is the fragmentation gradient (Weng et al., ATC'23): for every kind of replica that usually arrives, ask
how much of a node's free GPU capacity that kind could not use; average over the kinds by how often they arrive.
The score of a node is how much that average grows when the replica is put there.

One thing is added to the published idea: free GPUs that the free processors of their node can no longer feed. The
average sees them only once no kind of replica fits any more, which is too late to steer around.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from gangline.scheduling.demand.shapes import GPU_MILLIS, Shape
from gangline.scheduling.nodes.devices import CLOSED
from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.nodes.table import CPU, MEMORY, WHOLE_GPUS, Bools, Floats, Ints, NodeTable

TYPICAL: tuple[tuple[Shape, float], ...] = tuple(
    (
        Shape(amounts=(("cpu_millis", 4 * gpu_millis), ("gpu_millis", gpu_millis), ("memory_mib", 8 * gpu_millis))),
        weight,
    )
    for gpu_millis, weight in ((500, 0.2), (1000, 0.45), (2000, 0.1), (4000, 0.1), (8000, 0.15))
)
"""What is assumed to arrive when nobody says: mostly single GPUs, some halves, some whole nodes."""


STARVATION_WEIGHT = 0.2
"""What a GPU without processors counts against one that is stranded."""

TIE_WEIGHT = 1e-3
"""Between nodes that are equally good, the fuller one."""

WORTH_SORTING = 256
"""Below this many rows it is quicker to judge each than to find out which are alike."""


class FragmentationGradient:
    """Scores nodes by the growth of expected fragmentation, over the shapes that have been seen.

    Where nothing has been seen yet, typical shapes stand in for them.
    """

    def __init__(self, workload: Iterable[tuple[Shape, float]] = TYPICAL) -> None:
        shapes = [(shape, weight) for shape, weight in workload if weight > 0]
        total = sum(weight for _, weight in shapes)
        self._shapes = [shape for shape, _ in shapes]
        self._weights: Floats = np.array([weight / total for _, weight in shapes])
        self._cpu: Ints = np.array([shape.amount("cpu_millis") for shape in self._shapes])
        self._memory: Ints = np.array([shape.amount("memory_mib") for shape in self._shapes])
        self._whole: Ints = np.array([shape.whole_gpus for shape in self._shapes])
        self._part: Ints = np.array([shape.gpu_part for shape in self._shapes])
        parts, self._part_numbers = np.unique(self._part, return_inverse=True)
        self._bounds: Ints = np.where(parts > 0, parts, GPU_MILLIS)
        gpu_millis = float((self._whole * GPU_MILLIS + self._part) @ self._weights)
        busy = self._whole + self._part > 0
        self._cpu_per_gpu = float(self._cpu[busy] @ self._weights[busy]) / max(gpu_millis, 1.0)
        self._table: NodeTable | None = None
        self._typed: Bools = np.zeros((0, 0), dtype=np.bool_)

    def taught(self, seen: Mapping[Shape, float]) -> "FragmentationGradient":
        """The same over these shapes."""
        return FragmentationGradient(seen.items())

    def score(self, draft: Draft, need: Need, rows: Ints) -> Floats:
        """How much more GPU capacity, in thousandths, would be stranded."""
        state = np.empty((len(rows), 4), dtype=np.int64)
        state[:, :3] = draft.free[rows][:, [CPU, MEMORY, WHOLE_GPUS]]
        state[:, 3] = self._types(draft, rows)
        slots = draft.shared[rows]
        if len(rows) < WORTH_SORTING:
            return self._gradient(need, state, slots)
        # Many nodes are in the same state, above all while a cluster is empty: each state is judged once.
        distinct, where = np.unique(np.hstack([state, slots]), axis=0, return_inverse=True)
        return self._gradient(need, distinct[:, :4], distinct[:, 4:])[where.reshape(-1)]

    def _gradient(self, need: Need, state: Ints, slots: Ints) -> Floats:
        after, after_slots = _with_one_more(need, state, slots)
        both = self._fragmentation(np.vstack([after, state]), np.vstack([after_slots, slots]))
        growth = np.round(both[: len(state)] - both[len(state) :], 4)
        return np.asarray(growth + TIE_WEIGHT * _free_gpus(state, slots))

    def _types(self, draft: Draft, rows: Ints) -> Ints:
        """The GPU type of every row; also remembers which typical shapes each type suits."""
        if self._table is not draft.table:
            self._table = draft.table
            names = (*draft.table.gpu_type.names, "")
            self._typed = np.array(
                [[not shape.gpu_types or name in shape.gpu_types for shape in self._shapes] for name in names]
            )
        return draft.table.gpu_type.ids[rows]

    def _fragmentation(self, state: Ints, slots: Ints) -> Floats:
        """Expected GPU capacity that an arriving replica could not use, for each state."""
        levels = np.maximum(slots, 0)
        whole = state[:, 2]
        free = levels.sum(axis=1) + whole * GPU_MILLIS
        roomy = (whole[:, None] > self._whole) | (
            (whole[:, None] >= self._whole)
            & ((self._part == 0) | (levels.max(axis=1, initial=0)[:, None] >= self._part))
        )
        runs = (
            roomy
            & (state[:, 0, None] >= self._cpu)
            & (state[:, 1, None] >= self._memory)
            & self._typed[state[:, 3]]
            & (self._whole + self._part > 0)
        )
        # Whole GPUs cannot use any GPU that is shared; a part cannot use those with less than it left.
        small = (levels[:, :, None] * (levels[:, :, None] < self._bounds)).sum(axis=1)
        stranded = np.where(runs, small[:, self._part_numbers], free[:, None])
        starved = np.maximum(free - state[:, 0] / max(self._cpu_per_gpu, 1e-9), 0.0)
        return np.asarray(stranded @ self._weights + STARVATION_WEIGHT * starved)


def _free_gpus(state: Ints, slots: Ints) -> Floats:
    return np.asarray(state[:, 2] + np.maximum(slots, 0).sum(axis=1) / GPU_MILLIS)


def _with_one_more(need: Need, state: Ints, slots: Ints) -> tuple[Ints, Ints]:
    """The states once one more replica is there, its part on the fullest shared GPU that has room."""
    after = state.copy()
    after[:, 0] -= need.row[CPU]
    after[:, 1] -= need.row[MEMORY]
    after[:, 2] -= need.row[WHOLE_GPUS]
    if not need.part:
        return after, slots
    after_slots = slots.copy()
    fitting = np.where(slots >= need.part, slots, np.iinfo(np.int64).max)
    best = fitting.argmin(axis=1)
    lines = np.arange(len(slots))
    opened = slots[lines, best] < need.part
    empty = (slots == CLOSED).argmax(axis=1)
    after[:, 2] -= opened
    after_slots[lines, best] -= np.where(opened, 0, need.part)
    after_slots[lines[opened], empty[opened]] = GPU_MILLIS - need.part
    return after, after_slots
