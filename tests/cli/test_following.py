"""Leaving a job that is waited for."""

import click
import pytest

from gangline.cli.following import finish
from gangline.model import Job
from gangline.testing.builders import make_job


class Impatient:
    """A client whose user presses Ctrl-C."""

    def wait(self, *_: object, **__: object) -> Job:
        raise KeyboardInterrupt


@pytest.mark.parametrize(("context", "words"), [("", "gangline"), ("prod", "gangline --context prod")])
def test_whoever_leaves_a_job_is_told_that_it_goes_on(
    capsys: pytest.CaptureFixture[str], context: str, words: str
) -> None:
    with click.Context(click.Command("submit"), obj={"context": context}), pytest.raises(KeyboardInterrupt):
        finish(Impatient(), make_job())  # type: ignore[arg-type]  # the fake
    want = f"mnist goes on; '{words} logs -f mnist' follows it, '{words} cancel mnist' ends it\n"
    assert capsys.readouterr().err == want
