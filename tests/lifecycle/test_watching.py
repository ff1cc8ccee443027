"""When a replica has stalled, and when it is merely quiet, busy or slow."""

import math
from dataclasses import replace

import pytest

from gangline.lifecycle import advance
from gangline.lifecycle.events import (
    GangPlaced,
    GangStalled,
    GangStopped,
    HaltRequested,
    LossDiverged,
    ReplicaNoticed,
    ResumeRequested,
)
from gangline.lifecycle.watching import Pulse, Watched, diverged, heard, notices, seen
from gangline.model import Framework, Job, JobId, Metric, Phase, Policy, ReplicaId, RoleName, StallAction, Timestamp
from gangline.model.jobs.spec import NanAction, NanRule, StallRule
from gangline.storage.journal import records_between
from gangline.testing.builders import START, make_role, make_running_job, make_spec

WORKERS = [ReplicaId(RoleName("worker"), index) for index in range(4)]
WORKER = WORKERS[0]


def at(seconds: float) -> Timestamp:
    return Timestamp(START + seconds)


def job_with(action: StallAction = StallAction.TELL, attempts: int = 1, framework: Framework = Framework.NONE) -> Job:
    policy = Policy(max_attempts=attempts, stalled=StallRule(after_seconds=60, action=action))
    roles = (make_role(replicas=4), make_role("ps"))
    return make_running_job(make_spec(roles=roles, policy=policy, framework=framework))


def step(number: int, seconds: float, replica: ReplicaId = WORKER) -> Metric:
    return Metric(job_id=JobId("job-1"), replica=replica, name="loss", value=1.0, step=number, at=at(seconds))


def watched(**fields: object) -> Watched:
    return replace(Watched(active_at=at(0), seen_at=at(0), cpu_seconds=0.0), **fields)  # type: ignore[arg-type]


def told(job: Job, each: Watched, seconds: float, replica: ReplicaId = WORKER) -> list[str]:
    return [notice.message for notice in notices(job, {replica: each}, at(seconds))]


def test_a_replica_that_sleeps_has_stalled_when_its_time_is_over() -> None:
    each = seen(watched(), Pulse(cpu_seconds=0.1), at(59))
    assert told(job_with(), each, 59.9) == []
    assert told(job_with(), each, 60) == ["stalled: no report, no output and no use of a processor or GPU"]


@pytest.mark.parametrize(
    "pulse",
    [Pulse(cpu_seconds=30.0), Pulse(cpu_seconds=0.0, output_at=at(50)), Pulse(cpu_seconds=0.0, gpu_busy=True)],
    ids=["uses a processor", "writes lines", "uses a GPU"],
)
def test_a_replica_that_reports_nothing_and_is_busy_is_left_alone(pulse: Pulse) -> None:
    assert told(job_with(), seen(watched(), pulse, at(50)), 100) == []


def test_one_that_says_itself_since_when_it_is_idle_is_believed_unless_it_wrote_something_since() -> None:
    watched = seen(None, Pulse(cpu_seconds=0.0), at(0))
    busy = seen(watched, Pulse(cpu_seconds=90.0), at(90))
    assert busy.active_at == at(90)
    assert seen(busy, Pulse(cpu_seconds=90.0, idle_since=at(10)), at(95)).active_at == at(10)
    assert seen(busy, Pulse(cpu_seconds=90.0, idle_since=at(10), output_at=at(60)), at(95)).active_at == at(60)


def test_one_that_reports_steps_and_spins_has_stalled() -> None:
    each = heard(watched(), step(7, 1), at(1))
    each = seen(each, Pulse(cpu_seconds=50.0), at(55))
    assert told(job_with(), each, 61) == ["stalled: no step and no output since step 7"]


def test_the_same_step_told_again_is_no_sign_of_life_and_a_number_without_one_is() -> None:
    each = heard(watched(), step(7, 1), at(1))
    assert heard(each, step(7, 50), at(50)).active_at == at(1)
    assert heard(each, step(8, 50), at(50)).active_at == at(50)
    assert heard(each, replace(step(7, 50), step=None), at(50)).active_at == at(50)


def test_a_replica_that_was_started_again_begins_anew() -> None:
    each = seen(watched(cpu_seconds=30.0), Pulse(cpu_seconds=1.0), at(100))
    assert told(job_with(), each, 159) == []


def test_what_is_quiet_by_nature_is_left_alone() -> None:
    assert told(job_with(), watched(), 100, ReplicaId(RoleName("ps"), 0)) == []
    launched = job_with(framework=Framework.MPI)
    roles = (make_role("launcher"), *launched.spec.roles)
    launched = make_running_job(replace(launched.spec, roles=roles))
    assert told(launched, watched(), 100) == []
    assert told(launched, watched(), 100, ReplicaId(RoleName("launcher"), 0)) != []


def test_nobody_is_watched_whose_policy_does_not_say_so() -> None:
    assert told(make_running_job(make_spec(roles=(make_role(replicas=4),))), watched(), 10**6) == []


def speeds(*steps: int) -> dict[ReplicaId, Watched]:
    first = {replica: heard(watched(), step(0, 0, replica), at(0)) for replica in WORKERS}
    return {
        replica: heard(first[replica], step(done, 10, replica), at(10))
        for replica, done in zip(WORKERS, steps, strict=False)
    }


@pytest.mark.parametrize(
    ("steps", "want"),
    [
        ((100, 100, 49), [WORKERS[2]]),
        ((100, 100, 50), []),
        ((100, 10), []),
        ((8, 8, 4), []),
        ((100, 100, 100, 20), [WORKERS[3]]),
    ],
    ids=["less than half", "half", "of two nobody knows", "too few steps to tell", "one of four"],
)
def test_a_straggler_is_slower_than_half_the_median(steps: tuple[int, ...], want: list[ReplicaId]) -> None:
    found = notices(job_with(), speeds(*steps), at(10))
    assert [each.replica for each in found] == want
    assert all(each.message.startswith("slow: ") for each in found)


def noticed(job: Job, message: str) -> Job:
    event = ReplicaNoticed(job_id=job.id, at=at(100), attempt=job.attempt, replica=WORKER, message=message)
    return advance(job, event).job


def test_what_is_noticed_is_on_the_record_and_in_the_journal_until_it_is_over() -> None:
    before = job_with()
    after = noticed(before, "stalled: no step")
    assert after.phase is Phase.PROCESSING
    (record,) = records_between(before, after, at(100))
    assert (record.reason, record.message, record.replica) == ("ReplicaStalled", "stalled: no step", WORKER)
    well = noticed(after, "")
    (record,) = records_between(after, well, at(110))
    assert record.reason == "ReplicaRecovered"
    assert records_between(after, noticed(after, "stalled: no step"), at(110)) == ()
    (record,) = records_between(before, noticed(before, "slow: half"), at(100))
    assert record.reason == "ReplicaSlow"


@pytest.mark.parametrize(
    ("action", "attempts", "want"),
    [
        (StallAction.TELL, 3, Phase.PROCESSING),
        (StallAction.RESTART, 3, Phase.RESTARTING),
        (StallAction.RESTART, 1, Phase.FAILED),
        (StallAction.FAIL, 3, Phase.FAILED),
    ],
)
def test_the_policy_says_what_becomes_of_a_job_that_has_stalled(
    action: StallAction, attempts: int, want: Phase
) -> None:
    job = job_with(action, attempts)
    after = advance(job, GangStalled(job_id=job.id, at=at(100), attempt=job.attempt, message="no step")).job
    assert after.phase is want
    if want is Phase.FAILED:
        assert (after.reason, after.exit_code) == ("Stalled", 124)


def diverging(action: NanAction = NanAction.FAIL, metric: str | None = None) -> Job:
    policy = Policy(max_attempts=3, nan=NanRule(action=action, metric=metric))
    return make_running_job(make_spec(roles=(make_role(replicas=4),), policy=policy))


def number(value: float, name: str = "loss", step: int | None = 7, seconds: float = 0) -> Metric:
    return Metric(job_id=JobId("job-1"), replica=WORKERS[2], name=name, value=value, step=step, at=at(seconds))


@pytest.mark.parametrize(
    ("metric", "rule", "want"),
    [
        (number(math.nan), None, "loss of worker-2 is NaN or infinite at step 7"),
        (number(-math.inf, step=None), None, "loss of worker-2 is NaN or infinite"),
        (number(math.nan, "train/Loss"), None, "train/Loss of worker-2 is NaN or infinite at step 7"),
        (number(1e30), None, None),
        (number(math.nan, "accuracy"), None, None),
        (number(math.nan, "lossless"), None, None),
        (number(math.nan, "grad_norm"), "grad_norm", "grad_norm of worker-2 is NaN or infinite at step 7"),
        (number(math.nan), "grad_norm", None),
        (number(math.nan, seconds=-0.1), None, None),
    ],
    ids=["nan", "infinite", "a word before", "large", "no loss", "a word after", "named", "not named", "before"],
)
def test_a_loss_has_diverged_when_it_is_no_finite_number(metric: Metric, rule: str | None, want: str | None) -> None:
    assert diverged(diverging(metric=rule), metric) == want


def test_what_an_earlier_attempt_reported_does_not_end_the_next() -> None:
    job = diverging(NanAction.HALT)
    for event in (
        HaltRequested(job_id=job.id, at=at(10)),
        GangStopped(job_id=job.id, at=at(11), attempt=1),
        ResumeRequested(job_id=job.id, at=at(12)),
        GangPlaced(job_id=job.id, at=at(20), placement={each.id: each.node for each in job.replicas}),
    ):
        job = advance(job, event).job
    assert diverged(job, number(math.nan, seconds=9)) is None
    assert diverged(job, number(math.nan, seconds=20)) is not None
    late = LossDiverged(job_id=job.id, at=at(21), attempt=1, message="loss is NaN")
    assert advance(job, late).job == job


def test_nobody_asked_what_a_loss_is() -> None:
    job = job_with()
    assert diverged(job, number(math.nan)) is None
    assert advance(job, LossDiverged(job_id=job.id, at=at(1), attempt=1, message="loss is NaN")).job == job


@pytest.mark.parametrize(("action", "want"), [(NanAction.FAIL, Phase.FAILED), (NanAction.HALT, Phase.HALTING)])
def test_a_loss_that_diverged_fails_or_halts_the_job_and_is_not_tried_again(action: NanAction, want: Phase) -> None:
    job = diverging(action)
    outcome = advance(job, LossDiverged(job_id=job.id, at=at(1), attempt=1, message="loss is NaN"))
    assert (outcome.job.phase, outcome.job.reason, outcome.job.message) == (want, "LossDiverged", "loss is NaN")
    assert outcome.instructions
    if action is NanAction.HALT:
        rests = advance(outcome.job, GangStopped(job_id=job.id, at=at(2), attempt=1)).job
        assert (rests.phase, rests.message) == (Phase.HALTED, "loss is NaN")
