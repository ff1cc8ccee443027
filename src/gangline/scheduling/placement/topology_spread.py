"""Replicas spread evenly over domains: which nodes they go to so that no domain gets too many more than another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gangline.model import TopologySpread
from gangline.scheduling.nodes.table import ABSENT, Bools, Ints, NodeTable


@dataclass(frozen=True, slots=True)
class _Level:
    """One rule against one table: the domain of each row, and those domains that count."""

    ids: Ints
    domains: Ints
    skew: int

    def sums(self, amounts: Ints) -> Ints:
        """Add up amounts per row to amounts per domain."""
        inside = self.ids != ABSENT
        sums = np.bincount(self.ids[inside], weights=amounts[inside], minlength=int(self.ids.max(initial=0)) + 1)
        return sums.astype(np.int64)[self.domains]


def evenly(
    table: NodeTable,
    rules: Sequence[TopologySpread],
    counts: Ints,
    *,
    usable: Bools,
    present: Sequence[int],
    wanted: int,
) -> Ints:
    """Choose where ``wanted`` replicas go, or as many of them as lie evenly; ``counts`` is the room of each node.

    The domains of all usable nodes count, full ones too. ``present`` are the rows of replicas that are there already.
    """
    levels = sorted((_level(table, rule, usable) for rule in rules), key=lambda level: len(level.domains))
    there = np.bincount(np.asarray(present, dtype=np.int64), minlength=len(table)).astype(np.int64)
    room = counts
    for level in levels:
        room = np.where(np.isin(level.ids, level.domains), room, 0)
    while wanted > 0:
        chosen = _divide(levels, room, there, wanted)
        fewer = min((_even_part(level, chosen, there) for level in levels), default=wanted)
        if fewer >= int(chosen.sum()):
            return chosen
        wanted = fewer
    return np.zeros_like(counts)


def _level(table: NodeTable, rule: TopologySpread, usable: Bools) -> _Level:
    ids = table.level(rule.level).ids
    return _Level(ids, np.unique(ids[usable & (ids != ABSENT)]), rule.skew)


def _even_part(level: _Level, chosen: Ints, there: Ints) -> int:
    """How many of the chosen do not go beyond what the emptiest domain allows."""
    before, more = level.sums(there), level.sums(chosen)
    cap = min((before + more).tolist(), default=0) + level.skew
    return int(np.clip(cap - before, 0, more).sum())


def _divide(levels: Sequence[_Level], room: Ints, there: Ints, wanted: int) -> Ints:
    """Fill the emptiest domains first; inside each, those of the next finer level."""
    level = levels[0]
    shares = _poured(level.sums(there), level.sums(room), wanted)
    if len(levels) == 1:
        return _limited(room, level, shares)
    chosen = np.zeros_like(room)
    for domain, share in zip(level.domains.tolist(), shares.tolist(), strict=True):
        if share:
            chosen += _divide(levels[1:], np.where(level.ids == domain, room, 0), there, share)
    return chosen


def _poured(there: Ints, room: Ints, wanted: int) -> Ints:
    """Give every further replica to the emptiest domain that has room, like water that finds its level."""
    low, high = 0, int((there + room).max(initial=0))
    while low < high:
        middle = (low + high) // 2
        if int(np.clip(middle - there, 0, room).sum()) >= wanted:
            high = middle
        else:
            low = middle + 1
    shares = np.clip(low - 1 - there, 0, room)
    open_ones = np.flatnonzero((there + shares == low - 1) & (shares < room))
    roomiest = open_ones[np.lexsort((open_ones, -room[open_ones]))]
    shares[roomiest[: max(wanted - int(shares.sum()), 0)]] += 1
    return shares


def _limited(room: Ints, level: _Level, shares: Ints) -> Ints:
    """Give the share of each domain to its roomiest nodes."""
    allowance = np.zeros(int(level.ids.max(initial=0)) + 1, dtype=np.int64)
    allowance[level.domains] = shares
    rows = np.flatnonzero(room)
    ordered = rows[np.lexsort((rows, -room[rows], level.ids[rows]))]
    amounts, domains = room[ordered], level.ids[ordered]
    total = np.cumsum(amounts) - amounts
    first = np.unique(domains, return_index=True)[1]
    before = total - np.repeat(total[first], np.diff(np.append(first, len(ordered))))
    chosen = np.zeros_like(room)
    chosen[ordered] = np.clip(allowance[domains] - before, 0, amounts)
    return chosen
