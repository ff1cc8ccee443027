"""Nodes for single replicas, the best first, without a look at every node.

A cycle may start tens of thousands of jobs of one replica each. A search of all nodes for each of them would take most
of its time, so the ``Placer`` keeps a ranking once it has placed a few. It gives exactly the node that the search would
give: the lowest score, and of equal scores the first row.
"""

from heapq import heappop, heappush

import numpy as np

from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.plugins.interface import NodeScore

Entry = tuple[float, int, int, tuple[int, ...]]
"""A score, the row that has it, the number of the change that gave it, and what is free there. Numbers differ, so the
last is never compared."""


class _Candidates:
    """What one shape knows: rows that fitted when it first asked, and a heap of changed rows with room for it."""

    __slots__ = ("allowed", "changed", "fitted", "limits", "pointer", "seen")

    def __init__(self, draft: Draft, need: Need, seen: int) -> None:
        self.limits = list(zip(need.columns.tolist(), need.amounts.tolist(), strict=True))
        self.allowed = need.allowed.tobytes()
        self.fitted = (draft.counts(need) > 0).tobytes()
        self.pointer = 0
        self.seen = seen
        self.changed: list[Entry] = []


class Ranking:
    """All nodes of one draft in the order of one score, brought up to date from the draft's list of changes.

    Rows that nothing has happened to since the beginning stay in the order of that time, which all shapes share; a
    changed row is judged once, and goes into the heap of every shape that fits there when that shape next asks.
    """

    def __init__(self, draft: Draft, score: NodeScore, first: Need) -> None:
        self._draft = draft
        self._score = score
        scores = score.score(draft, first, np.arange(len(draft.table), dtype=np.int64))
        self._scores: list[float] = scores.tolist()
        self._order: list[int] = np.argsort(scores, kind="stable").tolist()
        self._front = 0
        self._read = len(draft.changed)
        self._candidates: dict[int, _Candidates] = {}
        self._touched: set[int] = set()
        self._live: dict[int, Entry] = {}
        """Rows that have changed and are of use to somebody, those that changed last last."""
        self._least: list[tuple[int, int]] = []
        """What even the smallest shape that has asked needs, by column; a row with less is of no use to any."""

    def best(self, need: Need) -> int | None:
        """The row with the lowest score that has room for one replica; None when there is none.

        The need must not share a GPU: room for a part is a matter of devices, not of sums.
        """
        self._absorb()
        mine = self._candidates.get(id(need)) or self._join(need)
        live, heap = self._live, mine.changed
        for entry in reversed(live.values()):
            if entry[2] < mine.seen:
                break
            if _fits(mine, entry):
                heappush(heap, entry)
        mine.seen = self._read
        while heap and live.get(heap[0][1]) is not heap[0]:
            heappop(heap)
        row = self._unchanged(mine)
        if not heap:
            return row
        score, other, _, _ = heap[0]
        return other if row is None or (score, other) < (self._scores[row], row) else row

    def _absorb(self) -> None:
        """Judge the rows that have changed since anybody last asked."""
        changed = self._draft.changed
        if self._read == len(changed):
            return
        for row in changed[self._read :]:
            self._touched.add(row)
            self._live.pop(row, None)
            entry = self._judge(row, self._read)
            self._read += 1
            for column, amount in self._least:
                if entry[3][column] < amount:
                    break
            else:
                self._live[row] = entry

    def _judge(self, row: int, number: int) -> Entry:
        free = tuple(self._draft.free[row].tolist())
        return (self._score.score_one(free, self._draft.table.capacity[row].tolist()), row, number, free)

    def _join(self, need: Need) -> _Candidates:
        """A shape asks for the first time: rows that were of no use to others may be to it."""
        mine = self._candidates[id(need)] = _Candidates(self._draft, need, self._read)
        for row in self._touched:
            if mine.fitted[row]:
                entry = self._live.get(row) or self._judge(row, self._read)
                self._live.setdefault(row, entry)
                heappush(mine.changed, entry)
        limits = [dict(each.limits) for each in self._candidates.values()]
        shared = set(limits[0]).intersection(*limits[1:])
        self._least = [(column, min(each[column] for each in limits)) for column in sorted(shared)]
        return mine

    def _unchanged(self, mine: _Candidates) -> int | None:
        """The first row of the original order that is as it was and fitted then."""
        order, fitted, touched = self._order, mine.fitted, self._touched
        # Packing uses nodes up from the front: what is used up for all need not be passed by each shape again.
        while self._front < len(order) and order[self._front] in touched:
            self._front += 1
        for pointer in range(max(mine.pointer, self._front), len(order)):
            row = order[pointer]
            if fitted[row] and row not in touched:
                mine.pointer = pointer
                return row
        mine.pointer = len(order)
        return None


def _fits(mine: _Candidates, entry: Entry) -> bool:
    _, row, _, free = entry
    for column, amount in mine.limits:
        if free[column] < amount:
            return False
    return mine.allowed[row] != 0
