"""What is free on every node, and a place to try things out: take, give back, throw away.

A draft is copied in microseconds, so a planner tries a gang in one and drops it when the gang does not fit
whole. The scheduling cycle owns the drafts; nobody else sees one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gangline.model.resources import GPU_MEMORY
from gangline.scheduling.demand.shapes import GPU_MILLIS, Shape
from gangline.scheduling.nodes.devices import CLOSED, arrange
from gangline.scheduling.nodes.table import GPU, PODS, WHOLE_GPUS, Bools, Floats, Ints, NodeTable

MANY = np.iinfo(np.int64).max // 2

FEW_ROWS = 32
"""For so few rows a sum over all nodes costs more than adding them one by one."""


@dataclass(frozen=True, slots=True)
class Need:
    """A shape against one table: what it takes from a row, and which nodes it may use at all.

    ``dislike`` has a number per node, the lower the better, for a shape that prefers some. ``part`` is what it takes of
    a GPU that it shares; of a shape that asks for memory that differs from node to node and is in ``parts``.
    """

    shape: Shape
    row: Ints
    columns: Ints
    amounts: Ints
    part: int
    allowed: Bools
    dislike: Floats | None = None
    parts: Ints | None = None

    @classmethod
    def of(cls, table: NodeTable, shape: Shape, allowed: Bools, dislike: Floats | None = None) -> "Need":
        """Translate a shape; one that asks for a resource no node has is allowed nowhere."""
        row = table.vector(dict(shape.amounts))
        row[PODS] = 1
        if not shape.shares_by_memory and GPU_MEMORY in table.columns:
            row[table.columns.index(GPU_MEMORY)] = 0
        row[WHOLE_GPUS] = shape.whole_gpus
        if any(name not in table.columns for name, _ in shape.amounts):
            allowed = np.zeros(len(table), dtype=np.bool_)
        # The total of GPU thousandths is kept for quotas; whether a node has room is a matter of its devices.
        counted = [number for number, name in enumerate(table.columns) if number != GPU and name != GPU_MEMORY]
        columns = np.array([number for number in counted if row[number]], dtype=np.int64)
        if not shape.shares_by_memory:
            return cls(shape, row, columns, row[columns], shape.gpu_part, allowed, dislike)
        memory = shape.amount(GPU_MEMORY)
        parts = np.minimum(-(-GPU_MILLIS * memory // np.maximum(table.gpu_memory, 1)), GPU_MILLIS)
        part = int(parts[allowed].min(initial=GPU_MILLIS))
        return cls(shape, row, columns, row[columns], part, allowed, dislike, parts)


class Draft:
    """Free amounts per node (``free``) and what is left of the GPUs that are shared (``shared``).

    A GPU is either free, or taken whole (both are the column ``whole_gpus`` of ``free``), or opened for sharing:
    then it occupies a slot of ``shared`` that holds its remaining thousandths. ``changed`` lists the rows that
    were touched, in order, so that whoever caches something per row refreshes only those.
    """

    __slots__ = ("_journal", "changed", "free", "shared", "table")

    def __init__(self, table: NodeTable, free: Ints, shared: Ints) -> None:
        self.table = table
        self.free = free
        self.shared = shared
        self.changed: list[int] = []
        self._journal: list[tuple[Ints | int, Ints, Ints]] = []

    @classmethod
    def empty(cls, table: NodeTable) -> "Draft":
        """All nodes idle."""
        slots = int(table.capacity[:, WHOLE_GPUS].max(initial=0))
        return cls(table, table.capacity.copy(), np.full((len(table), slots), CLOSED, dtype=np.int64))

    def copy(self) -> "Draft":
        """An independent copy to try things in."""
        return Draft(self.table, self.free.copy(), self.shared.copy())

    def counts(self, need: Need, rows: Ints | None = None) -> Ints:
        """How many replicas each node (of ``rows``) could take now, as if each were the only node."""
        free = self.free if rows is None else self.free[rows]
        counts = np.full(len(free), MANY, dtype=np.int64)
        for column, amount in zip(need.columns, need.amounts, strict=True):
            np.minimum(counts, free[:, column] // amount, out=counts)
        if need.part:
            shared = self.shared if rows is None else self.shared[rows]
            shares = self.table.shares_gpus if rows is None else self.table.shares_gpus[rows]
            whole = free[:, WHOLE_GPUS]
            if need.parts is None:
                counts = np.minimum(counts, part_counts(need, whole, shared, shares, counts))
            else:
                parts = need.parts if rows is None else need.parts[rows]
                inside = (np.maximum(shared, 0) // parts[:, None]).sum(axis=1)
                counts = np.minimum(counts, inside + whole * np.where(shares, GPU_MILLIS // parts, 1))
        np.maximum(counts, 0, out=counts)
        counts[~(need.allowed if rows is None else need.allowed[rows])] = 0
        return counts

    def take(self, need: Need, row: int, count: int = 1) -> tuple[int, ...]:
        """Occupy room for ``count`` replicas; returns the slot each one shares (none for whole GPUs)."""
        self._journal.append((row, self.free[row].copy(), self.shared[row].copy()))
        self.changed.append(row)
        self.free[row] -= need.row if count == 1 else need.row * count
        return tuple(self._open(row, self.part(need, row)) for _ in range(count)) if need.part else ()

    def part(self, need: Need, row: int) -> int:
        """What a replica takes of a GPU on this node: all of it where GPUs are not shared."""
        if not self.table.shares_gpus[row]:
            return GPU_MILLIS
        return need.part if need.parts is None else int(need.parts[row])

    def take_all(self, need: Need, rows: Ints, counts: Ints) -> tuple[int, ...]:
        """Occupy room on many nodes at once; returns the slot each replica shares, node by node."""
        if need.part:
            pairs = zip(rows.tolist(), counts.tolist(), strict=True)
            return tuple(slot for row, count in pairs for slot in self.take(need, row, count))
        self._remember(rows)
        self.free[rows] -= counts[:, None] * need.row
        return ()

    def take_together(self, needs: Sequence[Need], counts: Sequence[Ints]) -> list[tuple[int, ...]]:
        """Occupy ``counts[i]`` of ``needs[i]`` on every node, arranged so that all parts of GPUs find their place.

        Returns the slots of each need, node by node. They must be known to fit.
        """
        for need, each in zip(needs, counts, strict=True):
            if not need.part:
                rows = np.flatnonzero(each)
                self.take_all(need, rows, each[rows])
        shared = [number for number, need in enumerate(needs) if need.part]
        slots: list[list[int]] = [[] for _ in needs]
        for row in np.flatnonzero(sum((counts[number] for number in shared), np.zeros(len(self.free)))).tolist():
            owners = [number for number in shared for _ in range(int(counts[number][row]))]
            whole = sum(needs[number].shape.whole_gpus for number in owners)
            parts = [self.part(needs[number], row) for number in owners]
            found = arrange(self.shared[row].tolist(), int(self.free[row, WHOLE_GPUS]) - whole, parts)
            assert found is not None
            for number, slot in zip(owners, found, strict=True):
                self.retake(needs[number], (row,), (slot,))
                slots[number].append(slot)
        return [tuple(each) for each in slots]

    def has_room(self, row: int, wanted: Sequence[tuple[Need, int]]) -> bool:
        """Whether a node has room for that many of each need together: its sums, and parts of GPUs device by device."""
        total = sum((need.row * count for need, count in wanted), np.zeros_like(self.free[row]))
        short = (self.free[row] < total) & (total > 0)
        short[GPU] = False
        parts = [self.part(need, row) for need, count in wanted if need.part for _ in range(count)]
        unopened = int(self.free[row, WHOLE_GPUS] - total[WHOLE_GPUS])
        return not short.any() and arrange(self.shared[row].tolist(), unopened, parts) is not None

    def release(self, need: Need, rows: Sequence[int], slots: Sequence[int] = ()) -> None:
        """Give back what one replica on each of ``rows`` held; the reverse of ``take``."""
        if not rows:
            return
        where = np.asarray(rows, dtype=np.int64)
        self._remember(where)
        np.add.at(self.free, where, need.row)
        if need.part:
            for row, slot in zip(rows, slots, strict=True):
                self._close(row, slot, self.part(need, row))

    def take_each(self, need: Need, rows: Sequence[int], known: Sequence[int | None]) -> tuple[int, ...]:
        """Occupy room for one replica on each of ``rows``, in the slots where they are known to be; returns those."""
        if not need.part:
            self.retake(need, rows)
            return ()
        return tuple(self._take_at(need, row, slot) for row, slot in zip(rows, known, strict=True))

    def _take_at(self, need: Need, row: int, slot: int | None) -> int:
        """A slot that nobody recorded, or that the node no longer has room in, is chosen as for a new replica."""
        levels: list[int] = self.shared[row].tolist()
        if slot is None or not 0 <= slot < len(levels) or CLOSED < levels[slot] < self.part(need, row):
            return self.take(need, row)[0]
        self.retake(need, (row,), (slot,))
        return slot

    def release_many(self, rows: Ints, amounts: Ints) -> None:
        """Give back ``amounts[i]`` on ``rows[i]``; a row may occur often. For replicas that share no GPU."""
        touched = rows if len(rows) == 1 else np.unique(rows)
        self._remember(touched)
        if len(rows) <= FEW_ROWS:
            np.add.at(self.free, rows, amounts)
            return
        for column in np.flatnonzero(amounts.any(axis=0)).tolist():
            sums = np.bincount(rows, weights=amounts[:, column], minlength=len(self.free))
            self.free[touched, column] += sums[touched].astype(np.int64)

    def retake(self, need: Need, rows: Sequence[int], slots: Sequence[int] = ()) -> None:
        """Occupy again exactly what ``release`` gave back, in the same GPUs."""
        if not rows:
            return
        where = np.asarray(rows, dtype=np.int64)
        self._remember(where)
        np.subtract.at(self.free, where, need.row)
        if need.part:
            for row, slot in zip(rows, slots, strict=True):
                self._reopen(row, slot, self.part(need, row))

    def show(self, rows: Ints, *others: "Draft") -> None:
        """Become, on these rows, what is free in all of the other drafts."""
        self._remember(rows)
        self.free[rows] = np.minimum.reduce([other.free[rows] for other in others])
        self.shared[rows] = np.minimum.reduce([other.shared[rows] for other in others])

    def mark(self) -> int:
        """A point to come back to with ``undo``."""
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Forget everything that was done since the mark."""
        while len(self._journal) > mark:
            rows, free, shared = self._journal.pop()
            self.free[rows] = free
            self.shared[rows] = shared
            self.changed.extend((rows,) if isinstance(rows, int) else rows.tolist())

    def commit(self) -> None:
        """Keep everything that was done; earlier marks are void."""
        self._journal.clear()

    def _remember(self, rows: Ints) -> None:
        self._journal.append((rows, self.free[rows], self.shared[rows]))
        self.changed.extend(rows.tolist())

    def _open(self, row: int, part: int) -> int:
        """Take a part of the fullest shared GPU that still has room, else open another GPU."""
        slots = self.shared[row]
        levels: list[int] = slots.tolist()
        _, slot = min(((level, slot) for slot, level in enumerate(levels) if level >= part), default=(0, CLOSED))
        if slot == CLOSED:
            if CLOSED not in levels:
                return CLOSED  # the node has lost GPUs under its replicas; they occupy what is not there
            slot = levels.index(CLOSED)
            slots[slot] = GPU_MILLIS
            self.free[row, WHOLE_GPUS] -= 1
        slots[slot] -= part
        return slot

    def _close(self, row: int, slot: int, part: int) -> None:
        if slot == CLOSED:
            return
        self.shared[row, slot] += part
        if self.shared[row, slot] == GPU_MILLIS:
            self.shared[row, slot] = CLOSED
            self.free[row, WHOLE_GPUS] += 1

    def _reopen(self, row: int, slot: int, part: int) -> None:
        if slot == CLOSED:
            return
        if self.shared[row, slot] == CLOSED:
            self.shared[row, slot] = GPU_MILLIS
            self.free[row, WHOLE_GPUS] -= 1
        self.shared[row, slot] -= part


def part_counts(need: Need, whole_free: Ints, shared: Ints, shares: Bools, ceiling: Ints) -> Ints:
    """How many replicas the GPUs of each node could take when each needs a part of one.

    Each replica may need whole GPUs besides. Those come out of the same free GPUs, so the largest count is
    searched from one upwards; a node has few GPUs, so the search is short.
    """
    in_shared = (np.maximum(shared, 0) // need.part).sum(axis=1)
    per_gpu = np.where(shares, GPU_MILLIS // need.part, 1)
    whole = need.shape.whole_gpus
    if not whole:
        return np.asarray(in_shared + whole_free * per_gpu)
    counts = np.zeros(len(whole_free), dtype=np.int64)
    for wanted in range(1, int(min(ceiling.max(initial=0), whole_free.max(initial=0))) + 1):
        left = whole_free - wanted * whole
        fits = (left >= 0) & (in_shared + np.maximum(left, 0) * per_gpu >= wanted)
        if not fits.any():
            break
        counts[fits] = wanted
    return counts
