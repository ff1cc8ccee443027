"""Groups that each lie in a domain of their own: an exact answer by counting, however many of them are alike.

Domains of a level do not overlap, so what one can take does not depend on another: a list of mixtures of groups, worked
out from the nodes in it or from the finer domains. Equal groups are numbers in a mixture and equal domains share a
list, so it does not matter in which order either would be tried.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.nodes.table import ABSENT, Bools, Ints, NodeTable
from gangline.scheduling.placement.joint_fit import Effort, Mixture, Pairs, mixtures_of, unbeaten


@dataclass(frozen=True, slots=True)
class Kind:
    """Groups that ask for the same: so many replicas each, on usable nodes, all of them in one domain.

    ``groups`` are their numbers in the gang; ``domains`` says which domain each node is in, None if any nodes will do.
    """

    need: Need
    size: int
    groups: tuple[int, ...]
    usable: Bools
    domains: Ints | None = None

    @property
    def replicas(self) -> int:
        """The replicas of all of them."""
        return self.size * len(self.groups)

    def around(self, counts: Ints) -> Bools:
        """The usable nodes of the domain that a group lies in."""
        return self.usable if self.domains is None else self.usable & (self.domains == self.domains[counts.argmax()])


def cells_of(table: NodeTable, levels: Sequence[str]) -> Ints:
    """Which domain each node is in, if it is one of several levels at once; ABSENT outside any of them."""
    ids = np.stack([table.level(level).ids for level in levels])
    numbers = np.unique(ids, axis=1, return_inverse=True)[1].reshape(-1)
    return np.where((ids == ABSENT).any(axis=0), ABSENT, numbers)


def nested(partitions: Iterable[Ints]) -> list[Ints] | None:
    """Different divisions of the nodes, the coarsest first; None if some domain lies in two of a coarser one."""
    found = sorted({each.tobytes(): each for each in partitions}.values(), key=lambda each: len(np.unique(each)))
    for coarse, fine in pairwise(found):
        inside = fine != ABSENT
        if np.unique(np.stack([fine, coarse])[:, inside], axis=1).shape[1] > len(np.unique(fine[inside])):
            return None
    return found


@dataclass(frozen=True, slots=True)
class _Region:
    """A node, or a domain and the regions in it, the tightest first. Those that can take the same have one ``key``."""

    key: int
    most: Mixture
    """What it could take of each kind alone."""
    row: int
    parts: tuple["_Region", ...] = ()


@dataclass(slots=True)
class _Sum:
    """What a region can take: mixtures, and for each the one it was rounded down from. ``fronts`` are the mixtures
    after each of its parts, with the one before."""

    options: dict[Mixture, Mixture] = field(default_factory=dict)
    fronts: list[dict[Mixture, Mixture]] = field(default_factory=list)


class Nest:
    """The nodes of one search, divided as the groups see them; ``apart`` are pairs of kinds that share no node."""

    def __init__(
        self, draft: Draft, kinds: Sequence[Kind], partitions: Sequence[Ints], apart: Pairs, *, effort: Effort
    ) -> None:
        self._draft = draft
        self._kinds = kinds
        self._needs = [kind.need for kind in kinds]
        self._usable = np.stack([kind.usable for kind in kinds])
        self._partitions = partitions
        self._apart = apart
        self._effort = effort
        keys = {each.tobytes(): number for number, each in enumerate(partitions, 1)}
        self._depths = [0 if kind.domains is None else keys[kind.domains.tobytes()] for kind in kinds]
        """How deep the domains of each kind lie; everything lies in one region, of depth 0."""
        self._limits = [self._limits_at(depth) for depth in range(len(partitions) + 2)]
        self._counts = np.where(self._usable, np.stack([draft.counts(need) for need in self._needs]), 0)
        for number in range(len(kinds)):
            if (number, number) in apart:
                np.minimum(self._counts[number], 1, out=self._counts[number])
        table = draft.table
        states = np.column_stack([draft.free, draft.shared, table.gpu_memory, table.shares_gpus, self._usable.T])
        self._states = np.unique(states, axis=0, return_inverse=True)[1].reshape(-1).tolist()
        """A number for each node; nodes with the same one can take the same."""
        self._keys: dict[tuple[int, ...], int] = {}
        self._sums: dict[int, _Sum] = {}
        self._by_node: dict[object, list[Mixture]] = {}

    def fit(self) -> dict[int, Ints] | None:
        """By the number of every group, its replicas per node; None if they do not fit, or if ``effort`` is spent."""
        if not self.has_room():
            return None
        whole = self._region(np.flatnonzero(self._counts.any(axis=0)), 0)
        goal = self._limits[0]
        return dict(self._unfold(whole, goal)) if goal in self._sum(whole, 0, goal).options else None

    def has_room(self) -> bool:
        """Whether each kind would fit if it were alone, and all of them if only sums counted; most that do not fit fail
        here, without a look at mixtures."""
        free = np.maximum(self._draft.free[self._counts.any(axis=0)], 0).sum(axis=0)
        wanted = np.sum([kind.replicas * kind.need.row for kind in self._kinds], axis=0)
        return bool((wanted <= free).all()) and all(map(_is_enough, self._kinds, self._counts))

    def _limits_at(self, depth: int) -> Mixture:
        """What there is of each kind: replicas, and groups above the depth where they have to be whole."""
        pairs = zip(self._kinds, self._depths, strict=True)
        return tuple(len(kind.groups) if own > depth else kind.replicas for kind, own in pairs)

    def _region(self, rows: Ints, depth: int) -> _Region:
        if depth == len(self._partitions):
            most = map(tuple, self._counts[:, rows].T.tolist())
            parts = [_Region(self._states[row], each, row) for row, each in zip(rows.tolist(), most, strict=True)]
        else:
            ids = self._partitions[depth][rows]
            parts = [self._region(rows[ids == number], depth + 1) for number in np.unique(ids).tolist()]
        parts.sort(key=lambda each: (sum(each.most), each.key, each.row))
        key = self._keys.setdefault((depth, *(each.key for each in parts)), len(self._keys))
        sums = map(sum, zip((0,) * len(self._kinds), *(each.most for each in parts), strict=True))
        row = min((each.row for each in parts), default=0)
        return _Region(key, self._rounded(tuple(sums), depth), row, tuple(parts))

    def _options(self, region: _Region, depth: int) -> Iterable[Mixture]:
        if depth <= len(self._partitions):
            return self._sum(region, depth).options
        return mixtures_of(
            self._draft,
            self._needs,
            self._limits[depth],
            region.row,
            usable=self._usable[:, region.row],
            pairs=self._apart,
            options_by_node=self._by_node,
            effort=self._effort,
        )

    def _sum(self, region: _Region, depth: int, goal: Mixture | None = None) -> _Sum:
        """What a region can take; the search for a goal ends where it is reached, or out of reach."""
        if region.key in self._sums:
            return self._sums[region.key]
        limits = self._limits[depth]
        found = self._sums[region.key] = _Sum()
        front: dict[Mixture, Mixture] = {(0,) * len(limits): (0,) * len(limits)}
        to_come = region.most
        for part in region.parts:
            options = list(self._options(part, depth + 1))
            to_come = tuple(map(int.__sub__, to_come, part.most))
            if not self._effort.spend(len(front) * len(options)):
                return found
            grown: dict[Mixture, Mixture] = {}
            for state in sorted(front, reverse=True):
                for extra in options:
                    total = tuple(map(min, map(int.__add__, state, extra), limits))
                    grown.setdefault(total, state)
            hopeful = [each for each in grown if goal is None or _reaches(map(int.__add__, each, to_come), goal)]
            front = {state: grown[state] for state in unbeaten(hopeful)}
            found.fronts.append(front)
            if goal in front or not front:
                break
        rounded = {self._rounded(state, depth): state for state in front}
        found.options = {each: rounded[each] for each in unbeaten(list(rounded))}
        return found

    def _rounded(self, state: Mixture, depth: int) -> Mixture:
        """Count whole groups of the kinds that have to be whole at this depth."""
        each = zip(state, self._kinds, self._depths, strict=True)
        return tuple(count // kind.size if own == depth and own else count for count, kind, own in each)

    def _unfold(self, whole: _Region, wanted: Mixture) -> Iterator[tuple[int, Ints]]:
        counts = np.zeros((len(self._kinds), len(self._draft.table)), dtype=np.int64)
        waiting = [list(kind.groups) for kind in self._kinds]
        yield from self._assign(whole, 0, wanted, wanted, counts=counts, waiting=waiting)
        for number, own in enumerate(self._depths):
            if own == 0:
                yield from _dealt(counts[number], self._kinds[number].size, waiting[number])

    def _assign(
        self, region: _Region, depth: int, option: Mixture, wanted: Mixture, *, counts: Ints, waiting: list[list[int]]
    ) -> Iterator[tuple[int, Ints]]:
        """Give a region's nodes as much of one of its options as is wanted; yields the groups that are whole there."""
        if depth > len(self._partitions):
            counts[:, region.row] += wanted
            return
        found = self._sums[region.key]
        state = found.options[option]
        mine = [number for number, own in enumerate(self._depths) if own == depth and own]
        left = [each * self._kinds[n].size if n in mine else each for n, each in enumerate(wanted)]
        before = counts[mine].copy()
        for part, front in zip(reversed(region.parts[: len(found.fronts)]), reversed(found.fronts), strict=True):
            gain = tuple(map(int.__sub__, state, front[state]))
            state = front[state]
            share = tuple(map(min, gain, left))
            if any(share):
                left = list(map(int.__sub__, left, share))
                chosen = next(each for each in self._options(part, depth + 1) if _reaches(each, gain))
                yield from self._assign(part, depth + 1, chosen, share, counts=counts, waiting=waiting)
        for number, already in zip(mine, before, strict=True):
            here, waiting[number] = waiting[number][: wanted[number]], waiting[number][wanted[number] :]
            yield from _dealt(counts[number] - already, self._kinds[number].size, here)


def _is_enough(kind: Kind, counts: Ints) -> bool:
    """Whether the groups of a kind would fit if they were alone, given how many replicas each node has room for."""
    if kind.domains is None:
        return int(counts.sum()) >= kind.replicas
    inside = kind.domains != ABSENT
    room = np.bincount(kind.domains[inside], weights=counts[inside])
    return int((room // kind.size).sum()) >= len(kind.groups)


def _reaches(state: Iterable[int], goal: Mixture) -> bool:
    return all(map(int.__ge__, state, goal))


def _dealt(counts: Ints, size: int, groups: Sequence[int]) -> Iterator[tuple[int, Ints]]:
    """Divide replicas that are alike among groups of one size, node by node."""
    before = np.cumsum(counts) - counts
    for place, number in enumerate(groups):
        yield number, np.clip((place + 1) * size - before, 0, counts) - np.clip(place * size - before, 0, counts)
