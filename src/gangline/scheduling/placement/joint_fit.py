"""Several shapes that compete for the same nodes: an exact answer to whether they fit together.

Filling role after role can fail where another mixture would fit (vector bin packing). This is the slow way that
settles it: node after node, keep every mixture of replicas placed so far that no other mixture beats. Nodes in the
same state share the list of mixtures that one of them can take.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from gangline.scheduling.demand.shapes import Demand, RoleDemand
from gangline.scheduling.nodes.devices import arrange
from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.nodes.table import ABSENT, GPU, WHOLE_GPUS, Bools, Ints, NodeTable

Mixture = tuple[int, ...]
"""How many replicas of each shape."""

State = tuple[int, ...]
"""What is placed so far and, where replicas must lie apart, how many more of each shape this domain may get. The more,
the better, in every number."""

Pairs = frozenset[tuple[int, int]]
"""Numbers of shapes that bear not each other; a shape that bears not itself is a pair with itself."""

FRONT_LIMIT = 2_000
"""Mixtures kept at most. Beyond it the best are kept, and a gang could in theory be refused wrongly; a gang needs
several different shapes with dozens of replicas each, on nodes that are nearly full, to come near it."""

EFFORT_PER_CYCLE = 200_000
"""Mixtures looked at in one cycle: about a second. A service that thinks about one gang must not stand still."""


class Effort:
    """What exact searches may still cost. When it is used up, the quick way alone is tried."""

    __slots__ = ("left",)

    def __init__(self, left: int = EFFORT_PER_CYCLE) -> None:
        self.left = left

    def spend(self, amount: int) -> bool:
        """Whether there is so much left."""
        self.left -= amount
        return self.left >= 0

    @contextmanager
    def part(self) -> Iterator["Effort"]:
        """A quarter of it for one search, so that something is left for whoever comes next."""
        search = Effort(self.left // 4)
        self.left -= search.left
        yield search
        self.left += max(search.left, 0)


@dataclass(frozen=True, slots=True)
class Clashes:
    """Which shapes must not share a node, and which a domain: one number per node says which it is in."""

    on_node: Pairs = frozenset()
    in_domain: Pairs = frozenset()
    domains: Ints | None = None

    @classmethod
    def of(cls, table: NodeTable, demand: Demand, roles: Sequence[RoleDemand]) -> "Clashes | None":
        """What must lie apart; None if it is a matter of several kinds of domains besides nodes."""
        numbers = {role.role: number for number, role in enumerate(roles)}
        by_level: dict[str, set[tuple[int, int]]] = {}
        for apart in demand.apart:
            members = [numbers[name] for name in apart.roles if name in numbers]
            if len(members) == len(apart.roles):
                pairs = by_level.setdefault(apart.level, set())
                pairs.update((one, other) for one in members for other in members if len(members) == 1 or one != other)
        on_node = frozenset(by_level.pop("node", ()))
        if len(by_level) > 1:
            return None
        for level, pairs in by_level.items():
            return cls(on_node, frozenset(pairs), table.level(level).ids)
        return cls(on_node)

    def at(self, row: int) -> Pairs:
        """Who must not share this node."""
        return self.on_node if self.is_outside(row) else self.on_node | self.in_domain

    def is_outside(self, row: int) -> bool:
        """Whether a node is in no domain."""
        return self.domains is None or self.domains[row] == ABSENT

    def left(self, room: Mixture, added: Mixture) -> Mixture:
        """How many more of each shape a domain may get."""
        closed = {other for one, other in self.in_domain if added[one]}
        return tuple(0 if number in closed else each for number, each in enumerate(room))


def fit_together(
    draft: Draft, needs: list[Need], wanted: list[int], usable: Bools, clashes: Clashes, *, effort: Effort
) -> list[Ints] | None:
    """Return replicas per node for each shape, or None when no assignment exists. Takes nothing from the draft.

    ``usable`` has a row per shape: the nodes it may use. None, too, if finding out takes more than ``effort``.
    """
    rows = _useful(draft, needs, usable, clashes)
    goal = tuple(wanted)
    unbound = goal if clashes.in_domain else ()
    remaining = _Remaining(draft, needs, goal, usable, rows)
    fronts: list[dict[State, State]] = []
    front: dict[State, State] = {(0,) * len(goal) + unbound: (0,) * len(goal) + unbound}
    options_by_node: dict[object, list[Mixture]] = {}
    for position, row in enumerate(rows):
        options = mixtures_of(
            draft,
            needs,
            goal,
            row,
            usable=usable[:, row],
            pairs=clashes.at(row),
            options_by_node=options_by_node,
            effort=effort,
        )
        if not effort.spend(len(front) * len(options)):
            return None
        fresh = position == 0 or clashes.is_outside(row) or _elsewhere(clashes, row, rows[position - 1])
        grown: dict[State, State] = {}
        for state in sorted(front, reverse=True):
            done, room = state[: len(goal)], goal if fresh else state[len(goal) :]
            for extra in options:
                added = tuple(map(min, extra, room))
                total = tuple(min(a + b, limit) for a, b, limit in zip(done, added, goal, strict=True))
                left = unbound if clashes.is_outside(row) else clashes.left(room, added)
                grown.setdefault(total + left, state)
        front = {state: grown[state] for state in unbeaten(remaining.hopeful(list(grown), position + 1))}
        fronts.append(front)
        reached = next((state for state in front if state[: len(goal)] == goal), None)
        if reached is not None:
            return _trace(draft, fronts, rows, reached, len(goal))
        if not front:
            return None
    return None


class _Remaining:
    """What the nodes still to come could take at best: each shape as if it were alone, and all of them in sum."""

    def __init__(self, draft: Draft, needs: list[Need], goal: Mixture, usable: Bools, rows: list[int]) -> None:
        self._goal = np.array(goal, dtype=np.int64)
        self._amounts = np.stack([need.row for need in needs])
        counts = np.minimum(np.where(usable, np.stack([draft.counts(need) for need in needs]), 0), self._goal[:, None])
        self._counts = _still_to_come(counts[:, rows].T)
        self._free = _still_to_come(np.maximum(draft.free[rows], 0))

    def hopeful(self, states: list[State], position: int) -> list[State]:
        """Those from which the goal can still be reached, as far as that can be seen."""
        if not states:
            return states
        lacking = self._goal - np.array(states, dtype=np.int64)[:, : len(self._goal)]
        possible = (lacking <= self._counts[position]).all(axis=1)
        possible &= (lacking @ self._amounts <= self._free[position]).all(axis=1)
        return [state for state, hopeful in zip(states, possible.tolist(), strict=True) if hopeful]


def _still_to_come(amounts: Ints) -> Ints:
    """Sums over each row and all that follow it, and zeros after the last."""
    sums = np.cumsum(amounts[::-1], axis=0)[::-1]
    return np.concatenate([sums, np.zeros((1, amounts.shape[1]), dtype=np.int64)])


def _elsewhere(clashes: Clashes, row: int, before: int) -> bool:
    return clashes.domains is not None and bool(clashes.domains[row] != clashes.domains[before])


def _useful(draft: Draft, needs: list[Need], usable: Bools, clashes: Clashes) -> list[int]:
    counts = np.where(usable, np.stack([draft.counts(need) for need in needs]), 0)
    rows = np.flatnonzero(counts.any(axis=0))
    domains = np.zeros_like(rows) if clashes.domains is None else clashes.domains[rows]
    # Roomy nodes first: the goal is reached, or the front becomes narrow, as early as possible. Those of one domain
    # follow each other.
    order = np.lexsort((rows, -counts.sum(axis=0)[rows], domains))
    return [int(row) for row in rows[order]]


def mixtures_of(
    draft: Draft,
    needs: list[Need],
    goal: Mixture,
    row: int,
    *,
    usable: Bools,
    pairs: Pairs,
    options_by_node: dict[object, list[Mixture]],
    effort: Effort,
) -> list[Mixture]:
    """Every mixture one node can take that is not part of a larger one."""
    fixed = (int(draft.table.gpu_memory[row]), bool(draft.table.shares_gpus[row]), len(pairs))
    key = (draft.free[row].tobytes(), draft.shared[row].tobytes(), usable.tobytes(), *fixed)
    if key not in options_by_node:
        alone = [min(count, 1) if (number, number) in pairs else count for number, count in enumerate(goal)]
        most = tuple(count if may else 0 for count, may in zip(alone, usable.tolist(), strict=True))
        options_by_node[key] = list(_without_clashes(_mixtures(draft, needs, most, row, effort), pairs))
    return options_by_node[key]


def _without_clashes(mixtures: Iterable[Mixture], pairs: Pairs) -> Iterator[Mixture]:
    """Mixtures in which nobody clashes. To do without a shape may pay off elsewhere, so that is always a choice."""
    crossed = [(one, other) for one, other in pairs if one < other]
    parties: dict[tuple[bool, ...], list[Mixture]] = {}
    for each in mixtures:
        if not any(each[one] and each[other] for one, other in crossed):
            parties.setdefault(tuple(bool(each[number]) for pair in crossed for number in pair), []).append(each)
    for party in parties.values():
        yield from unbeaten(party)


def _mixtures(draft: Draft, needs: list[Need], most: Mixture, row: int, effort: Effort) -> Iterator[Mixture]:
    """Mixtures of the shapes that fit on one node: with all of the last shape that fits beside the others, or none."""
    free = draft.free[row].tolist()
    levels = draft.shared[row].tolist()
    rows = [need.row.tolist() for need in needs]
    for others in _within(free, rows[:-1], list(most[:-1])):
        left = [
            amount - sum(each[i] * n for each, n in zip(rows, others, strict=False)) for i, amount in enumerate(free)
        ]
        for last in range(_room_for(left, rows[-1], most[-1]), -1, -1):
            mixture = (*others, last)
            pairs = [(need, count) for need, count in zip(needs, mixture, strict=True) if need.part]
            parts = [draft.part(need, row) for need, count in pairs for _ in range(count)]
            if not effort.spend(1 + len(parts)):
                return
            whole = sum(need.shape.whole_gpus * count for need, count in zip(needs, mixture, strict=True))
            if not parts or arrange(levels, free[WHOLE_GPUS] - whole, parts) is not None:
                yield mixture
                yield (*others, 0)
                break


def _room_for(left: list[int], row: list[int], most: int) -> int:
    rooms = [
        amount // each for column, (amount, each) in enumerate(zip(left, row, strict=True)) if each and column != GPU
    ]
    return max(min([most, *rooms]), 0)


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


def unbeaten(mixtures: list[Mixture]) -> list[Mixture]:
    """Drop everything that something else equals or exceeds in every number."""
    if len(mixtures) < 2:
        return mixtures
    if len(mixtures[0]) == 2:
        return sorted(_unbeaten_pairs(mixtures), key=lambda pair: (-sum(pair), pair))
    left = np.unique(np.array(mixtures, dtype=np.int64), axis=0)
    left = left[np.argsort(-left.sum(axis=1), kind="stable")]
    kept: list[Mixture] = []
    while len(left) and len(kept) < FRONT_LIMIT:
        kept.append(tuple(left[0].tolist()))
        left = left[~(left <= left[0]).all(axis=1)]
    return kept


def _unbeaten_pairs(mixtures: list[Mixture]) -> Iterator[Mixture]:
    best = -1
    for pair in sorted(mixtures, reverse=True):
        if pair[1] > best:
            best = pair[1]
            yield pair


def _trace(draft: Draft, fronts: list[dict[State, State]], rows: list[int], state: State, shapes: int) -> list[Ints]:
    """Walk back from the goal: what each node contributed is the difference of two fronts."""
    counts = [np.zeros(len(draft.table), dtype=np.int64) for _ in range(shapes)]
    for row, front in zip(reversed(rows[: len(fronts)]), reversed(fronts), strict=True):
        before = front[state]
        for number in range(shapes):
            counts[number][row] = state[number] - before[number]
        state = before
    return counts
