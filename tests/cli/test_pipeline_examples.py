"""The example pipelines as their users run them: steps that are gangs, models, and a second run that reuses."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.environments import environment_with
from tests.pipelines.compiled import KFP
from tests.ps.test_mnist_example import write_images

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    """The example with a small made-up data set that can be learnt."""
    shutil.copytree(EXAMPLES / "mnist", tmp_path / "examples" / "mnist")
    data = tmp_path / "data" / "mnist"
    data.mkdir(parents=True)
    write_images(data, "train", 2000)
    write_images(data, "t10k", 300)
    return tmp_path / "examples" / "mnist" / "pipeline.yaml"


@pytest.mark.slow
def test_mnist_is_trained_by_a_gang_and_registered_only_if_it_is_better(shell: Shell, mnist: Path) -> None:
    def run(name: str, *arguments: str, want_code: int = 0) -> str:
        done = shell.run("pipeline", "run", "-f", str(mnist), "--name", name, "--follow", *arguments)
        assert done.returncode == want_code, done.stdout + done.stderr
        return done.stdout

    first = run("first", "-p", "epochs=6")
    assert "✓ register succeeded" in first
    assert "- worse skipped" in first
    rows = [line.split()[:2] for line in shell.out("model", "list").splitlines()[1:]]
    assert [row for row in rows if row[0] == "mnist"] == [["mnist", "1"]]
    shell.out("model", "promote", "mnist")
    again = run("again", "-p", "epochs=6", want_code=1)
    assert "✓ prepare succeeded, reused from first/prepare" in again
    assert "✓ train succeeded, reused from first/train" in again
    assert "again: failed: worse: accuracy" in again
    shown = shell.out("pipeline", "get", "again", "-o", "yaml")
    assert "its input 'production.metrics' differs from that of first/evaluate" in shown
    less = run("less", "-p", "epochs=6", "-p", "images=1000", want_code=1)
    assert "reused" not in less
    assert "- register skipped" in less


@pytest.mark.slow
def test_iris_runs_with_its_packages_and_reuses_what_did_not_change(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "iris.yaml"
    compiling = [environment_with(KFP), "-W", "ignore", EXAMPLES / "iris" / "pipeline.py", file]
    subprocess.run(compiling, check=True, capture_output=True)
    done = shell.run("pipeline", "run", "-f", str(file), "--name", "iris", "--follow")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Output = ")]
    assert float(line.removeprefix("Output = ")) > 0.9
    done = shell.run("pipeline", "run", "-f", str(file), "--name", "more", "-p", "neighbours=9", "--follow")
    assert done.returncode == 0, done.stdout + done.stderr
    reused = [line.split()[1] for line in done.stdout.splitlines() if "reused from iris/" in line]
    assert reused == ["prepare", "split"]
