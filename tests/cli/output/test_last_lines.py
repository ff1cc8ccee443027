"""A job that fails shows what it said last, wherever one would look for it."""

import pytest

from tests.cli.conftest import Here, Shell

TRACE = """
echo epoch 1
for line in $(seq 30); do echo "frame $line" >&2; done
printf '\\033[31mValueError: no data\\033[0m\\n' >&2
exit 3
"""


@pytest.fixture(scope="module")
def failed(shell: Shell) -> str:
    done = shell.run("submit", "--name", "broken", "--wait", "--", "sh", "-c", TRACE)
    assert done.returncode == 3
    assert "  ValueError: no data\n" in done.stderr
    return "broken"


@pytest.mark.parametrize("command", ["get", "describe", "wait"])
def test_the_last_lines_of_standard_error_are_shown(here: Here, failed: str, command: str) -> None:
    _, out, err = here(command, failed)
    shown = (out + err).splitlines()
    start = shown.index("Last lines of worker-0:")
    assert shown[start + 1 : start + 11] == [
        *(f"  frame {number}" for number in range(22, 31)),
        "  ValueError: no data",
    ]
    assert "ReplicaFailed: worker-0 exited with 3: ValueError: no data" in out + err
    assert "\x1b" not in out + err


def test_a_job_that_succeeds_shows_nothing_of_the_kind(here: Here, shell: Shell) -> None:
    done = shell.run("submit", "--name", "sound", "--wait", "--", "sh", "-c", "echo warning >&2")
    assert "warning" not in done.stderr
    _, out, err = here("describe", "sound")
    assert "Last lines" not in out + err


def test_data_for_programs_is_not_mixed_with_it(here: Here, failed: str) -> None:
    _, out, err = here("get", failed, "-o", "name")
    assert (out, err) == ("broken\n", "")
