"""What the controller makes of the progress that programs report, and of earlier runs of the same code."""

from dataclasses import replace

import pytest

from gangline.controller.speeds import (
    MOST_RESTART_SECONDS,
    SHORTEST_SECONDS,
    UNSETTLED_SECONDS,
    EarlierRuns,
    SpeedMeter,
)
from gangline.lifecycle.events import SpeedMeasured
from gangline.model import (
    Job,
    JobId,
    Metric,
    NodeName,
    Phase,
    PhaseEntry,
    Policy,
    ReplicaId,
    ReplicaState,
    ReplicaStatus,
    RoleName,
    Sizing,
    Timestamp,
)
from gangline.model.jobs.speed import SpeedRecord, SpeedSample
from gangline.testing.builders import START, make_job, make_role, make_running_job, make_spec

SETTLED = START + 100.0


def training(workers: int = 2, *, since: float = START, attempt: int = 1, servers: int = 0) -> Job:
    """A job whose workers, two to a node, all run since then."""
    roles = (make_role("worker", replicas=1, minimum=1, maximum=16),)
    spec = make_spec(roles=(*roles, make_role("ps")) if servers else roles, policy=Policy(replicas=Sizing.AUTO))
    ids = [ReplicaId(RoleName("worker"), n) for n in range(workers)]
    ids += [ReplicaId(RoleName("ps"), n) for n in range(servers)]
    replicas = tuple(
        ReplicaStatus(id=each, node=NodeName(f"node-{n // 2}"), state=ReplicaState.RUNNING, started_at=Timestamp(since))
        for n, each in enumerate(ids)
    )
    return replace(make_running_job(spec), replicas=replicas, attempt=attempt)


def told(value: float, at: float, *, index: int = 0, name: str = "progress") -> Metric:
    return Metric(
        job_id=JobId("job-1"),
        replica=ReplicaId(RoleName("worker"), index),
        name=name,
        value=value,
        step=None,
        at=Timestamp(at),
    )


def hear(meter: SpeedMeter, job: Job, *reports: tuple[float, float]) -> list[SpeedMeasured]:
    found = [meter.hear(job, told(value, at)) for at, value in reports]
    return [each for each in found if each is not None]


def test_the_speed_is_that_between_two_reports_of_the_same_gang() -> None:
    (found,) = hear(SpeedMeter(), training(3, servers=2), (SETTLED, 0.1), (SETTLED + 10, 0.3))
    assert found.sample == SpeedSample(workers=3, servers=2, nodes=2, step_seconds=pytest.approx(50.0))
    assert found.progress == 0.3


def test_reports_that_are_close_together_are_one_measurement() -> None:
    times = [SETTLED + SHORTEST_SECONDS * part / 4 for part in range(5)]
    assert len(hear(SpeedMeter(), training(), *((at, 0.001 * n) for n, at in enumerate(times)))) == 1


def test_only_the_lead_is_heard_so_that_nobody_counts_twice() -> None:
    meter, job = SpeedMeter(), training()
    meter.hear(job, told(0.1, SETTLED))
    assert meter.hear(job, told(0.9, SETTLED + 10, index=1)) is None
    assert meter.hear(job, told(0.9, SETTLED + 10, name="accuracy")) is None


def test_nothing_is_measured_across_a_change_of_size_nor_right_after_it() -> None:
    meter = SpeedMeter()
    hear(meter, training(2), (SETTLED, 0.1))
    grown = training(4, since=SETTLED + 5)
    assert hear(meter, grown, (SETTLED + 5 + UNSETTLED_SECONDS / 2, 0.2), (SETTLED + 20, 0.3)) == []
    (found,) = hear(meter, grown, (SETTLED + 30, 0.4))
    assert found.sample.workers == 4
    assert found.sample.step_seconds == pytest.approx(100.0)


def test_nothing_is_measured_while_somebody_is_missing() -> None:
    job = training(2)
    pending = replace(job.replicas[1], state=ReplicaState.PENDING)
    waiting = replace(job, replicas=(job.replicas[0], pending))
    assert hear(SpeedMeter(), waiting, (SETTLED, 0.1), (SETTLED + 20, 0.2)) == []


def test_progress_that_goes_back_is_no_speed() -> None:
    assert hear(SpeedMeter(), training(), (SETTLED, 0.5), (SETTLED + 20, 0.1)) == []


def test_a_change_costs_what_was_not_worked_meanwhile() -> None:
    meter = SpeedMeter()
    (before,) = hear(meter, training(2), (SETTLED, 0.1), (SETTLED + 10, 0.2))  # the whole takes 100 s
    assert before.restart_seconds is None
    # 30 s later it is 0.05 further, which would have taken 5 s.
    grown = training(4, since=SETTLED + 30)
    first, second = hear(meter, grown, (SETTLED + 40, 0.25), (SETTLED + 50, 0.35), (SETTLED + 60, 0.45))
    assert first.restart_seconds == pytest.approx(25.0)
    assert second.restart_seconds is None


def test_what_must_be_done_again_after_a_restart_is_part_of_its_cost() -> None:
    meter = SpeedMeter()
    hear(meter, training(2), (SETTLED, 0.1), (SETTLED + 10, 0.2))
    again = training(2, since=SETTLED + 20, attempt=2)
    (found,) = hear(meter, again, (SETTLED + 25, 0.15), (SETTLED + 35, 0.25))
    assert found.restart_seconds == pytest.approx(15.0 + 5.0)


def test_time_in_the_line_is_not_the_cost_of_a_restart() -> None:
    meter = SpeedMeter()
    hear(meter, training(2), (SETTLED, 0.1), (SETTLED + 10, 0.2))
    again = training(2, since=SETTLED + 1010, attempt=2)
    waited = [
        PhaseEntry(phase=phase, at=Timestamp(SETTLED + at), reason="")
        for phase, at in ((Phase.RESTARTING, 12), (Phase.STARTING, 1000), (Phase.PROCESSING, 1010))
    ]
    again = replace(again, history=(*again.history, *waited))
    (found,) = hear(meter, again, (SETTLED + 1015, 0.2), (SETTLED + 1025, 0.3))
    assert found.restart_seconds == pytest.approx(2.0 + 15.0)


def test_no_change_is_taken_to_cost_hours() -> None:
    meter = SpeedMeter()
    hear(meter, training(2), (SETTLED, 0.1), (SETTLED + 10, 0.2))
    (found,) = hear(meter, training(4), (SETTLED + 90_000, 0.2), (SETTLED + 90_010, 0.3))
    assert found.restart_seconds == MOST_RESTART_SECONDS


def test_runs_of_the_same_code_share_what_they_showed_and_other_code_does_not() -> None:
    earlier = EarlierRuns()
    sample = SpeedSample(workers=4, step_seconds=10.0)
    earlier.note(replace(training(4), speed=SpeedRecord(samples=(sample,), progress=0.7, measured_at=SETTLED)))
    again = make_job(training().spec, job_id="job-2")
    found = earlier.recall(again, Timestamp(START))
    assert found is not None
    assert found.speed.samples == (sample,)
    assert (found.speed.progress, found.speed.measured_at) == (None, None)
    other = make_spec(roles=(make_role("worker", command=("something", "else")),))
    assert earlier.recall(make_job(other, job_id="job-3"), Timestamp(START)) is None


def test_a_job_that_has_measured_itself_is_told_nothing() -> None:
    earlier, job = EarlierRuns(), training(4)
    job = replace(job, speed=SpeedRecord(samples=(SpeedSample(workers=4, step_seconds=10.0),)))
    earlier.note(job)
    assert earlier.recall(job, Timestamp(START)) is None
