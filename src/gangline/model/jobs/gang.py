"""The order an engine receives: these replicas of this attempt, on these nodes."""

from dataclasses import dataclass
from typing import NamedTuple

from gangline.model.identity import JobId, NodeName, ReplicaId
from gangline.model.jobs.spec import JobSpec


class GangId(NamedTuple):
    """One attempt at running one job; the key that makes every engine call idempotent."""

    job_id: JobId
    attempt: int

    def __str__(self) -> str:
        return f"{self.job_id}.{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangReplica:
    """One replica as it should be.

    ``incarnation`` is 0 at first and higher with every start in place. ``started`` says that this incarnation has
    run already: an engine that no longer finds it reports it lost and never starts it a second time.
    ``gpu_slot`` tells replicas apart that have a part of a GPU: on one node, equal numbers share a device and different
    numbers do not.
    """

    id: ReplicaId
    node: NodeName
    incarnation: int = 0
    started: bool = False
    gpu_slot: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """The checkpoint that a user chose: from this attempt on, later ones of earlier attempts do not count."""

    step: int
    attempt: int

    def __str__(self) -> str:
        """As replicas are told it (``GANGLINE_RESUME_FROM``)."""
        return f"{self.step}.{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """What should exist of one attempt. Replicas that are not listed should not be running."""

    id: GangId
    spec: JobSpec
    replicas: tuple[GangReplica, ...]
    resume_from: ResumePoint | None = None
