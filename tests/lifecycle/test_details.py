"""Times, counts and messages that a story passes over, each pinned: how long a back-off is, what a record keeps."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gangline.lifecycle import advance, timers
from gangline.lifecycle import events as e
from gangline.lifecycle.invariants import InvariantError, check_invariants, check_step
from gangline.model import (
    DataMove,
    Job,
    NodeName,
    Phase,
    Policy,
    ReplicaId,
    ReplicaState,
    ReplicaStatus,
    Restart,
    Retry,
    RoleName,
    Timestamp,
)
from gangline.testing.builders import START, make_job, make_placement, make_role, make_running_job, make_spec

PATIENT = Policy(max_attempts=9, backoff_seconds=10, backoff_limit_seconds=1000)
PS = ReplicaId(RoleName("ps"), 0)


def worker(index: int = 0) -> ReplicaId:
    return ReplicaId(RoleName("worker"), index)


def status_of(job: Job, replica: ReplicaId) -> ReplicaStatus:
    status = job.replica(replica)
    assert status is not None
    return status


def started(job: Job, replica: ReplicaId, after: float) -> Job:
    incarnation = status_of(job, replica).incarnation
    at = Timestamp(START + after)
    event = e.ReplicaStarted(job_id=job.id, at=at, attempt=job.attempt, replica=replica, incarnation=incarnation)
    return advance(job, event).job


def exited(job: Job, replica: ReplicaId, code: int, after: float, message: str = "") -> Job:
    event = e.ReplicaExited(
        job_id=job.id,
        at=Timestamp(START + after),
        attempt=job.attempt,
        replica=replica,
        exit_code=code,
        incarnation=status_of(job, replica).incarnation,
        message=message,
    )
    return advance(job, event).job


def lost(job: Job, replica: ReplicaId, after: float, message: str = "") -> Job:
    event = e.ReplicaLost(
        job_id=job.id, at=Timestamp(START + after), attempt=job.attempt, replica=replica, message=message
    )
    return advance(job, event).job


def failed_to_start(job: Job, after: float = 1, **fields: bool) -> Job:
    at = Timestamp(START + after)
    event = e.GangFailed(job_id=job.id, at=at, attempt=job.attempt, reason="R", message="m", **fields)
    return advance(job, event).job


def stopped(job: Job, after: float) -> Job:
    return advance(job, e.GangStopped(job_id=job.id, at=Timestamp(START + after), attempt=job.attempt)).job


def placed(job: Job, after: float) -> Job:
    placement = make_placement(job.spec)
    return advance(job, e.GangPlaced(job_id=job.id, at=Timestamp(START + after), placement=placement)).job


# Back-off ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "misfortune",
    [
        pytest.param(lambda job: lost(job, worker(), 1), id="a replica is lost"),
        pytest.param(lambda job: failed_to_start(job, blameless=True), id="no fault of its own"),
    ],
)
def test_the_pause_after_a_misfortune_grows_though_it_costs_no_attempt(misfortune: Callable[[Job], Job]) -> None:
    job = make_running_job(make_spec(policy=PATIENT))
    pauses = []
    for _ in range(4):
        job = misfortune(job)
        assert job.retry_at is not None
        pauses.append(job.retry_at - START - 1)
        job = placed(stopped(job, 1), 1)
    assert pauses == [10, 20, 40, 80]
    assert job.failures == 0


@pytest.mark.parametrize(
    ("ran_seconds", "want_pauses"),
    [
        pytest.param(59.5, [10, 20, 40], id="a crash loop waits longer each time"),
        pytest.param(60.0, [10, 10, 10], id="a minute of steady running begins anew"),
    ],
)
def test_a_replica_that_restarts_alone_waits_by_how_long_it_ran(ran_seconds: float, want_pauses: list[float]) -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("ps", restart=Restart.REPLICA)), policy=PATIENT)
    job, now, pauses, numbers = make_running_job(spec), 0.0, [], []
    for _ in want_pauses:
        now += ran_seconds
        job = exited(job, PS, 1, now)
        (timer,) = timers(job)
        pauses.append(timer.at - START - now)
        now = timer.at - START
        job = started(advance(job, timer.event).job, PS, now)
        numbers.append((status_of(job, PS).incarnation, job.incarnations))
    assert pauses == want_pauses
    assert numbers == [(1, 1), (2, 2), (3, 3)]


def test_of_two_back_offs_the_nearer_one_is_waited_for() -> None:
    spec = make_spec(roles=(make_role("ps", replicas=2, restart=Restart.REPLICA), make_role("worker")), policy=PATIENT)
    job = exited(exited(make_running_job(spec), PS, 1, 5), ReplicaId(RoleName("ps"), 1), 1, 2)
    assert [timer.at for timer in timers(job)] == [START + 12]


@pytest.mark.parametrize(("failed_after", "want"), [(90, Phase.RESTARTING), (91, Phase.FAILED)])
def test_no_attempt_begins_after_the_time_in_which_failures_are_retried(failed_after: float, want: Phase) -> None:
    job = make_running_job(make_spec(policy=replace(PATIENT, retry_for_seconds=100)))
    assert job.started_at == START
    failed = exited(job, worker(), 1, failed_after)
    assert failed.phase is want
    assert ("policy.retry_for is 100 s" in failed.history[-1].message) is (want is Phase.FAILED)


@pytest.mark.parametrize(("code", "want"), [(127, Phase.FAILED), (128, Phase.RESTARTING)])
def test_codes_above_127_are_signals(code: int, want: Phase) -> None:
    job = make_running_job(make_spec(policy=replace(PATIENT, retry=Retry.SIGNALS)))
    assert exited(job, worker(), code, 1).phase is want


def test_halting_a_job_that_backs_off_forgets_when_it_would_have_tried_again() -> None:
    job = stopped(exited(make_running_job(make_spec(policy=PATIENT)), worker(), 1, 1), 2)
    assert job.retry_at == START + 11
    halted = advance(job, e.HaltRequested(job_id=job.id, at=Timestamp(START + 3))).job
    assert (halted.phase, halted.retry_at) == (Phase.HALTED, None)


# What a record keeps -----------------------------------------------------------------------------------------


def test_a_job_keeps_when_it_first_started() -> None:
    job = placed(make_job(make_spec(policy=PATIENT)), 5)
    assert job.started_at == START + 5
    assert placed(stopped(exited(job, worker(), 1, 6), 7), 50).started_at == START + 5


def test_a_replica_keeps_when_it_started_and_how_it_ended() -> None:
    job = placed(make_job(make_spec(policy=PATIENT)), 1)
    status = status_of(exited(started(job, worker(), 3), worker(), 2, 9, "no data"), worker())
    assert status == replace(
        status_of(job, worker()),
        state=ReplicaState.FAILED,
        started_at=Timestamp(START + 3),
        finished_at=Timestamp(START + 9),
        exit_code=2,
        message="no data",
    )


def test_a_replica_whose_start_was_never_told_started_when_it_ended() -> None:
    job = placed(make_job(make_spec(policy=PATIENT)), 1)
    assert status_of(exited(job, worker(), 2, 9), worker()).started_at == START + 9


def test_a_lost_replica_is_kept_as_lost() -> None:
    job = lost(make_running_job(make_spec(policy=PATIENT)), worker(), 4, "node-0 is gone")
    status = status_of(job, worker())
    assert (status.state, status.finished_at, status.message) == (ReplicaState.LOST, START + 4, "node-0 is gone")


@pytest.mark.parametrize(
    ("event", "want"),
    [
        pytest.param(lambda job: exited(job, worker(), 3, 1), "worker-0 exited with 3 (try 1 of 9)", id="exit"),
        pytest.param(
            lambda job: exited(job, worker(), 3, 1, "no data"), "worker-0 exited with 3: no data (try 1 of 9)", id="why"
        ),
        pytest.param(lambda job: lost(job, worker(), 1), "worker-0 was lost", id="loss"),
        pytest.param(lambda job: lost(job, worker(), 1, "no power"), "worker-0 was lost: no power", id="why lost"),
    ],
)
def test_the_message_of_a_restart_says_who_and_why(event: Callable[[Job], Job], want: str) -> None:
    assert event(make_running_job(make_spec(policy=PATIENT))).message == want


def storing() -> Job:
    return exited(make_running_job(make_spec(outputs=(DataMove("$RESULT_DIR", "/results"),))), worker(), 0, 1)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda: failed_to_start(make_running_job(), permanent=True), id="cannot ever start"),
        pytest.param(lambda: failed_to_start(make_running_job()), id="no attempt left"),
        pytest.param(lambda: failed_to_start(storing()), id="results not stored"),
        pytest.param(lambda: stopped(storing(), 2), id="gone while storing"),
    ],
)
def test_an_end_without_an_exit_code_of_a_replica_is_1(end: Callable[[], Job]) -> None:
    job = end()
    assert (job.phase, job.exit_code) == (Phase.FAILED, 1)


@pytest.mark.parametrize("make", [lambda: make_running_job(make_spec(policy=PATIENT)), storing], ids=["run", "store"])
def test_a_gang_that_has_disappeared_holds_nothing(make: Callable[[], Job]) -> None:
    gone = stopped(make(), 2)
    assert (gone.reason, gone.holding) == ("GangVanished", False)


def test_every_growth_has_a_number_of_its_own() -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("worker", replicas=2, minimum=1, maximum=4)))
    job = make_running_job(spec)
    for index in (2, 3):
        added = {worker(index): NodeName("node-1")}
        job = advance(job, e.GangGrown(job_id=job.id, at=Timestamp(START + 1), added=added)).job
    assert [status_of(job, worker(index)).incarnation for index in (2, 3)] == [1, 2]


def test_a_scale_is_remembered_beside_those_of_other_roles() -> None:
    roles = (make_role("ps", maximum=3), make_role("worker", replicas=2, maximum=4))
    job = make_running_job(make_spec(roles=roles))
    for name, count in (("worker", 4), ("ps", 3), ("worker", 3)):
        wanted = {RoleName(name): count}
        job = advance(job, e.ScaleRequested(job_id=job.id, at=Timestamp(START + 1), scale=wanted)).job
    assert job.scale == (("ps", 3), ("worker", 3))


def test_a_checkpoint_counts_five_seconds_after_the_last() -> None:
    def saved(job: Job, after: float) -> Job:
        return advance(job, e.CheckpointSaved(job_id=job.id, at=Timestamp(START + after))).job

    job = saved(make_running_job(), 100)
    assert saved(job, 104.5).checkpoint_at == START + 100
    assert saved(job, 105).checkpoint_at == START + 105


@pytest.mark.parametrize(
    ("rested", "want"),
    [
        pytest.param(0.5, 60.5, id="a short rest is added"),
        pytest.param(-5, 60, id="a clock that was set back takes nothing away"),
    ],
)
def test_the_deadline_moves_by_the_time_at_rest(rested: float, want: float) -> None:
    job = make_running_job(make_spec(policy=Policy(deadline_seconds=60)))
    halting = advance(job, e.HaltRequested(job_id=job.id, at=Timestamp(START + 10))).job
    halted = stopped(halting, 20)
    resumed = advance(halted, e.ResumeRequested(job_id=job.id, at=Timestamp(START + 20 + rested))).job
    assert resumed.deadline_at == START + want


# Invariants --------------------------------------------------------------------------------------------------


def test_a_broken_invariant_names_the_job_and_every_rule() -> None:
    job = replace(make_running_job(), requeue=True, deleting=True)
    with pytest.raises(InvariantError) as caught:
        check_invariants(job)
    assert caught.value.job is job
    assert caught.value.broken == ["only a halting job is to be queued again", "a job being deleted has ended"]
    assert str(caught.value) == f"job 'mnist' in PROCESSING: {'; '.join(caught.value.broken)}"


@pytest.mark.parametrize(
    ("job", "rule"),
    [
        pytest.param(replace(make_running_job(), attempt=0), "an active job holds its machines", id="no attempt"),
        pytest.param(
            replace(make_running_job(), replicas=(ReplicaStatus(id=PS, node=NodeName("node-0")),)),
            "no role exceeds its most",
            id="a role it does not have",
        ),
    ],
)
def test_what_must_not_be(job: Job, rule: str) -> None:
    with pytest.raises(InvariantError, match=rule):
        check_invariants(job)


def test_machines_come_with_a_new_attempt_only() -> None:
    job = make_running_job()
    with pytest.raises(InvariantError, match="machines are taken only by a new attempt"):
        check_step(replace(job, holding=False), job)
