"""A job's life as upstream's clients see it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gangline.dialects import read_plain
from gangline.dialects.kubeflow import job_to_status
from gangline.model import (
    Job,
    JobId,
    JobSpec,
    NodeName,
    Phase,
    PhaseEntry,
    ReplicaId,
    ReplicaState,
    ReplicaStatus,
    RoleName,
    Timestamp,
)

Builder = Callable[..., dict[str, Any]]
START = 1_700_000_000.0
SMOOTH = (Phase.QUEUED, Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING)


def live(
    spec: JobSpec,
    phases: Sequence[Phase | tuple[Phase, str]],
    *,
    states: dict[str, ReplicaState] | None = None,
    failures: int = 0,
    running_state: ReplicaState = ReplicaState.RUNNING,
) -> Job:
    """A job that entered one phase a second."""
    entries = [phase if isinstance(phase, tuple) else (phase, str(phase).title()) for phase in phases]
    history = tuple(
        PhaseEntry(phase=phase, at=Timestamp(START + second), reason=reason, message="for a reason")
        for second, (phase, reason) in enumerate(entries)
    )
    replicas = tuple(
        ReplicaStatus(
            id=ReplicaId(role.name, index),
            node=NodeName("node"),
            state=(states or {}).get(f"{role.name}-{index}", running_state),
        )
        for role in spec.roles
        for index in range(role.replicas)
    )
    finished = history[-1].phase in (Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED)
    return Job(
        id=JobId("id"),
        spec=spec,
        created_at=Timestamp(START),
        history=history,
        replicas=replicas,
        failures=failures,
        started_at=Timestamp(START + 2) if len(history) > 2 else None,
        finished_at=history[-1].at if finished else None,
    )


@pytest.fixture
def tf_job(job: Builder, replica: Builder) -> JobSpec:
    return read_plain(job("TFJob", {"Chief": replica(), "Worker": replica(count=2, restart="OnFailure")}))[0].spec


def conditions(status: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(each["type"], each["status"], each["reason"], each["message"]) for each in status["conditions"]]


CREATED = ("Created", "True", "TFJobCreated", "TFJob mnist is created.")
RUNNING = ("Running", "True", "TFJobRunning", "TFJob vision/mnist is running.")


class TestConditions:
    def test_a_queued_job_is_created(self, tf_job: JobSpec) -> None:
        assert conditions(job_to_status(live(tf_job, (Phase.QUEUED,)))) == [CREATED]

    def test_a_running_job(self, tf_job: JobSpec) -> None:
        status = job_to_status(live(tf_job, SMOOTH))
        assert conditions(status) == [CREATED, RUNNING]
        assert status["startTime"] == "2023-11-14T22:13:22Z"
        assert status["lastReconcileTime"] == "2023-11-14T22:13:23Z"
        assert "completionTime" not in status

    def test_a_job_that_succeeded_no_longer_runs(self, tf_job: JobSpec) -> None:
        status = job_to_status(live(tf_job, (*SMOOTH, Phase.STORING, Phase.COMPLETED)))
        assert conditions(status) == [
            CREATED,
            ("Running", "False", *RUNNING[2:]),
            ("Succeeded", "True", "TFJobSucceeded", "TFJob vision/mnist successfully completed."),
        ]
        assert status["completionTime"] == "2023-11-14T22:13:25Z"

    def test_a_restart_takes_the_place_of_running_and_back(self, tf_job: JobSpec) -> None:
        failed = {"worker-1": ReplicaState.FAILED}
        status = job_to_status(live(tf_job, (*SMOOTH, Phase.RESTARTING), states=failed))
        assert conditions(status) == [
            CREATED,
            (
                "Restarting",
                "True",
                "TFJobRestarting",
                "TFJob mnist is restarting because 1 Worker replica(s) failed.",
            ),
        ]
        again = job_to_status(live(tf_job, (*SMOOTH, Phase.RESTARTING, Phase.STARTING, Phase.PROCESSING)))
        assert conditions(again) == [CREATED, RUNNING]

    @pytest.mark.parametrize(
        ("reason", "failures", "limit", "message"),
        [
            ("ReplicaFailed", 1, 1, "TFJob vision/mnist has failed because 2 Worker replica(s) failed."),
            ("ReplicaFailed", 3, 3, "Job mnist has failed because it has reached the specified backoff limit"),
            ("DeadlineExceeded", 0, 1, "Job mnist has failed because it was active longer than specified deadline"),
        ],
    )
    def test_a_failure_is_told_in_the_words_of_upstream(
        self, job: Builder, replica: Builder, reason: str, failures: int, limit: int, message: str
    ) -> None:
        worker = replica(count=2, restart="OnFailure" if limit > 1 else "Never")
        spec = read_plain(job("TFJob", {"Worker": worker}, runPolicy={"backoffLimit": limit - 1}))[0].spec
        states = {"worker-0": ReplicaState.FAILED, "worker-1": ReplicaState.LOST}
        status = job_to_status(live(spec, (*SMOOTH, (Phase.FAILED, reason)), states=states, failures=failures))
        assert conditions(status)[-1] == ("Failed", "True", "TFJobFailed", message)
        assert conditions(status)[-2][:2] == ("Running", "False")

    def test_a_cancelled_job_failed_for_its_reason(self, tf_job: JobSpec) -> None:
        status = job_to_status(live(tf_job, (Phase.QUEUED, (Phase.CANCELLED, "CancelRequested"))))
        assert conditions(status)[-1] == ("Failed", "True", "TFJobFailed", "TFJob mnist has failed: for a reason.")

    def test_suspend_and_resume(self, tf_job: JobSpec) -> None:
        halted = (*SMOOTH, Phase.HALTING, Phase.HALTED)
        suspended = "TFJob mnist is suspended."
        assert conditions(job_to_status(live(tf_job, halted))) == [
            CREATED,
            ("Running", "False", "TFJobSuspended", suspended),
            ("Suspended", "True", "TFJobSuspended", suspended),
        ]
        resumed = job_to_status(live(tf_job, (*halted, Phase.RESUMED, Phase.STARTING, Phase.PROCESSING)))
        assert conditions(resumed) == [
            CREATED,
            ("Suspended", "False", "TFJobResumed", "TFJob mnist is resumed."),
            RUNNING,
        ]

    def test_a_job_submitted_suspended_never_ran(self, tf_job: JobSpec) -> None:
        status = job_to_status(live(tf_job, ((Phase.HALTED, "SubmittedHalted"),)))
        assert [each[0] for each in conditions(status)] == ["Created", "Suspended"]

    def test_other_kinds_word_a_failure_their_own_way(self, job: Builder, replica: Builder) -> None:
        spec = read_plain(job("JAXJob", {"Worker": replica("JAXJob")}))[0].spec
        failed = live(spec, (*SMOOTH, (Phase.FAILED, "ReplicaFailed")), states={"worker-0": ReplicaState.FAILED})
        assert conditions(job_to_status(failed))[-1][3] == "JAXJob mnist is failed because 1 Worker replica(s) failed."

    def test_a_preempted_job_is_restarting_not_suspended(self, tf_job: JobSpec) -> None:
        status = job_to_status(live(tf_job, (*SMOOTH, (Phase.HALTING, "Preempted"), (Phase.RESUMED, "Requeued"))))
        assert conditions(status) == [
            CREATED,
            ("Restarting", "True", "TFJobRestarting", "TFJob mnist is restarting: for a reason."),
        ]

    def test_times_of_a_condition_are_when_it_was_entered(self, tf_job: JobSpec) -> None:
        running = job_to_status(live(tf_job, SMOOTH))["conditions"][1]
        assert running["lastTransitionTime"] == running["lastUpdateTime"] == "2023-11-14T22:13:22Z"


class TestReplicaStatuses:
    def test_counts_and_selectors(self, tf_job: JobSpec) -> None:
        states = {"chief-0": ReplicaState.RUNNING, "worker-0": ReplicaState.SUCCEEDED, "worker-1": ReplicaState.FAILED}
        statuses = job_to_status(live(tf_job, SMOOTH, states=states))["replicaStatuses"]
        prefix = "training.kubeflow.org"
        selector = f"{prefix}/job-name=mnist,{prefix}/operator-name=tfjob-controller,{prefix}/replica-type="
        assert statuses == {
            "Chief": {"active": 1, "selector": f"{selector}chief"},
            "Worker": {"succeeded": 1, "failed": 1, "selector": f"{selector}worker"},
        }

    def test_what_still_ran_when_the_job_succeeded_counts_as_succeeded(self, tf_job: JobSpec) -> None:
        statuses: Any = job_to_status(live(tf_job, (*SMOOTH, Phase.COMPLETED)))["replicaStatuses"]
        assert (statuses["Worker"]["succeeded"], "active" in statuses["Worker"]) == (2, False)

    def test_a_suspended_job_has_nothing_active(self, tf_job: JobSpec) -> None:
        statuses: Any = job_to_status(live(tf_job, (*SMOOTH, Phase.HALTING, Phase.HALTED)))["replicaStatuses"]
        assert "active" not in statuses["Worker"]


@pytest.mark.parametrize(
    ("kind", "types", "version", "running", "succeeded"),
    [
        (
            "PyTorchJob",
            ("Master", "Worker"),
            "v1",
            "PyTorchJob mnist is running.",
            "PyTorchJob mnist is successfully completed.",
        ),
        (
            "PyTorchJob",
            ("Worker",),
            "v1",
            "PyTorchJob vision/mnist is running.",
            "PyTorchJob vision/mnist successfully completed.",
        ),
        ("JAXJob", ("Worker",), "v1", "JAXJob vision/mnist is running.", "JAXJob vision/mnist successfully completed."),
        ("MPIJob", ("Launcher",), "v1", "MPIJob mnist is running.", "MPIJob mnist is successfully completed."),
        (
            "MPIJob",
            ("Launcher",),
            "v2beta1",
            "MPIJob vision/mnist is running.",
            "MPIJob vision/mnist successfully completed.",
        ),
    ],
)
def test_each_kind_has_its_own_words(
    job: Builder, replica: Builder, kind: str, types: tuple[str, ...], version: str, running: str, succeeded: str
) -> None:
    data = job(kind, {type_: replica(kind) for type_ in types}, version=f"kubeflow.org/{version}")
    spec = read_plain(data)[0].spec
    found = conditions(job_to_status(live(spec, (*SMOOTH, Phase.COMPLETED)), kind))
    assert [message for _, _, _, message in found[1:]] == [running, succeeded]


def test_roles_that_upstream_has_no_name_for_are_shown_too(tf_job: JobSpec) -> None:
    from dataclasses import replace

    extra = replace(tf_job.roles[1], name=RoleName("tensorboard"))
    statuses: Any = job_to_status(live(replace(tf_job, roles=(*tf_job.roles, extra)), SMOOTH))["replicaStatuses"]
    assert list(statuses) == ["Chief", "Worker", "Tensorboard"]
