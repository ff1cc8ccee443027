"""Where the replicas of a gang sit: what placement finds, the other drafts book and a decision numbers."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from gangline.model import NodeName, ReplicaId, RoleName
from gangline.scheduling.demand.shapes import RoleDemand
from gangline.scheduling.nodes.devices import CLOSED
from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.nodes.table import Ints, NodeTable


class Seats(NamedTuple):
    """Where replicas of one role go: ``counts[i]`` of them on ``rows[i]``; ``slots`` has the GPU that each shares."""

    role: RoleDemand
    need: Need
    rows: Ints
    counts: Ints
    slots: tuple[int, ...] = ()

    def each(self) -> Iterator[int]:
        """The row of every replica, in order."""
        for row, count in zip(self.rows.tolist(), self.counts.tolist(), strict=True):
            for _ in range(count):
                yield row


Layout = tuple[Seats, ...]

ONE: Ints = np.ones(1, dtype=np.int64)
"""The counts of a single replica. Most gangs have but one, so it is recognised by its identity."""

NO_SLOTS: Mapping[ReplicaId, int] = MappingProxyType({})


def book(draft: Draft, layout: Layout) -> Layout:
    """Take the room of a gang that was placed in another draft; which GPUs are shared is what this one says."""
    if sum(seats.need.part > 0 for seats in layout) < 2:
        return tuple(seats._replace(slots=draft.take_all(seats.need, seats.rows, seats.counts)) for seats in layout)
    counts = [np.zeros(len(draft.table), dtype=np.int64) for _ in layout]
    for seats, each in zip(layout, counts, strict=True):
        each[seats.rows] = seats.counts
    slots = draft.take_together([seats.need for seats in layout], counts)
    return tuple(
        Seats(seats.role, seats.need, np.flatnonzero(each), each[np.flatnonzero(each)], mine)
        for seats, each, mine in zip(layout, counts, slots, strict=True)
    )


def is_roomy(draft: Draft, layout: Layout) -> bool:
    """Whether a gang that was placed in another draft could have the same nodes in this one."""
    wanted: dict[int, list[tuple[Need, int]]] = {}
    for seats in layout:
        for row, count in zip(seats.rows.tolist(), seats.counts.tolist(), strict=True):
            wanted.setdefault(row, []).append((seats.need, count))
    return all(draft.has_room(row, each) for row, each in wanted.items())


def placement_of(layout: Sequence[Seats], table: NodeTable) -> dict[ReplicaId, NodeName]:
    """Number the replicas of a new gang: indexes 0..n-1 of each role, node by node."""
    first = layout[0] if layout else None
    if first is not None and first.counts is ONE and len(layout) == 1:
        return {_replica(first.role.name, first.role.first): table.names[first.rows.item()]}
    return {replica: table.names[row] for _, members in _numbered(layout) for replica, row in members}


def slots_of(layout: Sequence[Seats]) -> Mapping[ReplicaId, int]:
    """The GPU that each replica shares, of those that share one; numbered as ``placement_of`` does."""
    for seats in layout:
        if seats.slots:
            break
    else:
        return NO_SLOTS
    pairs = (
        pair for seats, members in _numbered(layout) if seats.slots for pair in zip(members, seats.slots, strict=True)
    )
    return {replica: slot for (replica, _), slot in pairs if slot != CLOSED}


def _numbered(layout: Sequence[Seats]) -> Iterator[tuple[Seats, list[tuple[ReplicaId, int]]]]:
    """Seats with the replicas that take them and their rows; a role may have several, as it grows."""
    numbers: dict[RoleName, int] = {}
    for seats in layout:
        role = seats.role.role
        first = numbers.get(role, seats.role.first)
        members = [(_replica(seats.role.name, number), row) for number, row in enumerate(seats.each(), first)]
        numbers[role] = first + len(members)
        yield seats, members


@lru_cache(maxsize=4096)
def _replica(role: RoleName, number: int) -> ReplicaId:
    """Most gangs have the same few roles: one id serves them all."""
    return ReplicaId(role, number)
