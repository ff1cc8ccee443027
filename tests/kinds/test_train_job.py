"""When a TrainJob's job rests and goes on."""

import json
from dataclasses import replace

from gangline.dialects import document
from gangline.dialects.trainer import read_train_job
from gangline.kinds.kind import Owned, Plan
from gangline.kinds.train_job import plan_train_job
from gangline.model import Job, Phase, PhaseEntry, Timestamp
from gangline.model.kinds.train_job import TrainJob, TrainJobStatus
from gangline.model.record import Record, RecordId
from gangline.testing.builders import make_job

BODY = {"metadata": {"name": "digits"}, "spec": {"runtimeRef": {"name": "jax-distributed"}}}


def record(*, suspend: bool = False, begun: bool = True, **status: object) -> TrainJob:
    body = {**BODY, "spec": {**BODY["spec"], "suspend": suspend}}
    spec = read_train_job(document.plain(json.loads(json.dumps(body))))
    whole = TrainJobStatus(begun=begun, **status)  # type: ignore[arg-type]
    return Record(id=RecordId("r"), spec=spec, status=whole, created_at=Timestamp(0.0))


def job(*phases: tuple[Phase, float]) -> Job:
    history = tuple(PhaseEntry(phase=phase, at=Timestamp(at), reason="", message="") for phase, at in phases)
    return replace(make_job(), history=history)


def planned(known: TrainJob, found: Job, now: float) -> Plan[TrainJobStatus]:
    return plan_train_job(known, Owned(jobs=(found,)), Timestamp(now))


RUNNING = (Phase.PROCESSING, 5.0)


def test_one_that_is_resumed_before_it_rests_is_resumed_once_it_does() -> None:
    known = record(suspended_at=Timestamp(10.0))
    early = planned(known, job(RUNNING), 12.0)
    assert early.status.suspended_at == 10.0, "the request to rest is still under way"
    assert early.resume == ()
    resting = job(RUNNING, (Phase.HALTING, 13.0), (Phase.HALTED, 14.0))
    assert planned(known, resting, 15.0).resume == (resting.id,)
    goes_on = job(RUNNING, (Phase.HALTING, 13.0), (Phase.HALTED, 14.0), (Phase.QUEUED, 16.0))
    assert planned(known, goes_on, 17.0).status.suspended_at is None


def test_that_one_is_to_rest_is_noted_before_it_is_asked_for() -> None:
    noted = planned(record(suspend=True), job(RUNNING), 10.0)
    assert (noted.status.suspended_at, noted.halt) == (10.0, ())
    running = job(RUNNING)
    asked = planned(record(suspend=True, suspended_at=Timestamp(10.0)), running, 11.0)
    assert (asked.halt, asked.again_at) == ((running.id,), 16.0)
    resting = job(RUNNING, (Phase.HALTED, 14.0))
    assert planned(record(suspend=True, suspended_at=Timestamp(10.0)), resting, 15.0).again_at is None


def test_one_that_is_to_go_on_is_asked_again_until_it_does() -> None:
    resting = job(RUNNING, (Phase.HALTED, 14.0))
    assert planned(record(suspended_at=Timestamp(10.0)), resting, 15.0).again_at == 20.0


def test_one_that_began_though_that_could_not_be_noted_is_not_suspended() -> None:
    assert planned(record(begun=False, suspended_at=Timestamp(10.0)), job(RUNNING), 12.0).status.suspended_at is None


def test_a_request_to_rest_that_came_to_nothing_is_forgotten_in_the_end() -> None:
    assert planned(record(suspended_at=Timestamp(10.0)), job(RUNNING), 60.0).status.suspended_at is None


def test_what_its_user_halted_by_hand_rests_until_they_resume_it() -> None:
    assert planned(record(), job(RUNNING, (Phase.HALTED, 14.0)), 15.0).resume == ()
