"""Jobs in FfDL's words: a status for every phase, and whose fault a failure was."""

from dataclasses import replace

import pytest

from gangline.dialects.document import parse
from gangline.dialects.ffdl import job_from_value, model_to_plain
from gangline.dialects.ffdl.status import STATUSES, error_code
from gangline.model import Phase, PhaseEntry, Timestamp
from gangline.testing.builders import make_job

KNOWN = {"NOT_STARTED", "PENDING", "HALTED", "FAILED", "DOWNLOADING", "PROCESSING", "STORING", "COMPLETED", "QUEUED"}


def test_every_phase_has_a_status_that_clients_know() -> None:
    assert set(STATUSES) == set(Phase)
    assert set(STATUSES.values()) <= KNOWN


@pytest.mark.parametrize(
    ("before", "reason", "want"),
    [
        (Phase.PROCESSING, "ReplicaFailed", "C201"),
        (Phase.PROCESSING, "RestartLimitReached", "C201"),
        (Phase.PROCESSING, "GangVanished", "S104"),
        (Phase.DOWNLOADING, "ReplicaFailed", "S302"),
        (Phase.STORING, "ReplicaFailed", "S303"),
        (Phase.STARTING, "ReplicaLost", "S101"),
    ],
)
def test_a_failure_has_the_code_of_whose_fault_it_was(before: Phase, reason: str, want: str) -> None:
    history = (
        PhaseEntry(phase=before, at=Timestamp(1.0), reason="Something"),
        PhaseEntry(phase=Phase.FAILED, at=Timestamp(2.0), reason=reason),
    )
    job = replace(make_job(), history=history)
    assert job.phase is Phase.FAILED
    assert error_code(job) == want


def test_what_did_not_fail_has_no_code() -> None:
    assert error_code(make_job()) == ""


@pytest.mark.parametrize(
    ("framework", "want"),
    [
        ("{name: pytorch, version: latest, command: python a.py}", {"name": "pytorch", "version": "latest"}),
        ("{name: custom, version: 'me/own:2', command: python a.py}", {"name": "custom", "version": "me/own:2"}),
        ("{name: horovod, version: 1, command: python a.py}", {"name": "horovod", "version": "1"}),
    ],
    ids=["known", "custom", "mpi"],
)
def test_a_model_shows_what_its_manifest_said(framework: str, want: dict[str, str]) -> None:
    (value,) = parse(f"name: x\nlearners: 3\ngpus: 2\nmemory: 1GiB\nframework: {framework}")
    shown = model_to_plain(replace(make_job(), spec=job_from_value(value).spec))
    assert shown["framework"] == want
    assert "python a.py" in shown["training"]["command"]
    assert "LEARNER_ID" not in shown["training"]["command"]
    assert (shown["training"]["learners"], shown["training"]["gpus"]) == (3, 2.0)
    assert (shown["training"]["memory"], shown["training"]["memory_unit"]) == (1024.0, "MiB")
