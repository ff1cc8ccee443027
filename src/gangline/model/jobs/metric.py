"""A number that training code reported."""

from dataclasses import dataclass

from gangline.model.clock import Timestamp
from gangline.model.identity import JobId, ReplicaId

CHECKPOINT_METRIC = "checkpoint"
"""The name under which training code reports that it has saved its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One reported value of one replica."""

    job_id: JobId
    replica: ReplicaId
    name: str
    value: float
    step: int | None
    at: Timestamp
