"""What a new object may say of its own job, and what follows from the object alone."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gangline.errors import UnreadableRecordError
from gangline.kube import GenericObject
from gangline.model import Job, JobId, JournalRecord, Phase, PhaseEntry, Tenant, Timestamp
from gangline.model.kinds.sweep import SWEEP_LABEL
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.records.creation import AUTHOR, INITIAL, JOB_ID
from gangline.storage.kubernetes.records.custom_resources import job_to_object, job_to_status
from gangline.storage.kubernetes.records.kubeflow import KubeflowRecords
from gangline.storage.kubernetes.records.native import NATIVE
from gangline.storage.kubernetes.records.record_kind import RecordKind, StoredJob
from gangline.storage.kubernetes.records.record_text import record_to_text
from gangline.testing.builders import START, make_job, make_running_job
from tests.storage.kubernetes.records.test_kubeflow import TFJOBS, tfjob

MADE = "1970-01-12T13:46:40Z"
"""By the server's clock: START."""
RED = Tenant("red")


def record(reason: str, message: str) -> JournalRecord:
    return JournalRecord(job_id=JobId("job-1"), at=START, reason=reason, message=message, phase=Phase.QUEUED)


def stored(body: dict[str, Any], *, annotations: dict[str, str] | None = None, **metadata: Any) -> GenericObject:
    """The object as the server would return it."""
    own = body["metadata"]
    made = {"uid": "uid-1", "resourceVersion": "7", "creationTimestamp": MADE, **metadata}
    made["annotations"] = {**(own.get("annotations") or {}), **(annotations or {})}
    return msgspec.convert({**body, "metadata": {**own, **made}}, GenericObject, strict=False)


def submitted(job: Job, *records: JournalRecord, **metadata: Any) -> GenericObject:
    return stored(job_to_object(job, records, namespace="red", name=job.name), **metadata)


def seen(item: GenericObject, kind: RecordKind = NATIVE) -> StoredJob:
    """The object as the store reads it."""
    kept = JobObjects(None, prefix="", namespace=None).decode(item, kind)  # type: ignore[arg-type]  # nobody is asked
    assert kept is not None
    return kept


@pytest.mark.parametrize(
    ("claimed", "want"),
    [
        pytest.param(1.0, START, id="long ago, to go first"),
        pytest.param(START - 0.1, START, id="just before"),
        pytest.param(START + 0.25, START + 0.25, id="within the server's second: jobs keep their order"),
        pytest.param(START + 3600, START + 0.999, id="later"),
    ],
)
@pytest.mark.parametrize("recorded", [False, True], ids=["by the annotation", "by the status"])
def test_a_job_is_as_old_as_its_object(claimed: float, want: float, *, recorded: bool) -> None:
    job = make_job(tenant=RED, at=claimed)
    item = submitted(make_job(tenant=RED) if recorded else job)
    if recorded:
        item = msgspec.structs.replace(item, status=job_to_status(job, ()))
    assert seen(item).job.created_at == want


def test_a_new_job_has_no_history_but_its_birth() -> None:
    job = make_running_job(tenant=RED)
    old = PhaseEntry(phase=Phase.PROCESSING, at=Timestamp(1.0), reason="AllReplicasStarted")
    forged = replace(job, history=(*job.history, old), attempt=3, failures=2, checkpoint_at=Timestamp(1.0))
    created = seen(submitted(forged)).job
    assert created == make_job(tenant=RED)
    assert [entry.at for entry in created.history] == [START]


def test_a_job_may_be_submitted_to_rest() -> None:
    job = make_job(tenant=RED)
    rest = PhaseEntry(phase=Phase.HALTED, at=START, reason="SubmittedHalted")
    assert seen(submitted(replace(job, history=(*job.history, rest)))).job.phase is Phase.HALTED


def test_the_author_is_who_the_admission_policy_let_write_the_name() -> None:
    records = [record("Submitted", "by root"), record("Note", "tensorboard is left out"), record("Halted", "by root")]
    plain, signed = (submitted(make_job(tenant=RED), *records, annotations=given) for given in ({}, {AUTHOR: "ada"}))
    told = [[(each.reason, each.message) for each in seen(item).journal] for item in (plain, signed)]
    note = ("Note", "tensorboard is left out")
    assert told == [[("Submitted", ""), note], [("Submitted", "by ada"), note]]


def test_a_trial_says_which_sweep_submitted_it() -> None:
    job = make_job(tenant=RED, labels={SWEEP_LABEL: "grid"})
    (entry,) = seen(submitted(job, record("Submitted", "by the sweep other"))).journal
    assert entry.message == "by the sweep grid"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": {"history": 3}}', '{"state": {"history": [4]}}'])
def test_an_annotation_that_is_no_record_says_nothing(text: str) -> None:
    kept = seen(submitted(make_job(tenant=RED), annotations={INITIAL: text}))
    assert (kept.job, kept.journal) == (make_job(tenant=RED), ())


def test_a_kubeflow_job_is_as_old_as_its_object_and_has_no_history() -> None:
    forged = make_running_job(tenant=RED, job_id="job-1", at=1.0)
    item = tfjob()
    annotations = {INITIAL: record_to_text(forged, [record("Submitted", "by root")]), AUTHOR: "ada"}
    metadata = msgspec.structs.replace(item.metadata, labels={JOB_ID: "job-1"}, annotations=annotations)
    kept = seen(msgspec.structs.replace(item, metadata=metadata), TFJOBS)
    assert isinstance(kept.kind, KubeflowRecords)
    assert (kept.job.id, kept.job.created_at, kept.job.phase) == ("job-1", START, Phase.QUEUED)
    assert [each.message for each in kept.journal] == ["by ada"]


@pytest.mark.parametrize("kind", ["native", "kubeflow"])
def test_a_status_cannot_make_an_object_the_record_of_another_job(kind: str) -> None:
    another = make_running_job(tenant=RED, job_id="job-of-blue")
    if kind == "native":
        item = msgspec.structs.replace(submitted(make_job(tenant=RED)), status=job_to_status(another, ()))
    else:
        item = msgspec.structs.replace(tfjob(), status=TFJOBS.status(another, ()))
    with pytest.raises(UnreadableRecordError, match="has the id of another job"):
        seen(item, NATIVE if kind == "native" else TFJOBS)
