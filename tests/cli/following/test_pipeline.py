"""Following a run of a pipeline: every step is told, however quick it was."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gangline.cli.following.pipeline import follow_run
from gangline.model import Timestamp
from gangline.model.kinds.pipeline import PipelineRun, PipelineState, StepState, StepStatus
from gangline.testing.builders import make_run


def looks(*steps: StepStatus) -> Any:
    """A client that sees one look after the other; the last one is the end of the run."""
    runs: list[PipelineRun] = []
    for number, step in enumerate(steps, 1):
        run = make_run()
        ended = Timestamp(run.created_at + 1) if number == len(steps) else None
        runs.append(replace(run, status=replace(run.status, steps=(step,), finished_at=ended)))
    assert runs[-1].status.state is PipelineState.SUCCEEDED
    return SimpleNamespace(records=lambda kind: SimpleNamespace(watch=lambda name: iter(runs)))


RUNNING = StepStatus(path="step", number=1, state=StepState.RUNNING)
ENDED = StepStatus(path="step", number=1, state=StepState.SUCCEEDED, began_at=Timestamp(1.0), ended_at=Timestamp(2.0))
CACHED = StepStatus(path="step", number=0, state=StepState.SUCCEEDED, message="reused")


@pytest.mark.parametrize(
    ("seen", "want_lines"),
    [
        pytest.param((RUNNING, RUNNING, ENDED), ["step: running", "step: succeeded"], id="seen to run"),
        pytest.param((ENDED,), ["step: running", "step: succeeded"], id="ran between two looks"),
        pytest.param((CACHED,), ["step: succeeded: reused"], id="never ran"),
    ],
)
def test_each_step_is_told_once_for_each_state(
    seen: tuple[StepStatus, ...], want_lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert follow_run(looks(*seen), "one") == 0
    told = capsys.readouterr()
    assert [line for line in (told.err + told.out).splitlines() if line.startswith("step:")] == want_lines
