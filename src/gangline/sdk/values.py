"""What the client puts together from several answers."""

from dataclasses import dataclass

from gangline.model import Job, Node, NodeUsage, ReplicaUsage

CODE_PREFIX = "sha256:"
"""How a job names code that the service has; anything else is a directory of the client."""


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
