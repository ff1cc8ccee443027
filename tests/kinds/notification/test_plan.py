"""Which changes of jobs are told, and what follows from attempts to tell them."""

from dataclasses import replace
from typing import Any

import pytest

from gangline.errors import InvalidInputError
from gangline.kinds.kind import Owned
from gangline.kinds.notification import NOTIFICATION, enable
from gangline.kinds.notification.plan import (
    BACKOFF,
    MOST_FAILURES,
    MOST_PENDING,
    OVERLAP_SECONDS,
    Attempt,
    NotificationSight,
    may_try,
    plan_notification,
)
from gangline.lifecycle import NOTHING_TO_DO
from gangline.model import Job, JobId, Phase, PhaseEntry, Tenant, Timestamp
from gangline.model.kinds.notification import (
    Notification,
    NotificationSpec,
    NotificationStatus,
    NotificationType,
    problem_of_url,
)
from gangline.model.record import Record, RecordId
from gangline.testing.builders import START, make_job

URL = "https://hooks.example.org/x"


def notification(**fields: Any) -> Notification:
    spec = NotificationSpec(**{"name": "ops", "url": URL, "secret": "ops", **fields})
    return Record(id=RecordId("n1"), spec=spec, status=NotificationStatus(), created_at=START)


def at(seconds: float) -> Timestamp:
    return Timestamp(START + seconds)


def job_in(*phases: Phase, begin: float = 1.0, **fields: Any) -> Job:
    """A job that entered these phases one second after each other."""
    job = make_job(at=at(begin), **fields)
    history = tuple(
        PhaseEntry(phase=phase, at=at(begin + number), reason="Because", message="it is so")
        for number, phase in enumerate(phases)
    )
    return replace(job, history=history)


def planned(record: Notification, *, now: float = 100.0, **seen: Any) -> Notification:
    """The record after a plan, which must then find nothing more to do."""
    sight = NotificationSight(at=at(now), **seen)
    status = plan_notification(record, Owned(sight=sight), at(now)).status
    record = replace(record, status=status)
    again = NotificationSight(at=at(now + 1), attempt=sight.attempt)
    assert plan_notification(record, Owned(sight=again), at(now + 1)).status == status
    return record


def told(record: Notification) -> list[tuple[str, Phase]]:
    return [(each.id, each.phase) for each in record.status.pending]


RAN = (Phase.QUEUED, Phase.STARTING, Phase.PROCESSING, Phase.COMPLETED)


def test_the_end_of_a_job_is_told_once_under_an_id_that_follows_from_it() -> None:
    record = planned(notification(), jobs=(job_in(*RAN[:3]),))
    assert told(record) == []
    done = job_in(*RAN)
    record = planned(record, jobs=(done,))
    assert told(record) == [("n1-job-1-3", Phase.COMPLETED)]
    (delivery,) = record.status.pending
    assert (delivery.previous, delivery.message, delivery.at) == (Phase.PROCESSING, "it is so", at(4.0))
    assert planned(record, now=101, jobs=(done,)).status.pending == record.status.pending


def test_a_job_that_was_told_to_its_end_and_forgotten_is_not_told_again_when_it_changes() -> None:
    record = planned(notification(), jobs=(job_in(*RAN),))
    record = planned(record, now=200, gone=(JobId("other"),))
    assert not record.status.following
    assert told(planned(record, now=300, jobs=(job_in(*RAN),))) == told(record)


def test_a_young_job_that_has_ended_is_remembered_until_no_listing_can_bring_it_back() -> None:
    job = job_in(*RAN, begin=90)
    record = planned(notification(), jobs=(job,))
    assert record.status.following[job.id].until == at(90 + OVERLAP_SECONDS)
    record = planned(record, now=100.5, gone=(JobId("other"),))
    assert job.id not in record.status.following


@pytest.mark.parametrize(
    ("fields", "job", "want"),
    [
        pytest.param({}, {}, [3], id="all"),
        pytest.param({"phases": ("QUEUED", "PROCESSING")}, {}, [0, 2], id="phases"),
        pytest.param({"jobs": ("mnist", "x")}, {}, [3], id="the job"),
        pytest.param({"jobs": ("x",)}, {}, [], id="another job"),
        pytest.param({"selector": {"team": "a"}}, {"labels": {"team": "a", "b": "c"}}, [3], id="the label"),
        pytest.param({"selector": {"team": "a"}}, {"labels": {"team": "b"}}, [], id="another label"),
        pytest.param({"selector": {"team": "a"}}, {}, [], id="no label"),
        pytest.param({}, {"tenant": Tenant("speech")}, [], id="another tenant"),
    ],
)
def test_only_what_was_asked_for_is_told(fields: dict[str, Any], job: dict[str, Any], want: list[int]) -> None:
    record = planned(notification(**fields), jobs=(job_in(*RAN, **job),))
    assert [each.id for each in record.status.pending] == [f"n1-job-1-{number}" for number in want]


def test_a_label_given_later_counts_from_then_on() -> None:
    record = notification(phases=("PROCESSING", "COMPLETED"), selector={"team": "a"})
    record = planned(record, jobs=(job_in(*RAN[:3]),))
    record = planned(record, now=200, jobs=(job_in(*RAN, labels={"team": "a"}),))
    assert told(record) == [("n1-job-1-3", Phase.COMPLETED)]


def test_phases_before_it_was_made_and_phases_without_work_are_not_told() -> None:
    record = notification(phases=("QUEUED", "DOWNLOADING", "COMPLETED"))
    job = job_in(Phase.QUEUED, Phase.DOWNLOADING, Phase.COMPLETED, begin=-0.5)
    idle = replace(job.history[1], reason=NOTHING_TO_DO)
    record = planned(record, jobs=(replace(job, history=(job.history[0], idle, job.history[2])),))
    assert told(record) == [("n1-job-1-2", Phase.COMPLETED)]


def test_what_was_accepted_is_pending_no_more_and_counted_once() -> None:
    record = planned(notification(phases=("QUEUED", "COMPLETED")), jobs=(job_in(*RAN),))
    record = planned(record, attempt=Attempt(at=at(101), sent=("n1-job-1-0",)))
    assert (told(record), record.status.sent, record.state) == ([("n1-job-1-3", Phase.COMPLETED)], 1, "active")


def test_failures_are_tried_again_after_growing_pauses_and_then_disable_it() -> None:
    record = planned(notification(), jobs=(job_in(*RAN),))
    assert may_try(record.status, at(100))
    for number in range(1, MOST_FAILURES):
        when = at(100 + number)
        record = planned(record, now=100 + number, attempt=Attempt(at=when, problem="HTTP 500"))
        assert (record.state, record.status.failures) == ("failing", number)
        assert record.status.retry_at == when + BACKOFF.pause(number)
        assert not may_try(record.status, Timestamp(record.status.retry_at - 0.1))
        assert may_try(record.status, record.status.retry_at)
    record = planned(record, now=200, attempt=Attempt(at=at(200), problem="HTTP 500"))
    assert (record.state, record.status.problem, record.status.pending) == ("disabled", "HTTP 500", ())
    assert (record.status.dropped, record.status.disabled_at) == (1, at(200))


def test_the_driver_is_asked_to_look_again_when_the_pause_is_over_and_not_before() -> None:
    record = planned(notification(), jobs=(job_in(*RAN),))
    attempt = Attempt(at=at(101), problem="HTTP 500")
    failed = plan_notification(record, Owned(sight=NotificationSight(at=at(101), attempt=attempt)), at(101))
    assert failed.again_at == at(101 + BACKOFF.pause(1))
    later = plan_notification(
        replace(record, status=failed.status), Owned(sight=NotificationSight(at=at(999))), at(999)
    )
    assert later.again_at is None  # it is being sent; looking again and again would not help


def test_a_receiver_that_is_gone_disables_it_at_once() -> None:
    record = planned(notification(), jobs=(job_in(*RAN),))
    assert planned(record, attempt=Attempt(at=at(101), problem="HTTP 410", gone=True)).state == "disabled"


def test_something_accepted_on_the_way_begins_the_count_of_failures_anew() -> None:
    record = planned(notification(phases=("QUEUED", "COMPLETED")), jobs=(job_in(*RAN),))
    for number in range(5):
        record = planned(record, now=101 + number, attempt=Attempt(at=at(101 + number), problem="HTTP 500"))
    record = planned(record, now=110, attempt=Attempt(at=at(110), sent=("n1-job-1-0",), problem="HTTP 500"))
    assert (record.status.failures, record.status.sent) == (1, 1)


def test_while_disabled_changes_are_counted_and_not_kept_and_enabling_tells_later_ones_only() -> None:
    record = planned(notification(), jobs=(job_in(*RAN[:1]),))
    record = planned(record, attempt=Attempt(at=at(101), problem="HTTP 410", gone=True))
    record = planned(record, now=200, jobs=(job_in(*RAN),))
    assert (record.status.pending, record.status.dropped) == ((), 1)
    record = enable(record)
    assert (record.state, record.status.problem) == ("active", "")
    late = job_in(*RAN, begin=201, job_id="job-2", name="late")
    assert told(planned(record, now=300, jobs=(job_in(*RAN), late))) == [("n1-job-2-3", Phase.COMPLETED)]


def test_too_many_pending_drop_the_oldest_and_say_how_many() -> None:
    jobs = tuple(job_in(*RAN, job_id=f"job-{number}") for number in range(MOST_PENDING + 2))
    record = planned(notification(), jobs=jobs)
    assert (len(record.status.pending), record.status.dropped) == (MOST_PENDING, 2)
    assert record.status.pending[0].job_id == "job-2"


def test_without_anybody_who_sends_nothing_changes() -> None:
    record = notification()
    assert plan_notification(record, Owned(), at(0)).status == record.status


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"secret": ""}, "spec.secret", id="unsigned"),
        pytest.param({"url": "ftp://x/y"}, "spec.url", id="scheme"),
        pytest.param({"url": "https://"}, "spec.url", id="no host"),
        pytest.param({"url": "https://me:pass@example.org/"}, "spec.url", id="password"),
        pytest.param({"url": "https://example.org/a b"}, "spec.url", id="blank"),
        pytest.param({"url": "https://example.org/\r\nX: y"}, "spec.url", id="header"),
        pytest.param({"url": "https://example.org:99999/"}, "spec.url", id="port"),
        pytest.param({"type": NotificationType.SLACK, "url": "", "secret": ""}, "spec.secret", id="slack to nowhere"),
        pytest.param({"type": NotificationType.SLACK}, "spec.url", id="slack's address for all to see"),
        pytest.param({"phases": ("DONE",)}, "spec.phases", id="phase"),
        pytest.param({"to": ("a@example.org",)}, "spec.to", id="mailbox of a webhook"),
        pytest.param({"type": NotificationType.EMAIL, "url": "", "secret": ""}, "spec.to", id="no mailbox"),
        pytest.param({"type": NotificationType.EMAIL, "to": ("a@example.org",)}, "spec.url", id="url of a mail"),
        pytest.param(
            {"type": NotificationType.EMAIL, "url": "", "secret": "", "to": ("a@example.org\nBcc: b@c",)},
            "spec.to",
            id="header of a mail",
        ),
        pytest.param({"secret": "../x"}, "spec.secret", id="secret elsewhere"),
    ],
)
def test_what_could_never_be_sent_is_refused(fields: dict[str, Any], want: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        notification(**fields)
    assert refused.value.field == want


def test_an_address_is_judged_without_being_repeated() -> None:
    assert problem_of_url(URL) == ""
    assert "token" not in problem_of_url("ftp://example.org/token")


def test_the_file_is_read_as_it_was_written() -> None:
    from gangline.dialects import document

    spec = notification(phases=("FAILED",), selector={"team": "a"}).spec
    assert NOTIFICATION.format.read(document.plain(NOTIFICATION.format.write(spec)), {}) == spec
