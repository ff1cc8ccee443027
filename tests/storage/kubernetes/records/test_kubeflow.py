"""Kubeflow's objects as records: what is read, what is written, and whose word counts."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gangline.dialects.kubeflow import KINDS
from gangline.errors import StorageError
from gangline.kube import GenericObject
from gangline.lifecycle.events import HaltRequested, ResumeRequested
from gangline.model import Clean, Job, JournalRecord, Phase, PhaseEntry, Restart, Tenant
from gangline.storage.kubernetes.definitions.kubeflow import CATEGORY, STRICT_CATEGORY, kubeflow_definitions
from gangline.storage.kubernetes.records.kubeflow import KubeflowRecords
from gangline.storage.kubernetes.records.record_kind import StoredJob
from gangline.testing.builders import START, FakeClock, make_running_job

RED = Tenant("red")
TFJOBS = KubeflowRecords(KINDS["TFJob"])
PYTORCH = KubeflowRecords(KINDS["PyTorchJob"])
MPI = KubeflowRecords(KINDS["MPIJob"])
Plain = dict[str, Any]


def replica(container: str = "tensorflow", **fields: Any) -> Plain:
    template = {"spec": {"containers": [{"name": container, "image": "acme/train", "command": ["train"]}]}}
    return {"template": template, **fields}


def stored(spec: Plain, status: Plain | None = None, **metadata: Any) -> GenericObject:
    """An object as the server returns it."""
    made = {"uid": "uid-1", "resourceVersion": "7", "creationTimestamp": "1970-01-12T13:46:40Z"}
    body = {"metadata": {"name": "mnist", "namespace": "red", **made, **metadata}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, GenericObject, strict=False)


def tfjob(status: Plain | None = None, *, metadata: Plain | None = None, **spec: Any) -> GenericObject:
    return stored(
        {"tfReplicaSpecs": {"Chief": replica(), "Worker": replica(replicas=2)}, **spec}, status, **metadata or {}
    )


def read(records: KubeflowRecords, item: GenericObject) -> StoredJob:
    kept = records.read(item, RED)
    assert kept is not None
    return kept


def run_job(job: Job) -> Job:
    return make_running_job(job.spec, job_id=job.id)


def entered(job: Job, *phases: Phase) -> Job:
    entries = tuple(PhaseEntry(phase=phase, at=START, reason="Test") for phase in phases)
    return replace(job, history=(*job.history, *entries))


def test_an_object_applied_by_hand_is_a_job_that_waits() -> None:
    kept = read(TFJOBS, tfjob())
    job = kept.job
    assert (job.id, job.name, job.spec.tenant, job.phase, job.created_at) == (
        "uid-1",
        "mnist",
        "red",
        Phase.QUEUED,
        START,
    )
    assert (job.version, kept.recorded, kept.finalizers) == (7, False, ())
    assert (kept.owner.namespace, kept.owner.reference.kind, kept.owner.reference.controller) == ("red", "TFJob", True)


def test_the_status_holds_the_whole_record_beside_upstreams_words() -> None:
    created = read(TFJOBS, tfjob()).job
    job = run_job(created)
    record = JournalRecord(job_id=job.id, at=START, reason="GangPlaced", message="", phase=Phase.STARTING, number=1)
    status = TFJOBS.status(job, [record])
    assert [condition["type"] for condition in status["conditions"]] == ["Created", "Running"]
    assert status["replicaStatuses"]["Worker"]["active"] == 2
    kept = read(TFJOBS, tfjob(status))
    assert (kept.job, kept.journal, kept.recorded) == (job, (record,), True)


@pytest.mark.parametrize(
    ("annotation", "installation", "want"),
    [
        (None, False, Restart.GANG),
        (None, True, Restart.REPLICA),
        ("false", True, Restart.GANG),
        ("true", False, Restart.REPLICA),
    ],
)
def test_a_job_or_its_installation_may_be_strict(annotation: str | None, installation: bool, want: Restart) -> None:
    records = KubeflowRecords(KINDS["TFJob"], strict=installation)
    annotations = {} if annotation is None else {"gangline.dev/strict": annotation}
    item = stored({"tfReplicaSpecs": {"Worker": replica(restartPolicy="OnFailure")}}, annotations=annotations)
    spec = read(records, item).job.spec
    assert spec.roles[0].restart is want
    assert spec.policy.clean is (Clean.LEAVE if want is Restart.REPLICA else Clean.NONE)


def test_a_job_of_another_controller_is_not_ours() -> None:
    assert TFJOBS.read(tfjob(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}), RED) is None


def test_both_versions_of_an_mpijob_are_told_apart() -> None:
    spec = {"mpiReplicaSpecs": {"Launcher": replica("mpi"), "Worker": replica("mpi")}}
    assert read(MPI, stored(spec)).job.spec.origin == "kubeflow.org/v1 MPIJob"
    assert (
        read(MPI, stored({**spec, "sshAuthMountPath": "/root/.ssh"})).job.spec.origin == "kubeflow.org/v2beta1 MPIJob"
    )


@pytest.mark.parametrize(
    ("suspend", "phases", "want"),
    [
        pytest.param(True, (Phase.STARTING, Phase.PROCESSING), HaltRequested, id="halts what runs"),
        pytest.param(False, (Phase.HALTED,), ResumeRequested, id="wakes what rests"),
        pytest.param(True, (Phase.HALTED,), None, id="rests already"),
        pytest.param(False, (Phase.STARTING,), None, id="runs already"),
        pytest.param(True, (Phase.COMPLETED,), None, id="has ended"),
    ],
)
def test_suspend_is_a_wish(suspend: bool, phases: tuple[Phase, ...], want: type | None) -> None:
    kept = read(TFJOBS, tfjob(runPolicy={"suspend": suspend}))
    job = replace(kept.job, history=(kept.job.history[0], *entered(kept.job, *phases).history[len(kept.job.history) :]))
    requested_changes = TFJOBS.requested_changes(replace(kept, job=job), FakeClock())
    assert [type(requested) for requested in requested_changes] == ([want] if want else [])


def test_a_halt_of_ours_is_written_into_the_spec_and_a_users_wish_is_not_undone() -> None:
    kept = read(TFJOBS, tfjob())
    running = replace(kept, job=run_job(kept.job))
    halting = entered(running.job, Phase.HALTING)
    assert TFJOBS.change(running, halting) == {"spec": {"runPolicy": {"suspend": True}}}
    assert TFJOBS.change(replace(running, suspended=True), running.job) == {}, "the wish is heard in a moment"


def test_the_replica_count_of_the_spec_is_what_an_elastic_job_should_have() -> None:
    def item(count: int, status: Plain | None = None) -> GenericObject:
        replicas = {"Worker": replica("pytorch", replicas=count, restartPolicy="OnFailure")}
        return stored({"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}, "pytorchReplicaSpecs": replicas}, status)

    running = run_job(read(PYTORCH, item(2)).job)
    kept = read(PYTORCH, item(3, PYTORCH.status(running, [])))
    assert kept.job.scale == (("worker", 3),)
    scaled = replace(kept.job, scale=(("worker", 1),))
    assert PYTORCH.change(kept, scaled) == {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}}


def test_a_spec_made_unreadable_stops_nothing_that_runs() -> None:
    running = run_job(read(TFJOBS, tfjob()).job)
    spoilt = tfjob(TFJOBS.status(running, []), runPolicy={"schedulingPolicy": {"queue": "No Good"}})
    kept = read(TFJOBS, spoilt)
    assert kept.complaint is not None
    assert "queue" in kept.complaint
    assert [status.id for status in kept.job.replicas] == [status.id for status in running.replicas]
    with pytest.raises(StorageError, match="queue"):
        TFJOBS.read(tfjob(runPolicy={"schedulingPolicy": {"queue": "No Good"}}), RED)


def test_a_role_taken_out_of_the_spec_can_still_be_stopped() -> None:
    running = run_job(read(TFJOBS, tfjob()).job)
    smaller = stored({"tfReplicaSpecs": {"Chief": replica()}}, TFJOBS.status(running, []))
    assert {role.name for role in read(TFJOBS, smaller).job.spec.roles} == {"chief", "worker"}


def test_a_refusal_is_told_once_in_upstreams_form() -> None:
    status = TFJOBS.refusal(tfjob(), "no good", FakeClock())
    assert status is not None
    (failed,) = status["conditions"]
    assert (failed["type"], failed["status"], failed["reason"]) == ("Failed", "True", "TFJobInvalidSpec")
    assert TFJOBS.refusal(tfjob(status), "no good", FakeClock()) is None


def test_a_submitted_manifest_becomes_the_object_it_was() -> None:
    job = read(TFJOBS, tfjob(metadata={"labels": {"team": "vision"}, "annotations": {"note": "mine"}})).job
    assert TFJOBS.keeps(job)
    body = TFJOBS.body(job, [], namespace="red", name="mnist")
    kept = read(TFJOBS, stored(body["spec"], **body["metadata"]))
    assert (kept.job.spec.labels, kept.job.id) == ({"team": "vision"}, job.id)
    assert kept.job.spec.roles == job.spec.roles
    changed = replace(job, spec=replace(job.spec, priority=99))
    assert not TFJOBS.keeps(changed), "options that the manifest cannot say need an object of our own"


def test_definitions_carry_their_marks_and_serve_both_versions_of_an_mpijob() -> None:
    definitions = {each["metadata"]["name"]: each["spec"] for each in kubeflow_definitions(strict=True)}
    assert all(spec["names"]["categories"] == [CATEGORY, STRICT_CATEGORY] for spec in definitions.values())
    versions = definitions["mpijobs.kubeflow.org"]["versions"]
    assert [(version["name"], version["storage"]) for version in versions] == [("v1", True), ("v2beta1", False)]
