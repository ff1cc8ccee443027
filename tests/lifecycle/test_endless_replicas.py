"""Replicas that should never end: started again alone after an exit with 0, and never counted as done."""

import pytest

from gangline.lifecycle import RunGang, advance, timers
from gangline.lifecycle.events import ReplicaExited
from gangline.lifecycle.invariants import check_invariants, check_step
from gangline.model import Job, Phase, Policy, ReplicaId, ReplicaState, Restart, Retry, RoleName, Success, Timestamp
from gangline.testing.builders import START, make_role, make_running_job, make_spec

CHIEF, PS, WORKER = (ReplicaId(RoleName(name), 0) for name in ("chief", "ps", "worker"))


def after_exit(job: Job, replica: ReplicaId, code: int) -> Job:
    status = job.replica(replica)
    assert status is not None
    event = ReplicaExited(
        job_id=job.id,
        at=Timestamp(START + 1),
        attempt=job.attempt,
        replica=replica,
        exit_code=code,
        incarnation=status.incarnation,
    )
    after = advance(job, event).job
    check_invariants(after)
    check_step(job, after)
    return after


def running(*endless: str, restart: Restart = Restart.GANG, **policy: object) -> Job:
    roles = tuple(
        make_role(name, retry=Retry.ALWAYS if name in endless else None, restart=restart)
        for name in ("chief", "ps", "worker")
    )
    return make_running_job(make_spec(roles=roles, policy=Policy(max_attempts=3, **policy)))


@pytest.mark.parametrize("restart", [Restart.GANG, Restart.REPLICA])
def test_one_that_ends_well_is_started_again_while_the_others_go_on(restart: Restart) -> None:
    job = after_exit(running("ps", restart=restart), PS, 0)
    assert (job.phase, job.replica_restarts) == (Phase.PROCESSING, 1)
    (timer,) = timers(job)
    outcome = advance(job, timer.event)
    (order,) = outcome.instructions
    assert isinstance(order, RunGang)
    assert {replica.id: (replica.incarnation, replica.started) for replica in order.gang.replicas} == {
        CHIEF: (0, True),
        PS: (1, False),
        WORKER: (0, True),
    }


@pytest.mark.parametrize(
    ("restart", "code", "want"),
    [
        pytest.param(Restart.GANG, 1, Phase.RESTARTING, id="the gang restarts"),
        pytest.param(Restart.REPLICA, 1, Phase.PROCESSING, id="it restarts alone"),
        pytest.param(Restart.GANG, 137, Phase.RESTARTING, id="a signal is a failure too"),
    ],
)
def test_a_failure_restarts_as_its_rule_says(restart: Restart, code: int, want: Phase) -> None:
    assert after_exit(running("ps", restart=restart), PS, code).phase is want


@pytest.mark.parametrize(
    ("endless", "success", "want"),
    [
        pytest.param(("ps", "worker"), Success.LEAD, Phase.COMPLETED, id="the lead decides"),
        pytest.param(("ps",), Success.ALL, Phase.COMPLETED, id="servers need not be done"),
        pytest.param(("worker",), Success.ALL, Phase.PROCESSING, id="whoever counts is never done"),
        pytest.param(("chief",), Success.LEAD, Phase.PROCESSING, id="the lead itself is never done"),
    ],
)
def test_success_is_decided_by_the_others(endless: tuple[str, ...], success: Success, want: Phase) -> None:
    job = running(*endless, success=success)
    for replica in (WORKER, CHIEF):
        job = after_exit(job, replica, 0)
    assert job.phase is want


def test_one_that_ends_more_often_than_allowed_fails_the_job() -> None:
    job = after_exit(running("ps", max_replica_restarts=0), PS, 0)
    assert (job.phase, job.reason, job.exit_code) == (Phase.FAILED, "RestartLimitReached", 1)
    assert job.message.endswith("policy.max_replica_restarts is 0")


def test_a_role_that_never_restarts_is_done_when_it_ends_well() -> None:
    job = after_exit(running("worker", restart=Restart.NEVER), WORKER, 0)
    status = job.replica(WORKER)
    assert status is not None
    assert status.state is ReplicaState.SUCCEEDED
