"""The schedule of a fault drill: when it strikes, whom, and when it is over."""

from collections.abc import Collection
from dataclasses import replace
from typing import cast

import pytest

from gangline.errors import ConflictError, InvalidInputError, WaitTimeoutError
from gangline.model import Job, Phase, PhaseEntry, ReplicaId, ReplicaState, Timestamp
from gangline.sdk import Client
from gangline.sdk.chaos import disturb
from gangline.testing.builders import START, make_role, make_running_job, make_spec

SPEC = make_spec(roles=(make_role("worker", replicas=3), make_role("ps")))


class ScriptedClient:
    """One job on a clock that moves only while somebody waits; the job ends at ``ends_at``."""

    def __init__(self, *, ends_at: float = 1000.0) -> None:
        self.job = make_running_job(SPEC)
        self.time = 0.0
        self.ends_at = ends_at
        self.killed: list[ReplicaId] = []
        self.refusing = False

    def now(self) -> float:
        return self.time

    def get(self, job: str) -> Job:
        return self.job

    def wait(self, job: str, *, phases: Collection[Phase], timeout: float | None) -> Job:
        if self.job.phase in phases:
            return self.job
        until = self.ends_at if timeout is None else self.time + timeout
        self.time = min(until, self.ends_at)
        if self.time < self.ends_at:
            raise WaitTimeoutError("not yet")
        ended = PhaseEntry(phase=Phase.COMPLETED, at=Timestamp(START + self.time), reason="Test")
        self.job = replace(self.job, history=(*self.job.history, ended))
        return self.job

    def kill(self, job: str, replica: ReplicaId) -> bool:
        if self.refusing:
            raise ConflictError("it has just ended")
        self.killed.append(replica)
        return True


def drill(client: ScriptedClient, periods: dict[str, float], **options: object) -> list[tuple[float, str]]:
    strikes = disturb(cast(Client, client), "mnist", periods, now=client.now, **options)
    return [(strike.after_seconds, strike.role) for strike in strikes]


def test_each_role_is_struck_at_its_own_rhythm_until_the_job_ends() -> None:
    found = drill(ScriptedClient(ends_at=18.0), {"worker": 5.0, "ps": 8.0})
    assert found == [(5.0, "worker"), (8.0, "ps"), (10.0, "worker"), (15.0, "worker"), (16.0, "ps")]


def test_a_drill_ends_when_its_time_is_over() -> None:
    assert drill(ScriptedClient(), {"worker": 5.0}, for_seconds=12.0) == [(5.0, "worker"), (10.0, "worker")]


def test_the_same_seed_strikes_the_same_replicas() -> None:
    clients = [ScriptedClient(ends_at=100.0) for _ in range(3)]
    for client, seed in zip(clients, (7, 7, 8), strict=True):
        drill(client, {"worker": 5.0}, seed=seed)
    assert clients[0].killed == clients[1].killed != clients[2].killed
    assert len(set(clients[0].killed)) == 3, "every worker has its turn"


def test_a_role_of_which_nothing_runs_is_passed_over() -> None:
    client = ScriptedClient(ends_at=6.0)
    client.job = replace(
        client.job,
        replicas=tuple(replace(status, state=ReplicaState.BACKING_OFF) for status in client.job.replicas),
    )
    (strike,) = disturb(cast(Client, client), "mnist", {"worker": 5.0}, now=client.now)
    assert (strike.replica, client.killed) == (None, [])


def test_a_replica_that_ended_by_itself_in_between_is_no_error() -> None:
    client = ScriptedClient(ends_at=6.0)
    client.refusing = True
    (strike,) = disturb(cast(Client, client), "mnist", {"worker": 5.0}, now=client.now)
    assert strike.replica is None


@pytest.mark.parametrize(
    ("periods", "want"),
    [
        pytest.param({"chief": 5.0}, "one of worker, ps", id="no such role"),
        pytest.param({"worker": 0.0}, "too often", id="no pause"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(periods: dict[str, float], want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        drill(ScriptedClient(), periods)
