"""What a person at a terminal sees: colours, width, the live view."""

import fcntl
import os
import struct
import subprocess
import termios

import pytest

from tests.cli.conftest import Shell

COLUMNS = 80


def at_terminal(shell: Shell, *arguments: str, **variables: str) -> tuple[int, str]:
    """Run a command whose standard output is a terminal of 80 columns."""
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


def test_following_shows_output_above_a_live_view(shell: Shell) -> None:
    program = (
        "import time; from gangline import runtime\n"
        "for step in range(1, 5):\n"
        "    runtime.report(loss=1 / step, step=step, total_steps=4); print('step', step, flush=True)\n"
        "    time.sleep(0.5)\n"
    )
    python = shell.command()[0]
    code, seen = at_terminal(shell, "submit", "--name", "live", "--follow", "--", python, "-c", program)
    assert code == 0
    for words in ("step 1", "step 4", "PROCESSING", "worker", "1 running", "loss", "%", "━"):
        assert words in seen, words


def test_the_live_view_of_a_failure_ends_with_its_code(shell: Shell) -> None:
    code, seen = at_terminal(shell, "submit", "--name", "dies", "--follow", "--", "sh", "-c", "echo last words; exit 9")
    assert code == 9
    assert "last words" in seen
