"""The remote shell of MPI jobs, over a port of this machine."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.runtime import remote_shell

TOKEN = b"only this job knows"


@pytest.fixture
def port() -> Iterator[int]:
    """A worker that answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=remote_shell.answer, args=(listener, TOKEN), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """The program with its token beside it, as a job's Secret holds it."""
    program = tmp_path / "remote_shell.py"
    program.write_bytes(Path(remote_shell.__file__).read_bytes())
    (tmp_path / "token").write_bytes(TOKEN + b"\n")
    return program


def call(shell: Path, port: int, *words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "GANGLINE_SHELL_PORT": str(port)}
    command = [sys.executable, "-I", "-S", str(shell), *words]
    return subprocess.run(command, env=environment, input=text, capture_output=True, text=True, check=False, timeout=30)


def test_output_and_exit_code_come_back(shell: Path, port: int) -> None:
    done = call(shell, port, "127.0.0.1", "echo", "out;", "echo", "err", ">&2;", "exit", "7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)


def test_a_command_killed_by_a_signal_says_so(shell: Path, port: int) -> None:
    assert call(shell, port, "127.0.0.1", "kill -9 $$").returncode == 137


def test_input_goes_along(shell: Path, port: int) -> None:
    assert call(shell, port, "127.0.0.1", "cat", text="x" * 200_000).stdout == "x" * 200_000


def test_options_of_ssh_are_passed_over(shell: Path, port: int) -> None:
    done = call(shell, port, "-x", "-o", "ConnectionAttempts=10", "-p", "22", "me@127.0.0.1", "echo", "there")
    assert done.stdout == "there\n"


def test_a_daemon_that_is_left_behind_does_not_keep_the_launcher(shell: Path, port: int, tmp_path: Path) -> None:
    done = call(shell, port, "127.0.0.1", f"(sleep 60 & echo $! > {tmp_path}/pid) ; echo started")
    assert done.stdout == "started\n"
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_whoever_does_not_know_the_token_runs_nothing(shell: Path, port: int, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"a guess")
    done = call(shell, port, "127.0.0.1", f"touch {tmp_path}/ran")
    assert done.returncode == remote_shell.FAILURE
    assert "does not know this job's token" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_worker_runs_its_own_command_meanwhile(shell: Path) -> None:
    environment = {**os.environ, "GANGLINE_SHELL_PORT": "0"}
    command = [sys.executable, "-I", "-S", str(shell), "serve", "sh", "-c", "echo working; exit 3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert (done.stdout, done.returncode) == ("working\n", 3)
