"""Numbers that training code reports, as lines of a file."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gangline.runtime import report
from gangline.runtime.metrics import MetricFile


@pytest.fixture
def metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "metrics"
    monkeypatch.setenv("GANGLINE_METRICS", str(path))
    return path


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_number_becomes_one_line(metrics: Path) -> None:
    report(step=5, loss=0.25, accuracy=0.5)

    assert [(record["name"], record["value"], record["step"]) for record in read(metrics)] == [
        ("loss", 0.25, 5),
        ("accuracy", 0.5, 5),
    ]


@pytest.mark.parametrize(
    ("step", "want"), [(0, 0.0), (50, 0.5), (120, 1.0)], ids=["nothing done", "half done", "more than all"]
)
def test_progress_is_the_share_of_steps(metrics: Path, step: int, want: float) -> None:
    report(step=step, total_steps=100)

    assert [(record["name"], record["value"]) for record in read(metrics)] == [("progress", want)]


LOOP = "from gangline import runtime\nfor step in {steps}: runtime.report(step=step, total_steps=4)\n{end}"


@pytest.mark.parametrize(
    ("steps", "end", "want"),
    [
        ("range(4)", "", [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("range(1, 5)", "", [0.25, 0.5, 0.75, 1.0]),
        ("range(3)", "", [0.0, 0.25, 0.5]),
        ("range(4)", "raise SystemError", [0.0, 0.25, 0.5, 0.75]),
        (
            "range(1, 4)",
            "import os; runtime.stopping(); os.kill(os.getpid(), 15); assert runtime.stopping()",
            [0.25, 0.5, 0.75],
        ),
        ("range(4)", "import os, sys; sys.exit(0 if (c := os.fork()) == 0 else os.waitpid(c, 0)[1])", None),
    ],
    ids=["counted from 0", "counted from 1", "ended early", "failed", "stopped", "forked"],
)
def test_progress_ends_at_one_if_all_was_done_however_steps_are_counted(
    metrics: Path, steps: str, end: str, want: list[float] | None
) -> None:
    subprocess.run([sys.executable, "-c", LOOP.format(steps=steps, end=end)], check=False, capture_output=True)

    assert [record["value"] for record in read(metrics)] == (want or [0.0, 0.25, 0.5, 0.75, 1.0])


def test_a_number_that_json_cannot_hold_becomes_null(metrics: Path) -> None:
    report(loss=float("nan"))

    assert read(metrics)[0]["value"] is None


class Tensor:
    """What arrays of one element are like: no int and no float, but willing to become one."""

    def __int__(self) -> int:
        return 7

    def __float__(self) -> float:
        return 0.5


def test_steps_and_values_may_be_what_frameworks_count_with(metrics: Path) -> None:
    report(step=Tensor(), total_steps=14, loss=Tensor())  # type: ignore[arg-type]  # what users do

    assert [(record["name"], record["value"], record["step"]) for record in read(metrics)] == [
        ("loss", 0.5, 7),
        ("progress", 0.5, 7),
    ]


@pytest.mark.parametrize("loss", [np.float32(0.5), np.array(0.5), np.array([0.5]), np.array([[0.5]])], ids=repr)
def test_an_array_of_one_element_is_a_number(metrics: Path, loss: float) -> None:
    report(step=1, loss=loss)

    assert [record["value"] for record in read(metrics)] == [0.5]


def test_good_numbers_are_recorded_beside_one_that_is_none(metrics: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(step=1, loss=0.5, accuracy=None, rate=0.1)  # type: ignore[arg-type]  # what users do

    assert [record["name"] for record in read(metrics)] == ["loss", "rate"]
    assert "the value of 'accuracy' is not a single number" in capsys.readouterr().err


@pytest.mark.parametrize(
    "numbers",
    [{"loss": "low"}, {"loss": None}, {"step": "first", "loss": 1.0}, {"loss": 10**400}, {"step": [1], "loss": 1.0}],
    ids=["a word", "nothing", "a step in words", "a number beyond all", "a list of steps"],
)
def test_what_is_no_number_is_told_and_training_goes_on(
    metrics: Path, numbers: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    report(**numbers)  # type: ignore[arg-type]  # what users do
    report(step=1, loss=0.5)

    assert "is not a single number" in capsys.readouterr().err
    assert [record["value"] for record in read(metrics)] == [0.5]


def test_nothing_is_written_outside_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GANGLINE_METRICS", raising=False)
    monkeypatch.chdir(tmp_path)

    report(loss=1.0)

    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_once_and_training_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    file = MetricFile(Path("/dev/full"))

    file.append([{"name": "loss"}])
    file.append([{"name": "loss"}])

    assert capsys.readouterr().err.count("metrics cannot be written to /dev/full") == 1


def test_lines_of_several_processes_do_not_mix(metrics: Path) -> None:
    program = "from gangline.runtime import report\nfor step in range(300): report(step=step, loss=1.0, other=2.0)"
    writers = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]

    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(read(metrics)) == 3 * 300 * 2
