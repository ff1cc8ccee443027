"""What one cycle tells the next. A value: ``decide`` returns it and the next ``take_snapshot`` receives it.

Losing it (a restart of the controller) costs speed and a little patience, never correctness; the controller keeps
``usage`` itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gangline.model import JobId, NodeName, QueueName, Timestamp
from gangline.scheduling.demand.shapes import Shape
from gangline.scheduling.gangs.holdings import Holdings
from gangline.scheduling.placement.placer import Needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """Somebody was stopped so that this job can start; it comes before all others until it has, or ``until``.

    ``nodes`` are those on which a place was found for it: others who are nominated count on the rest.
    """

    job_id: JobId
    until: Timestamp
    nodes: tuple[NodeName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The place of the first in line, and when it was told to be free."""

    job_id: JobId
    at: Timestamp
    nodes: tuple[NodeName, ...]


class PastUse(NamedTuple):
    """The dominant share of a queue up to some moment, averaged with ever less weight, and its share from then on."""

    share: float
    at: Timestamp
    using: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SizePlan:
    """The sizes that were chosen for gangs that leave it to the scheduler, when, and among whom.

    ``members`` has the largest size that each was measured at: with one more, there is more to choose from.
    ``since`` is when the first of these plans was made: before that nobody has listened to the gangs.
    """

    at: Timestamp
    since: Timestamp
    members: frozenset[tuple[JobId, int]]
    sizes: Mapping[JobId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleMemory:
    """Nominations in the order they are owed, the place of the first in line, use per queue, and what can be reused.

    For ``unreached`` jobs nobody was looked for who could make room, which is done first now. ``shrunk`` is when a gang
    last gave something up for another; ``seen``, how many replicas of each shape have started (see ``experience``).
    """

    nominations: tuple[Nomination, ...] = ()
    reservation: Reservation | None = None
    unreached: frozenset[JobId] = frozenset()
    usage: Mapping[QueueName, PastUse] = field(default_factory=dict)
    shrunk: Mapping[JobId, Timestamp] = field(default_factory=dict)
    seen: Mapping[Shape, float] = field(default_factory=dict)
    sizes: SizePlan | None = None
    holdings: Holdings | None = None
    needs: Needs | None = field(default=None, compare=False)
