"""What a person at a terminal sees: colours, width, the live view."""

import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

COLUMNS = 80


def at_terminal(
    shell: Shell, *arguments: str, watcher: Callable[[str], None] | None = None, **variables: str
) -> tuple[int, str]:
    """Run a command whose standard output is a terminal of 80 columns; the watcher sees all that came so far."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, COLUMNS, 0, 0))
    environment = {**shell.environment, "TERM": "xterm-256color", **variables}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        shell.command(*arguments), stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
            if watcher:
                watcher(seen.decode(errors="replace"))
    except OSError:
        pass  # how Linux tells that the other end of a terminal is closed
    os.close(ours)
    return process.wait(60), seen.decode()


@pytest.fixture(scope="module")
def failed_job(shell: Shell) -> str:
    shell.run("submit", "--name", "a-rather-long-name-of-a-job", "--wait", "--", "sh", "-c", "exit 3")
    return "a-rather-long-name-of-a-job"


def test_tables_fit_eighty_columns_and_are_coloured(shell: Shell, failed_job: str) -> None:
    code, seen = at_terminal(shell, "list", failed_job)
    assert code == 0
    assert "\x1b[31mFAILED\x1b[0m" in seen
    plain = seen.replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert max(len(line) for line in plain.splitlines()) <= COLUMNS


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_means_none(shell: Shell, failed_job: str, variables: dict[str, str]) -> None:
    _, seen = at_terminal(shell, "list", failed_job, **variables)
    assert "FAILED" in seen
    assert "\x1b[" not in seen


def test_following_shows_output_above_a_live_view(shell: Shell, tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from gangline import runtime\n"
        "print('first words', flush=True)\n"
        "runtime.report(loss=0.25, step=1, total_steps=4)\n"
        "for _ in range(6000):\n"
        f"    if pathlib.Path({str(tmp_path / 'seen')!r}).exists(): sys.exit(print('last words'))\n"
        "    time.sleep(0.01)\n"
        "sys.exit(1)\n"
    )

    def note(seen: str) -> None:
        if all(
            words in seen for words in ("first words", "PROCESSING", "worker", "1 running", "loss 0.25", "25%", "━")
        ):
            (tmp_path / "seen").touch()

    python = shell.command()[0]
    code, seen = at_terminal(shell, "submit", "--name", "live", "--follow", "--", python, "-c", program, watcher=note)
    assert code == 0, seen
    assert "last words" in seen


def test_the_live_view_of_a_failure_ends_with_its_code(shell: Shell) -> None:
    code, seen = at_terminal(shell, "submit", "--name", "dies", "--follow", "--", "sh", "-c", "echo last words; exit 9")
    assert code == 9
    assert "last words" in seen
