"""The record as a text: read back as it was written, and never larger than an object may be."""

from dataclasses import replace

import msgspec

from gangline.model import Job, JournalRecord, Phase, PhaseEntry, ReplicaId, ReplicaState
from gangline.storage.kubernetes.records.custom_resources import job_to_status
from gangline.storage.kubernetes.records.record_text import FIELD, appended, read_record, record_to_text
from gangline.testing.builders import START, make_job, make_running_job

ETCD_TAKES = 1_500_000
LOUD = "Traceback (most recent call last):\n" + 'x"\n' * 700


def read_back(job: Job, journal: tuple[JournalRecord, ...] = ()) -> Job:
    record = read_record({FIELD: record_to_text(job, journal)})
    assert record is not None
    return record.job(job.spec)


def records(count: int, message: str = LOUD) -> tuple[JournalRecord, ...]:
    one = JournalRecord(job_id=make_job().id, at=START, reason="ReplicaFailed", message=message, phase=Phase.RESTARTING)
    return appended((), [one] * count)


def test_a_record_is_read_back_as_it_was_written() -> None:
    job = make_running_job()
    first = replace(job.replicas[0], exit_code=0, state=ReplicaState.SUCCEEDED, gpu_slot=0, message="done")
    job = replace(job, replicas=(first, *job.replicas[1:]))
    assert read_back(job) == job


def test_a_job_that_failed_a_thousand_times_aloud_can_still_be_written() -> None:
    failed = PhaseEntry(phase=Phase.RESTARTING, at=START, reason="ReplicaFailed", message=LOUD)
    job = replace(make_running_job(), history=(*make_job().history, *[failed] * 5000))
    journal = records(3000)
    assert len(journal) == 1000
    status = job_to_status(job, journal)
    assert len(msgspec.json.encode(status)) < ETCD_TAKES
    last = read_back(job, journal).history[-1]
    assert (last.phase, last.message) == (Phase.RESTARTING, LOUD)


def test_thousands_of_replicas_that_fail_at_once_can_still_be_written() -> None:
    job = make_running_job()
    failed = replace(job.replicas[0], exit_code=1, message=LOUD)
    worker = failed.id.role
    job = replace(job, replicas=tuple(replace(failed, id=ReplicaId(worker, index)) for index in range(3000)))
    assert len(msgspec.json.encode(job_to_status(job, records(1000)))) < ETCD_TAKES
    kept = read_back(job, records(1000))
    assert len(kept.replicas) == 3000
    assert kept.replicas[-1].message.startswith("Traceback")


def test_the_newest_records_are_those_that_are_kept() -> None:
    journal = records(1500)
    record = read_record({FIELD: record_to_text(make_job(), journal)})
    assert record is not None
    assert 0 < len(record.journal) < 1000
    assert record.journal[-1].number == 1500
