"""What the client puts together from several answers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from gangline.model import Job, Metric, Node, NodeUsage, ReplicaUsage

CODE_PREFIX = "sha256:"
"""How a job names code that the service has; anything else is a directory of the client."""


class Metrics(tuple[Metric, ...]):
    """Reported numbers, oldest first; ``total`` is how many there are, of which some may have been thinned out.

    ``complete`` is False where the service has given up values that were older than these.
    """

    total: int
    complete: bool

    def __new__(cls, metrics: Iterable[Metric] = (), *, total: int | None = None, complete: bool = True) -> Self:
        """Return the numbers."""
        made = super().__new__(cls, metrics)
        made.total, made.complete = len(made) if total is None else total, complete
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTop:
    """A node, what is used of it, and how many replicas run there."""

    node: Node
    usage: NodeUsage
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTop:
    """A running job and what its replicas use together."""

    job: Job
    replicas: tuple[ReplicaUsage, ...]

    @property
    def cpu_millis(self) -> int:
        """CPU time per time, in thousandths of a core."""
        return sum(replica.cpu_millis for replica in self.replicas)

    @property
    def memory_mib(self) -> int:
        """Memory in use."""
        return sum(replica.memory_mib for replica in self.replicas)
