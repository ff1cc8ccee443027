"""How long gangs take: the workload model of the simulated engine."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from gangline.lifecycle.events import SpeedMeasured
from gangline.model import Gang, GangReplica, JobId, Timestamp


class Work(Protocol):
    """What there is to do in every job. Keeps the progress of each across attempts, as a checkpoint would."""

    def seconds_left(self, gang: Gang) -> float:
        """How long this gang, as it is placed now, still needs."""
        ...

    def advance(self, gang: Gang, seconds: float) -> None:
        """The gang, as it was placed, has worked this long."""
        ...

    def exit_code(self, gang: Gang, replica: GangReplica) -> int | None:
        """How a replica ends when the work is done; None: it goes on until it is stopped."""
        ...


@runtime_checkable
class StartTimes(Protocol):
    """An optional power of ``Work``: it knows how long each gang takes to start, and to start again."""

    def start_seconds(self, gang: Gang) -> float:
        """How long it takes from the order to run replicas until the gang works; see ``SimulatedEngine``."""
        ...


@runtime_checkable
class Measuring(Protocol):
    """An optional power of ``Work``: its programs report how fast they go, and restart whenever their gang changes."""

    def measure(self, gang: Gang, seconds: float, at: Timestamp) -> SpeedMeasured | None:
        """The gang has worked this long since it was last asked: what its program reports now, if anything."""
        ...


class FixedWork:
    """Every job needs a given time with all of its replicas, and proportionally longer with fewer.

    Jobs that nobody described take as long as they declare, else ``otherwise`` seconds.
    """

    def __init__(self, seconds: Mapping[JobId, float], otherwise: float = 3600.0) -> None:
        self._seconds = seconds
        self._otherwise = otherwise
        self._done: dict[JobId, float] = {}

    def seconds_left(self, gang: Gang) -> float:
        """What is left, at the speed of this gang."""
        job_id = gang.id.job_id
        left = max(self._total(gang) - self._done.get(job_id, 0.0), 0.0)
        return left / _speed(gang)

    def advance(self, gang: Gang, seconds: float) -> None:
        """Add progress."""
        job_id = gang.id.job_id
        self._done[job_id] = self._done.get(job_id, 0.0) + seconds * _speed(gang)

    def exit_code(self, gang: Gang, replica: GangReplica) -> int | None:
        """All goes well."""
        del gang, replica
        return 0

    def _total(self, gang: Gang) -> float:
        known = self._seconds.get(gang.id.job_id)
        if known is None:
            known = gang.spec.policy.expected_seconds
        return self._otherwise if known is None else known


def _speed(gang: Gang) -> float:
    """The part of its full size that a gang has; one that grew past it is as much faster."""
    full = sum(role.replicas for role in gang.spec.roles)
    return max(len(gang.replicas), 1) / full
