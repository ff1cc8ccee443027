"""What a scheduling policy may decide. Each protocol is one verb; a plugin is any object that has it.

Plugins receive the snapshot's values and nothing else: no client, no clock, no disk. The same input must give
the same answer, or decisions would not repeat. Lower numbers come first, everywhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gangline.allocation.sizes import Candidate
from gangline.model import Job, Queue, Timestamp
from gangline.scheduling.demand.shapes import Shape
from gangline.scheduling.gangs.holdings import Held
from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.nodes.table import Bools, Floats, Ints, NodeTable


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nodes that one rule keeps a shape away from, and the rule in words that continue "because it ..."."""

    rule: str
    nodes: Bools


class Filter(Protocol):
    """Called once per shape and set of nodes: which nodes must it not use, whatever is free on them?"""

    def refuse(self, table: NodeTable, shape: Shape) -> Iterable[Refusal]:
        """Yield a refusal per rule that keeps any node away. A node that nothing refuses may be used."""
        ...


class Score(Protocol):
    """Called whenever rows have changed: how good would each node be for one more replica?"""

    def score(self, draft: Draft, need: Need, rows: Ints) -> Floats:
        """Return a number per row; the lowest is taken first. Must depend on nothing but that row of the draft."""
        ...


@runtime_checkable
class LearningScore(Score, Protocol):
    """An optional power of ``Score``: it prepares for the replicas that usually arrive."""

    def taught(self, seen: Mapping[Shape, float]) -> Score:
        """Return the score to use where so many replicas of each shape have been seen."""
        ...


@runtime_checkable
class NodeScore(Score, Protocol):
    """An optional power of ``Score``: it is the same for every replica, and follows from the amounts alone.

    Whoever has it places tens of thousands of single replicas in a cycle without a search of all nodes for each.
    """

    def score_one(self, free: Sequence[int], capacity: Sequence[int]) -> float:
        """Return the very number that ``score`` gives a node with these amounts, one per column of the table."""
        ...


class JobOrder(Protocol):
    """Called once per job and cycle: who comes first inside a queue, and who may stop whom?"""

    def rank(self, job: Job, now: Timestamp) -> float:
        """Return the importance; a waiting job may stop running ones of its queue with a strictly higher number."""
        ...

    def key(self, job: Job, now: Timestamp) -> tuple[float, ...]:
        """Return the order among jobs of equal rank. Ties are broken by submission time and then by id."""
        ...


@runtime_checkable
class SharedOrder(JobOrder, Protocol):
    """An optional power of ``JobOrder``: jobs of equal rank stand in line for somebody, and those take turns."""

    def party(self, job: Job) -> str:
        """Return for whom the job stands there."""
        ...


@runtime_checkable
class ChangingOrder(JobOrder, Protocol):
    """An optional power of ``JobOrder``: it says when the rank of a gang that runs will change with time alone.

    Until then the rank is not asked for again; orders are told apart by comparing them, and must be hashable.
    """

    def changes_at(self, job: Job, now: Timestamp) -> Timestamp | None:
        """Return the first moment at which ``rank`` gives another answer; None when it never does by time alone."""
        ...


class QueueOrder(Protocol):
    """Called whenever a queue has got something: which of several sibling queues is served next?

    Gangs that the share of their queue covers are served before any other; this orders queues among either.
    """

    def key(self, queue: Queue, share: float, *, below_guarantee: bool) -> tuple[float, ...]:
        """Return a sort key. ``share`` is the part of the cluster that the queue has beyond its guarantee, 0 to 1."""
        ...


class VictimCost(Protocol):
    """Called once per gang that could be stopped: what would stopping it waste?"""

    def cost(self, gang: Held, now: Timestamp) -> float:
        """Return the waste; cheap gangs are stopped first."""
        ...


class SizePolicy(Protocol):
    """Called when sizes are chosen, for the gangs of one priority that leave theirs to the scheduler."""

    def sizes(self, candidates: Sequence[Candidate], capacity: int) -> Mapping[str, int]:
        """Return how many replicas each has, by name; all must fit. Empty when the least of all do not."""
        ...
