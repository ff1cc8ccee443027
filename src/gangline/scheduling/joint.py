"""Several shapes that compete for the same nodes: an exact answer to whether they fit together.

Filling role after role can fail where another mixture would fit (vector bin packing). This is the slow way that
settles it: node after node, keep every mixture of replicas placed so far that no other mixture beats. Nodes in the
same state share the list of mixtures that one of them can take.
"""

from collections.abc import Iterator

import numpy as np

from gangline.scheduling.devices import arrange
from gangline.scheduling.draft import Draft, Need
from gangline.scheduling.table import ABSENT, GPU, WHOLE_GPUS, Bools, Ints

Mixture = tuple[int, ...]
"""How many replicas of each shape."""

State = tuple[int, ...]
"""What is placed so far and, where replicas must lie apart, how many more of each shape this domain may get. The more,
the better, in every number."""

FRONT_LIMIT = 20_000
"""Mixtures kept at most. Beyond it the best are kept, and a gang could in theory be refused wrongly; a gang needs
several different shapes with dozens of replicas each, on nodes that are nearly full, to come near it."""


def fit_together(
    draft: Draft, needs: list[Need], wanted: list[int], allowed: Bools | None, *, domains: Ints | None = None
) -> list[Ints] | None:
    """Return replicas per node for each shape, or None when no assignment exists. Takes nothing from the draft.

    With ``domains`` (one number per node, ABSENT for none), no domain gets two replicas of any one shape, and nodes
    outside every domain get none.
    """
    rows = _useful(draft, needs, allowed, domains)
    goal = tuple(wanted)
    most = goal if domains is None else tuple(min(count, 1) for count in goal)
    fronts: list[dict[State, State]] = []
    start: State = (0,) * len(goal) + (() if domains is None else most)
    front: dict[State, State] = {start: start}
    menus: dict[bytes, list[Mixture]] = {}
    for position, row in enumerate(rows):
        menu = _menu(draft, needs, most, row, menus)
        fresh = domains is None or position == 0 or domains[row] != domains[rows[position - 1]]
        grown: dict[State, State] = {}
        for state in sorted(front, reverse=True):
            done, room = state[: len(goal)], most if fresh else state[len(goal) :]
            for extra in menu:
                added = tuple(map(min, extra, room))
                total = tuple(min(a + b, limit) for a, b, limit in zip(done, added, goal, strict=True))
                left = () if domains is None else tuple(a - b for a, b in zip(room, added, strict=True))
                grown.setdefault(total + left, state)
        front = {state: grown[state] for state in _unbeaten(list(grown))}
        fronts.append(front)
        reached = next((state for state in front if state[: len(goal)] == goal), None)
        if reached is not None:
            return _trace(draft, fronts, rows, reached, len(goal))
    return None


def _useful(draft: Draft, needs: list[Need], allowed: Bools | None, domains: Ints | None) -> list[int]:
    counts = np.stack([draft.counts(need) for need in needs])
    if allowed is not None:
        counts = np.where(allowed, counts, 0)
    if domains is not None:
        counts = np.where(domains != ABSENT, counts, 0)
    rows = np.flatnonzero(counts.any(axis=0))
    # Roomy nodes first: the goal is reached, or the front becomes narrow, as early as possible. Those of one domain
    # follow each other.
    order = np.lexsort((rows, -counts.sum(axis=0)[rows], np.zeros_like(rows) if domains is None else domains[rows]))
    return [int(row) for row in rows[order]]


def _menu(draft: Draft, needs: list[Need], most: Mixture, row: int, menus: dict[bytes, list[Mixture]]) -> list[Mixture]:
    """Every mixture one node can take that is not part of a larger one."""
    usable = bytes([*(bool(need.allowed[row]) for need in needs), bool(draft.table.shares_gpus[row])])
    key = draft.free[row].tobytes() + draft.shared[row].tobytes() + usable
    if key not in menus:
        menus[key] = _unbeaten(list(_mixtures(draft, needs, most, row)))
    return menus[key]


def _mixtures(draft: Draft, needs: list[Need], most: Mixture, row: int) -> Iterator[Mixture]:
    """Every mixture of the shapes that fits on one node: its sums, and parts of GPUs device by device."""
    free = draft.free[row].tolist()
    levels = draft.shared[row].tolist()
    usable = [count if need.allowed[row] else 0 for need, count in zip(needs, most, strict=True)]
    for mixture in _within(free, [need.row.tolist() for need in needs], usable):
        pairs = [(need, count) for need, count in zip(needs, mixture, strict=True) if need.part]
        parts = [draft.part(need, row) for need, count in pairs for _ in range(count)]
        whole = sum(need.shape.whole_gpus * count for need, count in zip(needs, mixture, strict=True))
        if not parts or arrange(levels, free[WHOLE_GPUS] - whole, parts) is not None:
            yield mixture


def _within(free: list[int], rows: list[list[int]], most: list[int]) -> Iterator[Mixture]:
    """Every mixture whose sums do not exceed what is free; thousandths of GPUs are a matter of devices, not of sums."""
    if not rows:
        yield ()
        return
    for count in range(most[0] + 1):
        left = [amount - count * each for amount, each in zip(free, rows[0], strict=True)]
        if any(
            amount < 0 < each for column, (amount, each) in enumerate(zip(left, rows[0], strict=True)) if column != GPU
        ):
            return
        for rest in _within(left, rows[1:], most[1:]):
            yield (count, *rest)


def _unbeaten(mixtures: list[Mixture]) -> list[Mixture]:
    """Drop everything that something else equals or exceeds in every number."""
    kept: list[Mixture] = []
    for mixture in sorted(set(mixtures), key=lambda each: (-sum(each), each)):
        if not any(all(a >= b for a, b in zip(better, mixture, strict=True)) for better in kept):
            kept.append(mixture)
    return kept[:FRONT_LIMIT]


def _trace(draft: Draft, fronts: list[dict[State, State]], rows: list[int], state: State, shapes: int) -> list[Ints]:
    """Walk back from the goal: what each node contributed is the difference of two fronts."""
    counts = [np.zeros(len(draft.table), dtype=np.int64) for _ in range(shapes)]
    for row, front in zip(reversed(rows[: len(fronts)]), reversed(fronts), strict=True):
        before = front[state]
        for number in range(shapes):
            counts[number][row] = state[number] - before[number]
        state = before
    return counts
