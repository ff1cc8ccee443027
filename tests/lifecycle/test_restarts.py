"""What fails or is lost comes back: alone, with its gang, or not at all."""

import pytest

from gangline.lifecycle import RunGang, advance, timers
from gangline.lifecycle import events as e
from gangline.model import (
    Phase,
    Policy,
    ReplicaState,
    Restart,
    Retry,
    Timestamp,
)
from gangline.testing.builders import START, make_role, make_running_job, make_spec
from tests.lifecycle.steps import CHIEF, PS, ask, exited, placed, step, stopped, worker


def test_a_failing_gang_is_retried_with_growing_pauses_until_its_budget_is_spent() -> None:
    job = make_running_job(make_spec(policy=Policy(max_attempts=3, backoff_seconds=10)))
    pauses = []
    while job.phase is not Phase.FAILED:
        job = step(job, exited(job, worker(), 7))
        if job.retry_at is not None:
            pauses.append(job.retry_at - START - 1)
            assert not job.placeable, "the old gang still holds its machines"
            job = step(job, stopped(job))
            assert job.placeable
            job = step(job, placed(job))
    assert pauses == [10, 20]
    assert (job.attempt, job.failures, job.exit_code) == (3, 3, 7)
    assert job.reason == "ReplicaFailed"
    assert job.message == "failed 3 times, policy.max_attempts is 3: worker-0 exited with 7"


def test_a_loss_restarts_the_gang_and_costs_no_attempt() -> None:
    job = make_running_job()
    lost = e.ReplicaLost(job_id=job.id, at=Timestamp(START + 1), attempt=1, replica=worker())
    job = step(job, lost)
    assert (job.phase, job.failures) == (Phase.RESTARTING, 0)


@pytest.mark.parametrize(
    ("in_place", "limit", "want"),
    [
        pytest.param(True, 1, (Phase.PROCESSING, 1, 1), id="its place is there"),
        pytest.param(False, 1, (Phase.RESTARTING, 1, 0), id="its place is gone"),
        pytest.param(True, 0, (Phase.RESTARTING, 1, 0), id="it was started too often"),
    ],
)
def test_a_loss_restarts_the_replica_alone_where_its_role_asks_for_that(
    in_place: bool, limit: int, want: tuple[Phase, int, int]
) -> None:
    roles = (make_role("worker", replicas=2, restart=Restart.REPLICA),)
    job = make_running_job(make_spec(roles=roles, policy=Policy(max_replica_restarts=limit)))
    lost = e.ReplicaLost(job_id=job.id, at=Timestamp(START + 1), attempt=1, replica=worker(), in_place=in_place)
    job = step(job, lost)
    assert (job.phase, job.attempt, job.replica_restarts) == want
    if want[0] is Phase.PROCESSING:
        (timer,) = timers(job)
        job = step(job, timer.event)
        assert [(each.state, each.incarnation) for each in job.replicas] == [
            (ReplicaState.PENDING, 1),
            (ReplicaState.RUNNING, 0),
        ]


def test_an_elastic_role_lives_on_with_fewer_when_one_is_lost() -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("worker", replicas=3, minimum=2)))
    job = make_running_job(spec)
    for index, want in ((2, Phase.PROCESSING), (1, Phase.RESTARTING)):
        lost = e.ReplicaLost(job_id=job.id, at=Timestamp(START + 1), attempt=1, replica=worker(index))
        job = step(job, lost)
        assert job.phase is want


def test_when_the_last_unfinished_elastic_replica_is_lost_the_job_is_complete() -> None:
    job = make_running_job(make_spec(roles=(make_role("worker", replicas=2, minimum=1),)))
    job = step(job, exited(job, worker(0), 0))
    lost = e.ReplicaLost(job_id=job.id, at=Timestamp(START + 2), attempt=1, replica=worker(1))
    assert step(job, lost).phase is Phase.COMPLETED


def test_a_role_may_have_its_own_rule_for_what_deserves_another_try() -> None:
    spec = make_spec(roles=(make_role("chief", retry=Retry.SIGNALS), make_role("ps")), policy=Policy(max_attempts=2))
    job = make_running_job(spec)
    assert [step(job, exited(job, replica, 1)).phase for replica in (CHIEF, PS)] == [Phase.FAILED, Phase.RESTARTING]


def test_a_replica_with_its_own_restart_comes_back_in_place_while_the_others_go_on() -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("ps", restart=Restart.REPLICA)))
    job = make_running_job(spec)
    job = step(job, exited(job, PS, 137))
    assert job.phase is Phase.PROCESSING
    (timer,) = timers(job)
    outcome = advance(job, timer.event)
    (order,) = outcome.instructions
    assert isinstance(order, RunGang)
    again = next(replica for replica in order.gang.replicas if replica.id == PS)
    assert (again.incarnation, again.started) == (1, False)
    late = advance(outcome.job, exited(job, PS, 1, incarnation=0)).job
    assert late == outcome.job, "news of the earlier incarnation is late"
    job = step(outcome.job, exited(job, PS, 1, incarnation=1))
    assert job.replica_restarts == 2


def test_a_replica_that_restarts_too_often_takes_the_gang_with_it() -> None:
    policy = Policy(max_replica_restarts=0)
    job = make_running_job(make_spec(roles=(make_role(restart=Restart.REPLICA),), policy=policy))
    failed = step(job, exited(job, worker(), 1))
    assert failed.phase is Phase.FAILED
    limit = "policy.max_replica_restarts is 0"
    assert failed.message == f"no more restarts in place, {limit}: worker-0 exited with 1"


def test_only_signals_are_retried_when_the_job_says_so() -> None:
    policy = Policy(max_attempts=5, retry=Retry.SIGNALS)
    job = make_running_job(make_spec(policy=policy))
    assert step(job, exited(job, worker(), 127)).phase is Phase.FAILED
    assert step(job, exited(job, worker(), 143)).phase is Phase.RESTARTING


@pytest.mark.parametrize("request_kind", [e.HaltRequested, e.CancelRequested, e.DeleteRequested])
def test_a_back_off_is_forgotten_when_the_gang_is_taken_down(request_kind: type[e.Event]) -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("ps", restart=Restart.REPLICA)))
    job = make_running_job(spec)
    job = step(job, exited(job, PS, 137), ask(request_kind, job, after=1))
    assert timers(job) == ()


def test_a_lost_replica_of_a_role_that_never_restarts_fails_the_job() -> None:
    job = make_running_job(make_spec(roles=(make_role(restart=Restart.NEVER),)))
    lost = e.ReplicaLost(job_id=job.id, at=Timestamp(START + 1), attempt=1, replica=worker())
    failed = step(job, lost)
    assert (failed.phase, failed.reason, failed.exit_code) == (Phase.FAILED, "ReplicaLost", 137)


def test_a_gang_that_cannot_ever_start_is_not_retried() -> None:
    job = make_running_job(make_spec(policy=Policy(max_attempts=5)))
    hopeless = e.GangFailed(
        job_id=job.id, at=Timestamp(START), attempt=1, reason="InputsFailed", message="no such file", permanent=True
    )
    assert step(job, hopeless).phase is Phase.FAILED


def test_a_gang_that_could_not_start_for_no_fault_of_its_own_tries_again_for_nothing() -> None:
    job = make_running_job(make_spec(policy=Policy(max_attempts=1, backoff_seconds=2)))
    refused = e.GangFailed(
        job_id=job.id, at=Timestamp(START), attempt=1, reason="QuotaExceeded", message="too many pods", blameless=True
    )
    waiting = step(job, refused)
    assert (waiting.phase, waiting.reason, waiting.message) == (Phase.RESTARTING, "QuotaExceeded", "too many pods")
    assert (waiting.failures, waiting.retry_at) == (0, START + 2)
