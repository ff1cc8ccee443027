"""What a change of a job leaves in its journal."""

from dataclasses import replace

from gangline.lifecycle import advance
from gangline.lifecycle.events import GangGrown, ReplicaExited, ScaleRequested
from gangline.model import NodeName, ReplicaId, RoleName, Timestamp
from gangline.storage.journal import records_between
from gangline.testing.builders import START, make_job, make_role, make_running_job, make_spec

ELASTIC = make_spec(roles=(make_role("worker", replicas=1, maximum=3),))


def test_a_new_job_begins_its_journal() -> None:
    assert [record.reason for record in records_between(None, make_job(), START)] == ["Submitted"]


def test_phases_without_work_are_left_out_and_the_rest_is_in_order() -> None:
    records = records_between(make_job(ELASTIC), make_running_job(ELASTIC), START)
    assert [record.reason for record in records] == ["GangPlaced", "ReplicaStarted", "AllReplicasStarted"]


def test_growth_and_the_wish_for_it_are_told() -> None:
    job = make_running_job(ELASTIC)
    worker = RoleName("worker")
    wanted = advance(job, ScaleRequested(job_id=job.id, at=START, scale={worker: 2})).job
    grown = advance(wanted, GangGrown(job_id=job.id, at=START, added={ReplicaId(worker, 1): NodeName("node-1")})).job
    told = [(record.reason, record.message) for record in records_between(job, grown, START)]
    assert told == [("GangGrown", "worker-1"), ("ScaleRequested", "worker=2")]


def test_nothing_changed_means_nothing_told() -> None:
    job = make_running_job(ELASTIC)
    assert records_between(job, replace(job, version=7), START) == ()


def test_a_failure_says_its_code_and_what_the_program_said_last() -> None:
    job = make_running_job(ELASTIC)
    told = "ValueError: no data"
    event = ReplicaExited(
        job_id=job.id, at=START, attempt=1, replica=ReplicaId(RoleName("worker"), 0), exit_code=1, message=told
    )
    records = records_between(job, advance(job, event).job, START)
    assert [(record.reason, record.message) for record in records] == [
        ("ReplicaFailed", f"exit code 1: {told}"),
        ("ReplicaFailed", f"worker-0 exited with 1: {told}"),
    ]


def test_a_kubelet_whose_clock_knows_only_seconds_starts_nothing_before_its_gang_was_placed() -> None:
    waiting, running = make_job(ELASTIC), make_running_job(ELASTIC)
    early = tuple(replace(status, started_at=Timestamp(START - 0.5)) for status in running.replicas)
    records = records_between(waiting, replace(running, replicas=early), START)
    assert records[0].reason == "GangPlaced"
    assert {record.at for record in records} == {START}
