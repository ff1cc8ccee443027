"""What the client puts together from several answers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from gangline.errors import InvalidInputError
from gangline.model import Job, Metric, Node, NodeUsage, ReplicaUsage

if TYPE_CHECKING:
    import numpy as np

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

    def to_numpy(self) -> "dict[str, np.ndarray[Any, Any]]":
        """Return the columns as arrays: at, metric, value, step (-1 for none) and replica."""
        import numpy as np

        return {
            "at": np.array([each.at for each in self], dtype=float),
            "metric": np.array([each.name for each in self], dtype=str),
            "value": np.array([each.value for each in self], dtype=float),
            "step": np.array([-1 if each.step is None else each.step for each in self], dtype=int),
            "replica": np.array([str(each.replica) for each in self], dtype=str),
        }

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each number; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise InvalidInputError("frames need pandas", expected="it installed: pip install pandas") from error
        frame = pd.DataFrame(self.to_numpy())
        frame["at"] = pd.to_datetime(frame["at"], unit="s", utc=True)
        return frame

    def __repr__(self) -> str:
        names = ", ".join(sorted({each.name for each in self}))
        return f"<Metrics: {len(self)} values of {names or 'nothing'}>"


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
