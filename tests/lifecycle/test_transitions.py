"""Every phase against every event, and the stories that matter told step by step."""

from dataclasses import replace

import pytest

from gangline.errors import InvalidInputError, InvalidTransitionError
from gangline.lifecycle import TRANSITIONS, FinishGang, ForgetJob, StopGang, advance, new_job, standing, timers
from gangline.lifecycle import events as e
from gangline.lifecycle.invariants import InvariantError, check_invariants, check_step
from gangline.model import (
    Clean,
    GangId,
    Job,
    JobId,
    NodeName,
    Phase,
    PhaseEntry,
    Policy,
    ReplicaState,
    RoleName,
    Timestamp,
)
from gangline.model.jobs.speed import SpeedRecord, SpeedSample
from gangline.model.jobs.transfer import DataVersion, TransferProgress
from gangline.testing.builders import START, make_job, make_placement, make_role, make_running_job, make_spec
from tests.lifecycle.steps import CHIEF, OUT, ask, exited, job_in, placed, step, stopped, worker

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
    "measured": e.SpeedMeasured(
        job_id=JobId("job-1"), at=Timestamp(START + 100), sample=SpeedSample(workers=2, step_seconds=0.5)
    ),
    "recalled": e.SpeedRecalled(job_id=JobId("job-1"), at=Timestamp(START + 100), speed=SpeedRecord()),
    "download": e.DownloadStarted(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1),
    "found": e.GangFound(
        job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=2, placement={worker(): NodeName("node-0")}
    ),
    "delayed": e.ReplicaDelayed(
        job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker(), message="full"
    ),
    "noticed": e.ReplicaNoticed(
        job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker(), message="stalled: no step"
    ),
    "stalled": e.GangStalled(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, message="no step"),
    "diverged": e.LossDiverged(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, message="loss is NaN"),
    "started": e.ReplicaStarted(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker()),
    "exit 0": e.ReplicaExited(
        job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker(), exit_code=0
    ),
    "exit 1": e.ReplicaExited(
        job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker(), exit_code=1
    ),
    "lost": e.ReplicaLost(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1, replica=worker()),
    "moving": e.TransferReported(job_id=JobId("job-1"), at=Timestamp(START + 100), attempt=1),
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
    "measured":   ".      .        .       .       .        . . . .      .       .        .",
    "recalled":   ".      .        .       .       .        . . . .      .       .        .",
    "moving":     ".      .        .       .       .        . . . .      .       .        .",
    "download": ".        DOWNLOAD .       .       .        . . . .      .       .        .",
    "found":    ".        .        .       .       .        . . . .      HALTING STARTING .",
    "delayed":  ".        .        .       .       .        . . . .      .       .        .",
    "noticed":  ".        .        .       .       .        . . . .      .       .        .",
    "stalled":  ".        .        .       .       .        . . . .      .       .        .",
    "diverged": ".        .        .       .       .        . . . .      .       .        .",
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


def test_the_image_of_the_lead_replica_stays_on_record() -> None:
    job = make_job(roles=(make_role(replicas=2),))
    job = step(job, placed(job))
    lead, other = (status.id for status in job.replicas)
    started = e.ReplicaStarted(job_id=job.id, at=Timestamp(START), attempt=1, replica=lead, image="a@sha256:1")
    assert step(job, started).image == "a@sha256:1"
    assert step(job, replace(started, replica=other)).image == ""


def test_a_replica_that_cannot_start_yet_says_why_until_it_does() -> None:
    job = step(make_job(), placed(make_job()))
    delayed = e.ReplicaDelayed(job_id=job.id, at=Timestamp(START), attempt=1, replica=worker(), message="full")
    job = step(job, delayed)
    assert (job.phase, job.replicas[0].message) == (P.STARTING, "full")
    started = e.ReplicaStarted(job_id=job.id, at=Timestamp(START), attempt=1, replica=worker())
    assert step(job, started).replicas[0].message == ""


def test_only_a_finished_job_may_leave_replicas_to_be_looked_at() -> None:
    job = make_running_job(make_spec(roles=(make_role(),), policy=Policy(clean=Clean.RUNNING, max_attempts=2)))
    again, done = step(job, exited(job, worker(), 1)), step(job, exited(job, worker(), 0))
    gone = step(done, e.DeleteRequested(job_id=job.id, at=Timestamp(START + 5)))
    orders = [standing(each)[0] for each in (again, done, gone)]
    assert orders == [StopGang(job.gang_id, 30.0, clean) for clean in (Clean.ALL, Clean.RUNNING, Clean.ALL)]


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


def test_how_far_data_is_shows_while_it_moves_and_what_was_moved_stays() -> None:
    def reported(job: Job, moved_bytes: int, *moved: DataVersion, storing: bool = False) -> e.TransferReported:
        progress = TransferProgress(moved_bytes=moved_bytes, total_bytes=100, bytes_per_second=10.0)
        return e.TransferReported(
            job_id=job.id, at=START, attempt=job.attempt, storing=storing, progress=progress, moved=moved
        )

    first, second = DataVersion("s3://set/a", "sha256:1"), DataVersion("s3://set/b", "sha256:2")
    job = job_in(P.DOWNLOADING)
    job = step(job, reported(job, 50, first))
    assert job.transfer is not None
    assert (job.transfer.seconds_left, job.inputs) == (5.0, (first,))
    assert step(job, reported(job, 50, first)) is job, "told again"
    assert step(job, reported(job, 7, storing=True)).transfer == job.transfer, "of another stage"
    starts = [e.ReplicaStarted(job_id=job.id, at=START, attempt=job.attempt, replica=each.id) for each in job.replicas]
    job = step(job, *starts)
    assert (job.phase, job.transfer) == (P.PROCESSING, None)
    job = step(job, reported(job, 100, first, second))
    assert (job.transfer, job.inputs) == (None, (first, second)), "late news of the last input"
    storing = replace(job_in(P.STORING), inputs=job.inputs)
    storing = step(storing, reported(storing, 1, DataVersion("model://m"), storing=True))
    assert storing.transfer is not None
    assert (storing.outputs, storing.inputs) == ((DataVersion("model://m"),), job.inputs)
    assert TransferProgress(total_bytes=1).seconds_left is None
    assert TransferProgress().seconds_left == 0.0


@pytest.mark.parametrize("saved", [False, True], ids=["nothing saved", "saved"])
def test_a_job_that_was_stopped_says_where_it_goes_on(saved: bool) -> None:
    job = job_in(P.PROCESSING)
    if saved:
        job = step(job, e.CheckpointSaved(job_id=job.id, at=Timestamp(START + 100)))
    want = "goes on from its last checkpoint" if saved else "it has reported no checkpoint"
    halted = step(job, ask(e.HaltRequested, job), stopped(job))
    for back in (
        step(halted, ask(e.ResumeRequested, halted)),
        step(job, ask(e.HaltRequested, job), ask(e.ResumeRequested, job), stopped(job)),
    ):
        assert back.phase is P.RESUMED
        assert back.message.startswith(want)


def test_a_job_that_never_ran_has_nothing_to_go_on_from() -> None:
    job = job_in(P.QUEUED)
    halted = step(job, ask(e.HaltRequested, job))
    assert step(halted, ask(e.ResumeRequested, halted)).message == "waits for machines"
