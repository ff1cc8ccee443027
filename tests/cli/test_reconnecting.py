"""Commands that follow a job go on when the service is killed or restarted meanwhile."""

import os
import select
import signal
import subprocess
from pathlib import Path

from gangline.sdk.transports.background import running_process
from tests.cli.conftest import Shell

GATED = "echo one; until [ -e {gate} ]; do sleep 0.02; done; echo two; echo three; exit 7"
TWICE = "echo try $GANGLINE_ATTEMPT; until [ -e {gate} ]; do sleep 0.02; done; echo end $GANGLINE_ATTEMPT; exit 3"


def start(shell: Shell, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        shell.command(*arguments),
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def first_line(follower: subprocess.Popen[str]) -> str:
    assert follower.stdout is not None
    return follower.stdout.readline()


def kill_service(shell: Shell) -> None:
    """Kill the service without warning, and return when it is gone."""
    process = running_process(shell.settings)
    assert process is not None
    handle = os.pidfd_open(process)
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    assert select.select([handle], [], [], 60.0)[0], "the service is still there"
    os.close(handle)


def test_a_follower_outlives_the_service_it_follows_through(fresh_shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    follower = start(
        fresh_shell, "submit", "--name", "gap", "--max-attempts", "1", "--follow", "sh", "-c", GATED.format(gate=gate)
    )
    assert first_line(follower) == "one\n"
    kill_service(fresh_shell)
    gate.touch()
    out, err = follower.communicate(timeout=120)
    assert (follower.returncode, out) == (7, "two\nthree\n"), err
    assert err.count("starting the local service") == 2
    assert "gap is FAILED" in err


def test_a_follower_tells_the_rest_of_an_attempt_that_ended_meanwhile(fresh_shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    follower = start(
        fresh_shell, "submit", "--name", "twice", "--max-attempts", "2", "--follow", "sh", "-c", TWICE.format(gate=gate)
    )
    assert first_line(follower) == "try 1\n"
    kill_service(fresh_shell)
    gate.touch()
    out, err = follower.communicate(timeout=120)
    assert (follower.returncode, out.splitlines()) == (3, ["end 1", "try 2", "end 2"]), err


def test_logs_and_wait_go_on_after_a_restart(fresh_shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    fresh_shell.out("submit", "--name", "again", "--max-attempts", "1", "sh", "-c", GATED.format(gate=gate))
    reader, waiter = start(fresh_shell, "logs", "-f", "again"), start(fresh_shell, "wait", "again")
    assert first_line(reader) == "one\n"
    fresh_shell.out("server", "stop")
    gate.touch()
    fresh_shell.out("server", "start")
    out, err = reader.communicate(timeout=120)
    assert (reader.returncode, out) == (0, "two\nthree\n"), err
    _, err = waiter.communicate(timeout=120)
    assert waiter.returncode == 7, err
