"""What a record makes of reports: means per size, and no trust in what cannot be."""

import math

import pytest

from gangline.model.jobs.speed import OUTLIER_FACTOR, SAMPLES_KEPT, SpeedRecord, SpeedSample, with_sample


def sample(seconds: float, steps: float = 10.0, workers: int = 2) -> SpeedSample:
    return SpeedSample(workers=workers, step_seconds=seconds, steps=steps)


def test_reports_of_one_size_are_averaged_by_how_long_they_lasted() -> None:
    record = with_sample(with_sample(SpeedRecord(), sample(1.0, 30.0)), sample(1.4, 10.0))
    (mean,) = record.samples
    assert mean.step_seconds == pytest.approx(1.1)
    assert mean.steps == 40.0
    assert record.replica_seconds == pytest.approx(2 * (30 * 1.0 + 10 * 1.4))


def test_sizes_are_kept_apart() -> None:
    record = with_sample(with_sample(SpeedRecord(), sample(1.0)), sample(0.5, workers=4))
    assert {each.workers for each in record.samples} == {2, 4}
    assert record.largest_tried == 4


@pytest.mark.parametrize("seconds", [1000.0, 0.001])
def test_a_report_that_contradicts_many_is_outvoted(seconds: float) -> None:
    record = with_sample(SpeedRecord(), sample(1.0, 100.0))
    for _ in range(3):
        record = with_sample(record, sample(seconds, 10.0))
    assert 1 / OUTLIER_FACTOR < record.samples[0].step_seconds < OUTLIER_FACTOR


@pytest.mark.parametrize(
    "wrong",
    [
        SpeedSample(workers=2, step_seconds=0.0),
        SpeedSample(workers=2, step_seconds=-1.0),
        SpeedSample(workers=0, step_seconds=1.0),
        SpeedSample(workers=2, step_seconds=math.nan),
        SpeedSample(workers=2, step_seconds=math.inf),
        SpeedSample(workers=2, step_seconds=1.0, sync_seconds=2.0),
        SpeedSample(workers=2, step_seconds=1.0, steps=0.0),
    ],
    ids=lambda each: f"{each.workers} workers {each.step_seconds} s",
)
def test_what_cannot_be_true_is_left_out(wrong: SpeedSample) -> None:
    assert with_sample(SpeedRecord(), wrong) == SpeedRecord()


def test_a_record_does_not_grow_without_end() -> None:
    record = SpeedRecord()
    for workers in range(1, 2 * SAMPLES_KEPT):
        record = with_sample(record, sample(1.0, steps=float(workers), workers=workers))
    assert len(record.samples) == SAMPLES_KEPT
    assert record.largest_tried == 2 * SAMPLES_KEPT - 1


def test_what_changes_little_changes_nothing() -> None:
    record = with_sample(SpeedRecord(), sample(1.0))
    assert with_sample(record, sample(1.001)).samples == record.samples


def test_a_job_that_became_slower_for_good_is_noticed() -> None:
    record = with_sample(SpeedRecord(), sample(1.0, 1000.0))
    for _ in range(500):
        record = with_sample(record, sample(1.3, 10.0))
    assert record.samples[0].step_seconds == pytest.approx(1.3, rel=0.02)
