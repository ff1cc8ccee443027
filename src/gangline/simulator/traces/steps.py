"""Work that is counted in steps: a job has a number to make, and a step takes as long as its placement makes it."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

from gangline.errors import InvalidInputError
from gangline.model import Gang, GangReplica, JobId, Node, NodeName


class StepWork(ABC):
    """Progress of every job in steps, across attempts. What a step takes is up to the trace."""

    def __init__(self) -> None:
        self._steps: dict[JobId, float] = {}

    @abstractmethod
    def total_steps(self, job_id: JobId) -> float:
        """How many steps a job makes in all."""

    @abstractmethod
    def step_seconds(self, gang: Gang) -> float:
        """How long one step takes where the gang is now."""

    def seconds_left(self, gang: Gang) -> float:
        """Steps that are left, at this placement's speed."""
        job_id = gang.id.job_id
        return max(self.total_steps(job_id) - self._steps.get(job_id, 0.0), 0.0) * self.step_seconds(gang)

    def advance(self, gang: Gang, seconds: float) -> None:
        """Steps that were made in this time."""
        job_id = gang.id.job_id
        self._steps[job_id] = self._steps.get(job_id, 0.0) + seconds / self.step_seconds(gang)

    def exit_code(self, gang: Gang, replica: GangReplica) -> int | None:
        """All goes well."""
        del gang, replica
        return 0


def measured_types(nodes: Sequence[Node], known: Collection[str], otherwise: str) -> Mapping[NodeName, str]:
    """The GPU type of every node, as the measurements call it; a node that names none has those of ``otherwise``."""
    types = {node.name: node.gpu_type or otherwise for node in nodes}
    for kind in sorted({*types.values()} - {*known}):
        raise InvalidInputError(
            f"the trace has no measurements on GPUs of type '{kind}'",
            field="--nodes",
            expected=f"one of {', '.join(sorted(known))}",
        )
    return types
