"""Changes as they are printed: each that shows something new, once."""

from dataclasses import replace

import pytest

from gangline.cli.following.changes import print_changes
from gangline.model import Job, Phase, PhaseEntry, Timestamp
from gangline.sdk import Change
from gangline.testing.builders import START, make_running_job


def changes(*jobs: Job | None) -> list[Change]:
    return [Change(job_id=make_running_job().id, job=job) for job in jobs]


@pytest.mark.parametrize(
    ("output", "want"), [("table", 3), ("wide", 3), ("name", 1), ("json", 4)], ids=["table", "wide", "name", "json"]
)
def test_a_change_that_shows_nothing_new_is_not_printed(
    capsys: pytest.CaptureFixture[str], output: str, want: int
) -> None:
    job = make_running_job()
    saved = replace(job, checkpoint_at=Timestamp(START + 1))  # of which no column tells
    ended = replace(job, history=(*job.history, PhaseEntry(phase=Phase.COMPLETED, at=START, reason="Succeeded")))
    print_changes(changes(job, job, saved, replace(saved, checkpoint_at=Timestamp(START + 2)), ended, ended), output)
    assert len(capsys.readouterr().out.splitlines()) == want


def test_a_job_that_comes_back_after_it_was_deleted_is_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    job = make_running_job()
    print_changes(changes(job, None, job), "table")
    assert len(capsys.readouterr().out.splitlines()) == 4
