"""Numbers that training code reports, as lines of a file."""

import json
import subprocess
import sys
from pathlib import Path

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


def test_a_number_that_json_cannot_hold_becomes_null(metrics: Path) -> None:
    report(loss=float("nan"))

    assert read(metrics)[0]["value"] is None


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
