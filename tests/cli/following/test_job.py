"""Leaving a job that is waited for, and a job that leaves."""

from pathlib import Path

import click
import pytest

from gangline.cli.following.job import finish
from gangline.errors import NotFoundError
from gangline.model import Job
from gangline.testing.builders import make_job


class Impatient:
    """A client whose user presses Ctrl-C."""

    def wait(self, *_: object, **__: object) -> Job:
        raise KeyboardInterrupt


class TooLate:
    """A client whose job was deleted meanwhile."""

    def wait(self, job: str, **_: object) -> Job:
        raise NotFoundError("job", job)


def test_a_job_that_is_deleted_while_it_is_waited_for_has_not_succeeded(capsys: pytest.CaptureFixture[str]) -> None:
    assert finish(TooLate(), make_job()) == 1  # type: ignore[arg-type]  # the fake
    assert capsys.readouterr().err == "mnist is deleted\n"


KUBECONFIG = """
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: prod, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize(("context", "words"), [("", "gangline"), ("prod", "gangline --context prod")])
def test_whoever_leaves_a_job_is_told_that_it_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: str, words: str
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with click.Context(click.Command("submit"), obj={"context": context}), pytest.raises(KeyboardInterrupt):
        finish(Impatient(), make_job())  # type: ignore[arg-type]  # the fake
    want = f"mnist goes on; '{words} logs -f mnist' follows it, '{words} cancel mnist' ends it\n"
    assert capsys.readouterr().err == want
