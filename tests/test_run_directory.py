"""A run leaves neither files nor processes behind, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import reaper

ROOT = Path(__file__).parent.parent
LEAVES_A_PROCESS = """
import subprocess, sys, tempfile
from pathlib import Path

def test_it(tmp_path):
    tempfile.mkdtemp()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    Path(PLACE, "child").write_text(str(child.pid))
"""
NEVER_ENDS = LEAVES_A_PROCESS + "    child.wait()\n"
KEEPS_TO_ITSELF = "def test_it(tmp_path):\n    import tempfile; tempfile.mkdtemp(); (tmp_path / 'mine').mkdir()\n"
OPTIONS = pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "several processes"])


def start(tmp_path: Path, body: str, *options: str) -> "subprocess.Popen[str]":
    for folder in ("shared", "suite"):
        (tmp_path / folder).mkdir()
    (tmp_path / "suite/conftest.py").write_text("import tests.run_directory as it\nit.PATIENCE_SECONDS = 0\n")
    (tmp_path / "suite/test_it.py").write_text(body.replace("PLACE", repr(str(tmp_path))))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    plugin = ("-p", "tests.run_directory", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:hypothesispytest")
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *plugin, "-c", os.devnull, *options, "test_it.py"],
        cwd=tmp_path / "suite",
        env={**inherited, "TMPDIR": str(tmp_path / "shared"), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # noqa: TID251 -- this waits on a condition


def clean(tmp_path: Path) -> bool:
    child = tmp_path / "child"
    return not any((tmp_path / "shared").iterdir()) and not (child.exists() and runs(int(child.read_text())))


def runs(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


@OPTIONS
def test_a_run_that_ends_leaves_nothing(tmp_path: Path, options: tuple[str, ...]) -> None:
    run = start(tmp_path, KEEPS_TO_ITSELF, *options)
    output, _ = run.communicate(timeout=120)
    assert run.returncode == 0, output
    assert clean(tmp_path)


@OPTIONS
def test_a_run_whose_process_outlives_it_fails_names_it_and_ends_it(tmp_path: Path, options: tuple[str, ...]) -> None:
    run = start(tmp_path, LEAVES_A_PROCESS, "-W", "ignore", *options)
    output, _ = run.communicate(timeout=120)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, output
    assert "1 passed" in output
    assert f"{(tmp_path / 'child').read_text()}: {sys.executable} -c import time" in output
    assert clean(tmp_path)


@OPTIONS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_run_that_is_stopped_leaves_nothing(tmp_path: Path, number: signal.Signals, options: tuple[str, ...]) -> None:
    run = start(tmp_path, NEVER_ENDS, *options)
    wait_for((tmp_path / "child").exists)
    run.send_signal(number)
    run.communicate(timeout=120)
    wait_for(lambda: clean(tmp_path))


def test_only_processes_of_the_run_are_found(tmp_path: Path) -> None:
    mine, other = (
        subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], reaper.MARK: str(tmp_path / name)})
        for name in ("mine", "mine-too")
    )
    try:
        wait_for(lambda: list(reaper.marked(tmp_path / "mine")) == [mine.pid])
        reaper.end(tmp_path / "mine")
        assert mine.wait(10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
