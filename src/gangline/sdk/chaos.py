"""A fault drill: kills random replicas of a running job on a schedule and says what it did."""

import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from gangline.errors import ConflictError, InvalidInputError, WaitTimeoutError
from gangline.model import FINAL_PHASES, Job, Phase, ReplicaId, ReplicaState
from gangline.sdk.client import Client

Monotonic = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One attempt to kill: ``replica`` is None if no replica of the role ran just then."""

    after_seconds: float
    role: str
    replica: ReplicaId | None


def disturb(
    client: Client,
    job: str,
    periods: Mapping[str, float],
    *,
    for_seconds: float | None = None,
    seed: int | None = None,
    now: Monotonic = time.monotonic,
) -> Generator[Strike, None, None]:
    """Kill one random running replica of each role again and again, every few seconds as given.

    The drill begins when the job runs and is over when the job is finished or halted, or after ``for_seconds``.
    """
    found = client.get(job)
    _check(found, periods)
    chance = random.Random(seed)
    if _ends_before(client, found, frozenset({Phase.PROCESSING}), None):
        return
    began = now()
    end = None if for_seconds is None else began + for_seconds
    for at, role in _schedule(periods, began):
        if end is not None and at > end:
            return
        if _ends_before(client, found, frozenset(), at - now()):
            return
        killed = _kill_one(client, client.get(found.id), role, chance)
        yield Strike(after_seconds=now() - began, role=role, replica=killed)


def _check(job: Job, periods: Mapping[str, float]) -> None:
    known = [role.name for role in job.spec.roles]
    for role, seconds in periods.items():
        if role not in known:
            raise InvalidInputError(
                f"job '{job.name}' has no role '{role}'", field="role", expected=f"one of {', '.join(known)}"
            )
        if seconds <= 0:
            raise InvalidInputError(f"{seconds:g} s is too often", field=role, expected="more than 0 s")


def _schedule(periods: Mapping[str, float], began: float) -> Iterator[tuple[float, str]]:
    """Every moment to strike, in order, forever."""
    turns = {role: count(1) for role in periods}
    upcoming = {role: began + seconds * next(turns[role]) for role, seconds in periods.items()}
    while upcoming:
        role = min(upcoming, key=lambda role: upcoming[role])
        yield upcoming[role], role
        upcoming[role] = began + periods[role] * next(turns[role])


def _ends_before(client: Client, job: Job, phases: frozenset[Phase], seconds: float | None) -> bool:
    """Wait for the job's end or for one of the phases, no longer than given; whether it was the end."""
    resting = FINAL_PHASES | {Phase.HALTED}
    try:
        found = client.wait(job.id, phases=resting | phases, timeout=None if seconds is None else max(0.0, seconds))
    except WaitTimeoutError:
        return False
    return found.phase in resting


def _kill_one(client: Client, job: Job, role: str, chance: random.Random) -> ReplicaId | None:
    running = [status.id for status in job.replicas if status.id.role == role and status.state is ReplicaState.RUNNING]
    if not running:
        return None
    chosen = chance.choice(running)
    try:
        return chosen if client.kill(job.id, chosen) else None
    except ConflictError:
        return None  # it ended by itself in between
