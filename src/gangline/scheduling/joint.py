"""Several shapes that compete for the same nodes: an exact answer to whether they fit together.

Filling role after role can fail where another mixture would fit (vector bin packing). This is the slow way that
settles it: node after node, keep every mixture of replicas placed so far that no other mixture beats. Nodes in the
same state share the list of mixtures that one of them can take.
"""

from collections.abc import Iterator

import numpy as np

from gangline.scheduling.draft import Draft, Need
from gangline.scheduling.table import Bools, Ints

Mixture = tuple[int, ...]

FRONT_LIMIT = 20_000
"""Mixtures kept at most. Beyond it the best are kept, and a gang could in theory be refused wrongly; a gang needs
several different shapes with dozens of replicas each, on nodes that are nearly full, to come near it."""


def fit_together(
    draft: Draft, needs: list[Need], wanted: list[int], allowed: Bools | None, *, most_per_node: int | None = None
) -> list[Ints] | None:
    """Return replicas per node for each shape, or None when no assignment exists. Takes nothing from the draft.

    With ``most_per_node``, no node gets more than so many of any one shape.
    """
    rows = _useful(draft, needs, allowed)
    goal = tuple(wanted)
    start = (0,) * len(goal)
    fronts: list[dict[Mixture, Mixture]] = []
    front: dict[Mixture, Mixture] = {start: start}
    menus: dict[bytes, list[Mixture]] = {}
    most = goal if most_per_node is None else tuple(min(count, most_per_node) for count in goal)
    for row in rows:
        menu = _menu(draft, needs, most, row, menus)
        grown: dict[Mixture, Mixture] = {}
        for done in sorted(front, reverse=True):
            for extra in menu:
                total = tuple(min(a + b, limit) for a, b, limit in zip(done, extra, goal, strict=True))
                grown.setdefault(total, done)
        front = {mixture: grown[mixture] for mixture in _unbeaten(list(grown))}
        fronts.append(front)
        if goal in front:
            return _trace(draft, fronts, rows, goal)
    return None


def _useful(draft: Draft, needs: list[Need], allowed: Bools | None) -> list[int]:
    counts = np.stack([draft.counts(need) for need in needs])
    if allowed is not None:
        counts = np.where(allowed, counts, 0)
    rows = np.flatnonzero(counts.any(axis=0))
    # Roomy nodes first: the goal is reached, or the front becomes narrow, as early as possible.
    order = np.lexsort((rows, -counts.sum(axis=0)[rows]))
    return [int(row) for row in rows[order]]


def _menu(draft: Draft, needs: list[Need], most: Mixture, row: int, menus: dict[bytes, list[Mixture]]) -> list[Mixture]:
    """Every mixture one node can take that is not part of a larger one."""
    usable = bytes(bool(need.allowed[row]) for need in needs)
    key = draft.free[row].tobytes() + draft.shared[row].tobytes() + usable
    if key not in menus:
        menus[key] = _unbeaten(list(_mixtures(draft, needs, most, row)))
    return menus[key]


def _mixtures(draft: Draft, needs: list[Need], most: Mixture, row: int) -> Iterator[Mixture]:
    """Every mixture of the remaining shapes that fits on one node."""
    if not needs:
        yield ()
        return
    room = min(int(draft.counts(needs[0], np.array([row]))[0]), most[0])
    for count in range(room, -1, -1):
        mark = draft.mark()
        if count:
            draft.take(needs[0], row, count)
        for rest in _mixtures(draft, needs[1:], most[1:], row):
            yield (count, *rest)
        draft.undo(mark)


def _unbeaten(mixtures: list[Mixture]) -> list[Mixture]:
    """Drop every mixture that another one equals or exceeds in every shape."""
    kept: list[Mixture] = []
    for mixture in sorted(set(mixtures), key=lambda each: (-sum(each), each)):
        if not any(all(a >= b for a, b in zip(better, mixture, strict=True)) for better in kept):
            kept.append(mixture)
    return kept[:FRONT_LIMIT]


def _trace(draft: Draft, fronts: list[dict[Mixture, Mixture]], rows: list[int], goal: Mixture) -> list[Ints]:
    """Walk back from the goal: what each node contributed is the difference of two fronts."""
    counts = [np.zeros(len(draft.table), dtype=np.int64) for _ in goal]
    total = goal
    for row, front in zip(reversed(rows[: len(fronts)]), reversed(fronts), strict=True):
        before = front[total]
        for number, (after, earlier) in enumerate(zip(total, before, strict=True)):
            counts[number][row] = after - earlier
        total = before
    return counts
