"""How long a replica waits before it is started in place again."""

from gangline.lifecycle import advance, timers
from gangline.lifecycle.events import ReplicaExited, ReplicaStarted
from gangline.model import Backoff, Job, Policy, ReplicaId, Restart, RoleName, Timestamp
from gangline.testing.builders import START, make_role, make_running_job, make_spec

FIRST, SECOND = (ReplicaId(RoleName("worker"), index) for index in range(2))


def make_job(**policy: float) -> Job:
    role = make_role(replicas=2, restart=Restart.REPLICA)
    return make_running_job(make_spec(roles=(role,), policy=Policy(**policy)))


def pause_after(job: Job, replica: ReplicaId, ran_seconds: float) -> tuple[Job, float]:
    """Have a replica start now, fail after a while, and be started again; answers how long it waited."""
    status = job.replica(replica)
    assert status is not None
    who = {"job_id": job.id, "attempt": job.attempt, "replica": replica, "incarnation": status.incarnation}
    began = status.started_at if status.started_at is not None else Timestamp(START + 1000)
    job = advance(job, ReplicaStarted(at=began, **who)).job
    failed_at = Timestamp(began + ran_seconds)
    job = advance(job, ReplicaExited(at=failed_at, exit_code=137, **who)).job
    (timer,) = timers(job)
    return advance(job, timer.event).job, timer.event.at - failed_at


def pauses(job: Job, replica: ReplicaId, *lives: float) -> tuple[Job, list[float]]:
    waited = []
    for seconds in lives:
        job, pause = pause_after(job, replica, seconds)
        waited.append(pause)
    return job, waited


def test_it_doubles_while_a_replica_fails_soon_up_to_its_limit() -> None:
    assert pauses(make_job(backoff_limit_seconds=5), FIRST, 20, 20, 20, 20)[1] == [1, 2, 4, 5]


def test_it_grows_by_the_factor_that_the_policy_names() -> None:
    growing = make_job(backoff_seconds=2, backoff_factor=3, backoff_limit_seconds=50)
    assert pauses(growing, FIRST, 20, 20, 20, 20)[1] == [2, 6, 18, 50]
    assert pauses(make_job(backoff_seconds=2, backoff_factor=1), FIRST, 20, 20, 20)[1] == [2, 2, 2]


def test_a_pause_that_no_number_can_hold_is_the_limit() -> None:
    assert Backoff(1.0, 300.0, 1000.0).pause(10_000) == 300.0
    assert Backoff(0.0, 300.0, 1000.0).pause(10_000) == 0.0


def test_it_begins_anew_once_a_replica_has_run_for_a_minute() -> None:
    assert pauses(make_job(), FIRST, 20, 20, 61, 20)[1] == [1, 2, 1, 2]


def test_failures_of_one_replica_do_not_make_another_wait() -> None:
    job, _ = pauses(make_job(), FIRST, *[20.0] * 8)

    assert pauses(job, SECOND, 20)[1] == [1]
