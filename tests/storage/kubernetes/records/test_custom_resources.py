"""Jobs as custom resources and back; the store's contract is proved on a real cluster."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gangline.errors import InvalidInputError, StorageError
from gangline.kube import GenericObject
from gangline.model import Job, JournalRecord, Phase, QueueName, Tenant
from gangline.storage.kubernetes.definitions.native import DEFINITIONS
from gangline.storage.kubernetes.records.custom_resources import FINALIZER, job_to_object, job_to_status, object_to_job
from gangline.storage.kubernetes.records.native import NATIVE
from gangline.storage.kubernetes.records.record_kind import StoredJob
from gangline.storage.kubernetes.records.record_text import appended
from gangline.storage.kubernetes.records.started_spec import without_removed_roles
from gangline.testing.builders import START, FakeClock, make_job, make_running_job

RED = Tenant("red")


def stored(body: dict[str, Any], **metadata: Any) -> GenericObject:
    """The object as the server would return it."""
    made = {"uid": "uid-1", "resourceVersion": "7", "creationTimestamp": "1970-01-12T13:46:40Z", **metadata}
    return msgspec.convert({**body, "metadata": {**body["metadata"], **made}}, GenericObject, strict=False)


def record(message: str, phase: Phase = Phase.QUEUED) -> JournalRecord:
    return JournalRecord(job_id=make_job().id, at=START, reason="Began", message=message, phase=phase)


def round_trip(job: Job) -> StoredJob:
    return object_to_job(stored(job_to_object(job, [record("first")], namespace="red", name=job.name)), RED, NATIVE)


def test_a_new_job_is_whole_in_one_object() -> None:
    job = make_job(tenant=RED, queue=QueueName("fast"), priority=75, labels={"team": "vision"})
    kept = round_trip(job)
    assert kept.job == job
    assert (kept.job.version, kept.finalizers) == (7, (FINALIZER,))


def test_the_status_is_the_record_from_then_on() -> None:
    job = make_running_job(tenant=RED)
    body = job_to_object(make_job(tenant=RED), [], namespace="red", name="mnist")
    journal = appended((), [record("first"), record("second")])
    kept = object_to_job(stored({**body, "status": job_to_status(job, journal)}), RED, NATIVE)
    assert kept.job == job
    assert [entry.number for entry in kept.journal] == [1, 2]


def test_a_job_applied_by_hand_begins_when_it_was_created() -> None:
    body = {"metadata": {"name": "mnist"}, "spec": {"command": "python train.py", "queue": "fast", "priority": "high"}}
    job = object_to_job(stored(body), RED, NATIVE).job
    assert (job.id, job.created_at, job.phase) == ("uid-1", START, Phase.QUEUED)
    assert (job.spec.queue, job.spec.priority, job.spec.tenant) == ("fast", 75, "red")


def test_a_namesake_of_a_job_that_is_going_keeps_its_own_name() -> None:
    job = make_job(tenant=RED)
    assert (
        object_to_job(stored(job_to_object(job, [], namespace="red", name="mnist-2")), RED, NATIVE).job.name == "mnist"
    )


def test_a_spec_that_is_no_job_names_the_field() -> None:
    with pytest.raises(StorageError, match=r"red/mnist.*replicas"):
        object_to_job(
            stored({"metadata": {"name": "mnist", "namespace": "red"}, "spec": {"command": "x", "replicas": 0}}),
            RED,
            NATIVE,
        )


@pytest.mark.parametrize("place", [{"name": "copied"}, {"namespace": "blue"}], ids=["name", "namespace"])
def test_a_copy_of_a_job_under_another_name_is_a_job_of_its_own(place: dict[str, str]) -> None:
    body = job_to_object(make_job(tenant=RED), [record("first")], namespace="red", name="mnist-2")
    kept = object_to_job(stored(body, **place), RED, NATIVE)
    assert (kept.job.id, kept.job.name, kept.journal) == ("uid-1", place.get("name", "mnist-2"), ())


def edited(job: Job, spec: dict[str, Any], **metadata: Any) -> GenericObject:
    """The object of a job whose author has written another spec meanwhile."""
    body = job_to_object(make_job(tenant=RED), [], namespace="red", name="mnist")
    return stored({**body, "spec": spec, "status": job_to_status(job, ())}, **metadata)


NO_JOB = {"roles": {"worker": {"command": ["true"], "resources": {"cpu": "many"}}}}


def test_a_role_taken_out_of_the_spec_can_still_be_stopped_and_is_not_started_again() -> None:
    job = make_running_job(tenant=RED)
    kept = object_to_job(edited(job, {"roles": {"trainer": {"command": ["true"]}}}), RED, NATIVE)
    assert [role.name for role in kept.job.spec.roles] == ["trainer", "worker"]
    assert without_removed_roles(kept.job) is kept.job
    rested = without_removed_roles(replace(kept.job, holding=False))
    assert [role.name for role in rested.spec.roles] == ["trainer"]


@pytest.mark.parametrize(
    ("job", "metadata"),
    [
        pytest.param(make_running_job(tenant=RED), {}, id="it runs"),
        pytest.param(make_job(tenant=RED), {"deletionTimestamp": "1970-01-12T13:46:41Z"}, id="it is being deleted"),
    ],
)
def test_a_spec_made_unreadable_keeps_no_job_from_its_end(job: Job, metadata: dict[str, Any]) -> None:
    kept = object_to_job(edited(job, NO_JOB, **metadata), RED, NATIVE)
    assert kept.job.phase is job.phase
    assert "many" in (kept.complaint or "")
    assert NATIVE.change(kept, replace(kept.job, spec=make_job(tenant=RED).spec)) == {}


def test_a_waiting_job_whose_spec_was_made_unreadable_says_so_and_keeps_its_phase() -> None:
    item = edited(make_job(tenant=RED), NO_JOB)
    with pytest.raises(StorageError, match="many"):
        object_to_job(item, RED, NATIVE)
    assert NATIVE.refusal(item, "no job", FakeClock()) == {"reason": "InvalidJob", "message": "no job"}


def test_a_label_kubernetes_would_refuse_is_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match="no good"):
        job_to_object(make_job(labels={"team": "no good"}), [], namespace="red", name="mnist")


def test_the_status_tells_people_where_the_job_is() -> None:
    status = job_to_status(make_running_job(tenant=RED), ())
    assert (status["phase"], status["ready"]) == ("PROCESSING", "1/1")
    truths = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert truths == {"Scheduled": "True", "Running": "True", "Complete": "False", "Failed": "False"}
    assert status["history"][0] == {
        "phase": "QUEUED",
        "at": "1970-01-12T13:46:40Z",
        "reason": "Submitted",
        "message": "",
    }


def test_an_event_repeats_itself_under_the_same_name() -> None:
    kept = round_trip(make_job(tenant=RED))
    records = [replace(record("no", Phase.FAILED), number=number) for number in (1, 2)]
    one, two = (event for each in records for event in NATIVE.events(kept, each))
    assert one == two
    assert (one["type"], one["message"], one["involvedObject"]["uid"]) == ("Warning", "FAILED: no", "uid-1")


def test_definitions_serve_one_version_with_a_schema() -> None:
    for definition in DEFINITIONS:
        (version,) = definition["spec"]["versions"]
        assert version["served"]
        assert version["storage"]
        assert version["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"] == "object"
