"""A number that training code reported."""

from dataclasses import dataclass

from gangline.model.clock import Timestamp
from gangline.model.identity import JobId, ReplicaId


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One reported value of one replica."""

    job_id: JobId
    replica: ReplicaId
    name: str
    value: float
    step: int | None
    at: Timestamp
