"""Every phase against every event, and the stories that matter told step by step."""

from dataclasses import replace

import pytest

from gangline.errors import InvalidInputError, InvalidTransitionError
from gangline.lifecycle import TRANSITIONS, FinishGang, ForgetJob, RunGang, StopGang, advance, new_job, standing, timers
from gangline.lifecycle import events as e
from gangline.lifecycle.invariants import InvariantError, check_invariants, check_step
from gangline.model import (
    Clean,
    DataMove,
    GangId,
    Job,
    JobId,
    NodeName,
    Phase,
    PhaseEntry,
    Policy,
    ReplicaId,
    ReplicaState,
    Restart,
    Retry,
    RoleName,
    Timestamp,
)
from gangline.testing.builders import START, make_job, make_placement, make_role, make_running_job, make_spec

OUT = (DataMove("$RESULT_DIR", "/results"),)
CHIEF = ReplicaId(RoleName("chief"), 0)
PS = ReplicaId(RoleName("ps"), 0)


def worker(index: int = 0) -> ReplicaId:
    return ReplicaId(RoleName("worker"), index)


def exited(job: Job, replica: ReplicaId, code: int, *, after: float = 1, incarnation: int = 0) -> e.ReplicaExited:
    return e.ReplicaExited(
        job_id=job.id,
        at=Timestamp(START + after),
        attempt=job.attempt,
        replica=replica,
        exit_code=code,
        incarnation=incarnation,
    )


def stopped(job: Job, *, after: float = 2) -> e.GangStopped:
    return e.GangStopped(job_id=job.id, at=Timestamp(START + after), attempt=job.attempt)


def placed(job: Job, *, after: float = 3) -> e.GangPlaced:
    return e.GangPlaced(job_id=job.id, at=Timestamp(START + after), placement=make_placement(job.spec))


def ask(kind: type[e.Event], job: Job, *, after: float = 1, **fields: object) -> e.Event:
    return kind(job_id=job.id, at=Timestamp(START + after), **fields)


def step(job: Job, *steps: e.Event) -> Job:
    for event in steps:
        after = advance(job, event).job
        check_invariants(after)
        check_step(job, after)
        job = after
    return job


def job_in(phase: Phase) -> Job:
    """A job that reached a phase by the shortest honest way."""
    spec = make_spec(policy=Policy(max_attempts=3, deadline_seconds=60), outputs=OUT)
    running = make_running_job(spec)
    halting = step(running, ask(e.HaltRequested, running))
    ways = {
        Phase.QUEUED: lambda: make_job(spec),
        Phase.STARTING: lambda: step(make_job(spec), placed(make_job(spec))),
        Phase.DOWNLOADING: lambda: step(
            job_in(Phase.STARTING), e.DownloadStarted(job_id=running.id, at=Timestamp(START + 3), attempt=1)
        ),
        Phase.PROCESSING: lambda: running,
        Phase.STORING: lambda: step(running, exited(running, worker(), 0)),
        Phase.COMPLETED: lambda: step(
            job_in(Phase.STORING), e.OutputsStored(job_id=running.id, at=Timestamp(START + 2), attempt=1)
        ),
        Phase.FAILED: lambda: step(make_running_job(), exited(make_running_job(), worker(), 1)),
        Phase.CANCELLED: lambda: step(running, ask(e.CancelRequested, running)),
        Phase.HALTING: lambda: halting,
        Phase.HALTED: lambda: step(halting, stopped(halting)),
        Phase.RESUMED: lambda: step(job_in(Phase.HALTED), ask(e.ResumeRequested, running)),
        Phase.RESTARTING: lambda: step(running, exited(running, worker(), 1)),
    }
    job = ways[phase]()
    assert job.phase is phase
    return job


EVENTS: dict[str, e.Event] = {
    "halt": e.HaltRequested(job_id=JobId("job-1"), at=Timestamp(START + 100)),
    "resume": e.ResumeRequested(job_id=JobId("job-1"), at=Timestamp(START + 100)),
    "cancel": e.CancelRequested(job_id=JobId("job-1"), at=Timestamp(START + 100)),
    "scale": e.ScaleRequested(job_id=JobId("job-1"), at=Timestamp(START + 100), scale={RoleName("worker"): 1}),
    "delete": e.DeleteRequested(job_id=JobId("job-1"), at=Timestamp(START + 100)),
    "placed": e.GangPlaced(job_id=JobId("job-1"), at=Timestamp(START + 100), placement={worker(): NodeName("node-0")}),
    "grown": e.GangGrown(job_id=JobId("job-1"), at=Timestamp(START + 100), added={worker(): NodeName("node-0")}),
    "shrunk": e.GangShrunk(job_id=JobId("job-1"), at=Timestamp(START + 100), removed=(worker(7),), reason=""),
    "evicted": e.GangEvicted(job_id=JobId("job-1"), at=Timestamp(START + 100), reason="room for other"),
    "deadline": e.DeadlinePassed(job_id=JobId("job-1"), at=Timestamp(START + 100)),
    "backoff": e.BackoffElapsed(job_id=JobId("job-1"), at=Timestamp(START + 100)),
    "checkpoint": e.CheckpointSaved(job_id=JobId("job-1"), at=Timestamp(START + 100)),
    "download": e.DownloadStarted(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1),
    "found": e.GangFound(
        job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=2, placement={worker(): NodeName("node-0")}
    ),
    "delayed": e.ReplicaDelayed(
        job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker(), message="full"
    ),
    "started": e.ReplicaStarted(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker()),
    "exit 0": e.ReplicaExited(
        job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker(), exit_code=0
    ),
    "exit 1": e.ReplicaExited(
        job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker(), exit_code=1
    ),
    "lost": e.ReplicaLost(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker()),
    "stored": e.OutputsStored(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1),
    "failed": e.GangFailed(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, reason="R", message="m"),
    "stopped": e.GangStopped(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1),
}

REFUSED = "x"
SAME = "."
P = Phase

# The whole lifecycle on one page. Rows are events, columns the phase the job is in; a cell is the beginning of the
# phase it moves to, "." where it stays, "x" where the event is refused.
COLUMNS = (
    P.QUEUED, P.STARTING, P.DOWNLOADING, P.PROCESSING, P.STORING, P.COMPLETED,
    P.FAILED, P.CANCELLED, P.HALTING, P.HALTED, P.RESUMED, P.RESTARTING,
)  # fmt: skip
WANT: dict[str, str] = {
    "halt":     "HALTED   HALTING  HALTING HALTING x        x x x .      .       HALTED   HALTING",
    "resume":   "x        x        x       x       x        x x x .      RESUMED .        x",
    "cancel":   "CANCEL   CANCEL   CANCEL  CANCEL  CANCEL   x x x CANCEL CANCEL  CANCEL   CANCEL",
    "scale":    ".        .        .       .       x        x x x .      .       .        .",
    "delete":   "CANCEL   CANCEL   CANCEL  CANCEL  CANCEL   . . . CANCEL CANCEL  CANCEL   CANCEL",
    "placed":   "STARTING .        .       .       .        . . . .      .       STARTING .",
    "grown":    ".        .        .       .       .        . . . .      .       .        .",
    "shrunk":   ".        .        .       .       .        . . . .      .       .        .",
    "evicted":  ".        HALTING  HALTING HALTING .        . . . .      .       .        .",
    "deadline": ".        FAILED   FAILED  FAILED  FAILED   . . . .      .       FAILED   FAILED",
    "backoff":  ".        .        .       .       .        . . . .      .       .        .",
    "checkpoint": ".      .        .       .       .        . . . .      .       .        .",
    "download": ".        DOWNLOAD .       .       .        . . . .      .       .        .",
    "found":    ".        .        .       .       .        . . . .      HALTING STARTING .",
    "delayed":  ".        .        .       .       .        . . . .      .       .        .",
    "started":  ".        PROCESS  PROCESS .       .        . . . .      .       .        .",
    "exit 0":   ".        STORING  STORING STORING .        . . . .      .       .        .",
    "exit 1":   ".        RESTART  RESTART RESTART .        . . . .      .       .        .",
    "lost":     ".        RESTART  RESTART RESTART .        . . . .      .       .        .",
    "stored":   ".        .        .       .       COMPLETE . . . .      .       .        .",
    "failed":   ".        RESTART  RESTART RESTART FAILED   . . . .      .       .        .",
    "stopped":  ".        RESTART  RESTART RESTART FAILED   . . . HALTED .       .        .",
}  # fmt: skip


@pytest.mark.parametrize("event_name", EVENTS)
@pytest.mark.parametrize("phase", COLUMNS, ids=str)
def test_every_phase_answers_every_event_as_the_table_says(phase: Phase, event_name: str) -> None:
    want = WANT[event_name].split()[COLUMNS.index(phase)]
    job = job_in(phase)
    if want == REFUSED:
        with pytest.raises(InvalidTransitionError) as caught:
            advance(job, EVENTS[event_name])
        assert caught.value.phase == phase
        assert caught.value.job == "mnist"
        return
    outcome = advance(job, EVENTS[event_name])
    check_invariants(outcome.job)
    check_step(job, outcome.job)
    assert outcome.job.phase.startswith(phase if want == SAME else want)
    assert set(map(type, outcome.instructions)) <= set(map(type, standing(outcome.job)))


def test_the_table_names_every_event_there_is() -> None:
    kinds = {kind for kind in vars(e).values() if isinstance(kind, type) and issubclass(kind, e.Event)}
    concrete = kinds - {e.Event, e.GangEvent}
    assert {type(event) for event in EVENTS.values()} == concrete
    assert {event for _, event in TRANSITIONS} == concrete


def test_a_smooth_run_passes_through_the_phases_without_work_in_zero_time() -> None:
    job = make_running_job()
    done = step(job, exited(job, worker(), 0))
    assert [entry.phase for entry in done.history] == [
        P.QUEUED, P.STARTING, P.DOWNLOADING, P.PROCESSING, P.STORING, P.COMPLETED,
    ]  # fmt: skip
    assert done.exit_code == 0
    assert done.holding, "machines are free only when the engine says so"
    assert standing(done) == (StopGang(GangId(job.id, 1), 30.0),)
    assert standing(step(done, stopped(done))) == ()


def test_the_lead_decides_and_the_servers_are_stopped() -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("ps"), make_role("worker", replicas=2)))
    job = make_running_job(spec)
    job = step(job, exited(job, worker(0), 0), exited(job, worker(1), 0))
    assert job.phase is P.PROCESSING
    job = step(job, exited(job, CHIEF, 0))
    assert job.phase is P.COMPLETED


def test_without_a_lead_all_workers_must_finish_but_servers_need_not() -> None:
    spec = make_spec(roles=(make_role("ps"), make_role("worker", replicas=2)))
    job = make_running_job(spec)
    job = step(job, exited(job, worker(0), 0))
    assert job.phase is P.PROCESSING
    assert step(job, exited(job, worker(1), 0)).phase is P.COMPLETED


def test_results_are_stored_before_the_job_is_complete() -> None:
    job = make_running_job(make_spec(outputs=OUT))
    outcome = advance(job, exited(job, worker(), 0))
    assert outcome.job.phase is P.STORING
    assert [type(order) for order in outcome.instructions] == [FinishGang]
    note = "not copied: pipe (a pipe)"
    done = step(outcome.job, e.OutputsStored(job_id=job.id, at=Timestamp(START + 9), attempt=job.attempt, note=note))
    assert (done.phase, done.message) == (P.COMPLETED, note)


def test_a_failing_gang_is_retried_with_growing_pauses_until_its_budget_is_spent() -> None:
    job = make_running_job(make_spec(policy=Policy(max_attempts=3, backoff_seconds=10)))
    pauses = []
    while job.phase is not P.FAILED:
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


@pytest.mark.parametrize("attempt", [1, 3])
def test_only_the_next_attempt_is_found(attempt: int) -> None:
    job = step(make_running_job(), e.CancelRequested(job_id=JobId("job-1"), at=Timestamp(START + 1)))
    placement = make_placement(job.spec)
    found = e.GangFound(job_id=job.id, at=Timestamp(START + 2), attempt=attempt, placement=placement)
    assert step(job, found) == job


def test_a_gang_that_was_started_before_it_was_on_record_is_gone_on_with() -> None:
    job, placement = make_job(), make_placement(make_job().spec)
    found = e.GangFound(job_id=job.id, at=Timestamp(START), attempt=1, placement=placement)
    assert advance(job, found) == advance(job, e.GangPlaced(job_id=job.id, at=Timestamp(START), placement=placement))


def test_a_gang_that_was_started_before_it_was_on_record_is_stopped_if_its_job_has_ended() -> None:
    job = step(make_job(), e.CancelRequested(job_id=JobId("job-1"), at=Timestamp(START)))
    found = e.GangFound(job_id=job.id, at=Timestamp(START), attempt=1, placement=make_placement(job.spec))
    outcome = advance(job, found)
    assert (outcome.job.phase, outcome.job.attempt, outcome.job.holding) == (P.CANCELLED, 1, True)
    assert [type(order) for order in outcome.instructions] == [StopGang]
    assert not step(outcome.job, stopped(outcome.job)).holding


def test_a_replica_that_cannot_start_yet_says_why_until_it_does() -> None:
    job = step(make_job(), placed(make_job()))
    delayed = e.ReplicaDelayed(job_id=job.id, at=Timestamp(START), attempt=1, replica=worker(), message="full")
    job = step(job, delayed)
    assert (job.phase, job.replicas[0].message) == (P.STARTING, "full")
    started = e.ReplicaStarted(job_id=job.id, at=Timestamp(START), attempt=1, replica=worker())
    assert step(job, started).replicas[0].message == ""


def test_a_loss_restarts_the_gang_and_costs_no_attempt() -> None:
    job = make_running_job()
    lost = e.ReplicaLost(job_id=job.id, at=Timestamp(START + 1), attempt=1, replica=worker())
    job = step(job, lost)
    assert (job.phase, job.failures) == (P.RESTARTING, 0)


@pytest.mark.parametrize(
    ("in_place", "limit", "want"),
    [
        pytest.param(True, 1, (P.PROCESSING, 1, 1), id="its place is there"),
        pytest.param(False, 1, (P.RESTARTING, 1, 0), id="its place is gone"),
        pytest.param(True, 0, (P.RESTARTING, 1, 0), id="it was started too often"),
    ],
)
def test_a_loss_restarts_the_replica_alone_where_its_role_asks_for_that(
    in_place: bool, limit: int, want: tuple[P, int, int]
) -> None:
    roles = (make_role("worker", replicas=2, restart=Restart.REPLICA),)
    job = make_running_job(make_spec(roles=roles, policy=Policy(max_replica_restarts=limit)))
    lost = e.ReplicaLost(job_id=job.id, at=Timestamp(START + 1), attempt=1, replica=worker(), in_place=in_place)
    job = step(job, lost)
    assert (job.phase, job.attempt, job.replica_restarts) == want
    if want[0] is P.PROCESSING:
        (timer,) = timers(job)
        job = step(job, timer.event)
        assert [(each.state, each.incarnation) for each in job.replicas] == [
            (ReplicaState.PENDING, 1),
            (ReplicaState.RUNNING, 0),
        ]


def test_an_elastic_role_lives_on_with_fewer_when_one_is_lost() -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("worker", replicas=3, minimum=2)))
    job = make_running_job(spec)
    for index, want in ((2, P.PROCESSING), (1, P.RESTARTING)):
        lost = e.ReplicaLost(job_id=job.id, at=Timestamp(START + 1), attempt=1, replica=worker(index))
        job = step(job, lost)
        assert job.phase is want


def test_when_the_last_unfinished_elastic_replica_is_lost_the_job_is_complete() -> None:
    job = make_running_job(make_spec(roles=(make_role("worker", replicas=2, minimum=1),)))
    job = step(job, exited(job, worker(0), 0))
    lost = e.ReplicaLost(job_id=job.id, at=Timestamp(START + 2), attempt=1, replica=worker(1))
    assert step(job, lost).phase is P.COMPLETED


def test_only_a_finished_job_may_leave_replicas_to_be_looked_at() -> None:
    job = make_running_job(make_spec(roles=(make_role(),), policy=Policy(clean=Clean.RUNNING, max_attempts=2)))
    again, done = step(job, exited(job, worker(), 1)), step(job, exited(job, worker(), 0))
    gone = step(done, e.DeleteRequested(job_id=job.id, at=Timestamp(START + 5)))
    orders = [standing(each)[0] for each in (again, done, gone)]
    assert orders == [StopGang(job.gang_id, 30.0, clean) for clean in (Clean.ALL, Clean.RUNNING, Clean.ALL)]


def test_a_role_may_have_its_own_rule_for_what_deserves_another_try() -> None:
    spec = make_spec(roles=(make_role("chief", retry=Retry.SIGNALS), make_role("ps")), policy=Policy(max_attempts=2))
    job = make_running_job(spec)
    assert [step(job, exited(job, replica, 1)).phase for replica in (CHIEF, PS)] == [P.FAILED, P.RESTARTING]


def test_a_replica_with_its_own_restart_comes_back_in_place_while_the_others_go_on() -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("ps", restart=Restart.REPLICA)))
    job = make_running_job(spec)
    job = step(job, exited(job, PS, 137))
    assert job.phase is P.PROCESSING
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
    assert failed.phase is P.FAILED
    limit = "policy.max_replica_restarts is 0"
    assert failed.message == f"no more restarts in place, {limit}: worker-0 exited with 1"


def test_only_signals_are_retried_when_the_job_says_so() -> None:
    policy = Policy(max_attempts=5, retry=Retry.SIGNALS)
    job = make_running_job(make_spec(policy=policy))
    assert step(job, exited(job, worker(), 127)).phase is P.FAILED
    assert step(job, exited(job, worker(), 143)).phase is P.RESTARTING


def test_halting_keeps_the_job_and_resuming_goes_on_with_the_rest_not_counted_in_its_deadline() -> None:
    job = make_running_job(make_spec(policy=Policy(deadline_seconds=60)))
    job = step(job, ask(e.HaltRequested, job, after=10), stopped(job, after=12))
    assert (job.phase, job.holding) == (P.HALTED, False)
    job = step(job, ask(e.ResumeRequested, job, after=112))
    assert job.deadline_at == START + 160
    assert step(job, placed(job, after=113)).attempt == 2


def test_an_exit_during_a_halt_does_not_complete_the_job() -> None:
    job = make_running_job()
    job = step(job, ask(e.HaltRequested, job), exited(job, worker(), 0))
    assert job.phase is P.HALTING
    assert job.replicas[0].state is ReplicaState.SUCCEEDED


def test_a_preempted_job_queues_again_by_itself_unless_its_user_halts_it_meanwhile() -> None:
    job = make_running_job()
    evicted = step(job, ask(e.GangEvicted, job, reason="room for big"))
    assert step(evicted, stopped(evicted)).phase is P.RESUMED
    halted = step(evicted, ask(e.HaltRequested, evicted), stopped(evicted))
    assert halted.phase is P.HALTED
    back = step(evicted, ask(e.HaltRequested, evicted), ask(e.ResumeRequested, evicted), stopped(evicted))
    assert back.phase is P.RESUMED


def test_a_deleted_job_disappears_only_after_its_gang_is_gone() -> None:
    job = make_running_job()
    job = step(job, ask(e.DeleteRequested, job))
    assert standing(job) == (StopGang(job.gang_id, 30.0),)
    outcome = advance(job, stopped(job))
    assert outcome.instructions == (ForgetJob(job.id),)


def test_growth_and_shrinkage_change_the_order_and_never_reuse_a_number() -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("worker", replicas=2, minimum=1, maximum=4)))
    job = make_running_job(spec)
    shrunk = ask(e.GangShrunk, job, removed=(worker(1),), reason="room")
    grown = ask(e.GangGrown, job, added={worker(1): NodeName("node-1")})
    job = step(job, shrunk, grown)
    again = job.replica(worker(1))
    assert again is not None
    assert (again.incarnation, again.state, again.node) == (1, ReplicaState.PENDING, "node-1")


@pytest.mark.parametrize(
    ("scale", "want_problem"),
    [
        pytest.param({"wroker": 2}, "no role 'wroker'", id="unknown role"),
        pytest.param({"chief": 2}, "is fixed at 1", id="rigid role"),
        pytest.param({"worker": 9}, "9 replicas", id="beyond its most"),
    ],
)
def test_impossible_scales_are_refused(scale: dict[str, int], want_problem: str) -> None:
    job = make_running_job(make_spec(roles=(make_role("chief"), make_role("worker", replicas=2, maximum=4))))
    with pytest.raises(InvalidInputError, match=want_problem):
        advance(job, ask(e.ScaleRequested, job, scale=scale))


def test_news_of_an_earlier_attempt_is_ignored() -> None:
    job = make_running_job()
    late = replace(exited(job, worker(), 1), attempt=0)
    assert advance(job, late).job is job


@pytest.mark.parametrize("request_kind", [e.HaltRequested, e.CancelRequested, e.DeleteRequested])
def test_a_back_off_is_forgotten_when_the_gang_is_taken_down(request_kind: type[e.Event]) -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("ps", restart=Restart.REPLICA)))
    job = make_running_job(spec)
    job = step(job, exited(job, PS, 137), ask(request_kind, job, after=1))
    assert timers(job) == ()


def test_timers_cover_deadline_and_time_to_live() -> None:
    policy = Policy(deadline_seconds=60, ttl_seconds=5)
    job = make_running_job(make_spec(policy=policy))
    (deadline,) = timers(job)
    assert deadline.at == START + 60
    failed = step(job, deadline.event)
    assert (failed.phase, failed.reason, failed.exit_code) == (P.FAILED, "DeadlineExceeded", 124)
    assert failed.message == "ran longer than policy.deadline, which is 60 s"
    (ttl,) = timers(failed)
    assert ttl.at == START + 65
    storing = replace(job, history=(*job.history, PhaseEntry(phase=P.STORING, at=START, reason="Trained")))
    (deadline,) = timers(storing)
    message = step(storing, deadline.event).message
    assert message == "its results were not stored within policy.deadline, which is 60 s"
    assert step(failed, ttl.event).deleting


def test_a_lost_replica_of_a_role_that_never_restarts_fails_the_job() -> None:
    job = make_running_job(make_spec(roles=(make_role(restart=Restart.NEVER),)))
    lost = e.ReplicaLost(job_id=job.id, at=Timestamp(START + 1), attempt=1, replica=worker())
    failed = step(job, lost)
    assert (failed.phase, failed.reason, failed.exit_code) == (P.FAILED, "ReplicaLost", 137)


def test_a_gang_that_cannot_ever_start_is_not_retried() -> None:
    job = make_running_job(make_spec(policy=Policy(max_attempts=5)))
    hopeless = e.GangFailed(
        job_id=job.id, at=Timestamp(START), attempt=1, reason="InputsFailed", message="no such file", permanent=True
    )
    assert step(job, hopeless).phase is P.FAILED


def test_a_gang_that_could_not_start_for_no_fault_of_its_own_tries_again_for_nothing() -> None:
    job = make_running_job(make_spec(policy=Policy(max_attempts=1, backoff_seconds=2)))
    refused = e.GangFailed(
        job_id=job.id, at=Timestamp(START), attempt=1, reason="QuotaExceeded", message="too many pods", blameless=True
    )
    waiting = step(job, refused)
    assert (waiting.phase, waiting.reason, waiting.message) == (P.RESTARTING, "QuotaExceeded", "too many pods")
    assert (waiting.failures, waiting.retry_at) == (0, START + 2)


def test_a_job_may_be_submitted_halted() -> None:
    job = new_job(JobId("job-1"), make_spec(), START, halted=True)
    check_invariants(job)
    assert job.phase is P.HALTED
    assert step(job, ask(e.ResumeRequested, job)).phase is P.RESUMED


def test_a_state_that_must_not_exist_is_named() -> None:
    with pytest.raises(InvariantError, match="an active job holds its machines"):
        check_invariants(replace(make_running_job(), holding=False))
    with pytest.raises(InvariantError, match="attempts are never taken back"):
        check_step(make_running_job(), make_job())


def test_the_last_checkpoint_is_remembered_and_old_news_of_one_is_not() -> None:
    def saved(after: float) -> e.CheckpointSaved:
        return e.CheckpointSaved(job_id=JobId("job-1"), at=Timestamp(START + after))

    job = step(make_running_job(), saved(100))
    assert job.checkpoint_at == START + 100
    assert step(job, saved(40), saved(101)) is job, "older, or too soon after to be worth a write"
    assert step(job, saved(200)).checkpoint_at == START + 200
    halting = step(job, e.GangEvicted(job_id=job.id, at=Timestamp(START + 300), reason="room"))
    assert step(halting, saved(310)).checkpoint_at == START + 310, "saved on its way out"
