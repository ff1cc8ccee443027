"""A run that changes what lies around it fails, and says what it changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run_tests(tmp_path: Path, body: str, *options: str) -> "subprocess.CompletedProcess[str]":
    for folder in ("home", "shared/theirs", "suite"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "home/config").touch(mode=0o600)
    (tmp_path / "suite/test_it.py").write_text(f"def test_it(tmp_path):\n    {body}\n")
    places = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "shared"), "PYTHONPATH": str(ROOT)}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "KUBECONFIG"))}
    command = [sys.executable, "-m", "pytest", "-p", "tests.surroundings", "-p", "no:cacheprovider", "-c", os.devnull]
    return subprocess.run(
        [*command, *options, "test_it.py"],
        cwd=tmp_path / "suite",
        env={**inherited, **places},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "several processes"])
def test_a_run_that_changes_a_mode_fails_and_names_the_path(tmp_path: Path, options: tuple[str, ...]) -> None:
    changed = [str(tmp_path / path) for path in ("shared", "shared/theirs", "home/config")]
    done = run_tests(tmp_path, f"import os; [os.chmod(path, 0o711) for path in {changed}]", *options)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "1 passed" in done.stdout
    for path in changed:
        assert f"{path}: owner" in done.stdout


def test_a_run_that_keeps_to_itself_passes(tmp_path: Path) -> None:
    done = run_tests(tmp_path, "tmp_path.chmod(0o700); (tmp_path / 'mine').mkdir()")
    assert done.returncode == 0, done.stdout
