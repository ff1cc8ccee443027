"""The background service as a real process."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gangline import __version__
from gangline.errors import UnreachableError
from gangline.sdk import Client
from gangline.sdk.transports.background import address_of, ensure_service, log_tail, running_process, stop_service
from gangline.settings import Settings
from gangline.testing.client_suite import make_command


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings.load({}, home=tmp_path / "home", runtime_directory=tmp_path / "run")
    yield settings
    stop_service(settings)


def test_several_starters_at_once_start_one_service(settings: Settings) -> None:
    program = (
        "from pathlib import Path; from gangline.sdk.transports.background import ensure_service, running_process\n"
        "from gangline.settings import Settings\n"
        f"settings = Settings.load({{}}, home=Path({str(settings.home)!r}),"
        f" runtime_directory=Path({str(settings.runtime_directory)!r}))\n"
        "said = []\n"
        "ensure_service(settings, say=said.append)\n"
        "print(running_process(settings), len(said))\n"
    )
    starters = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [starter.communicate(timeout=60)[0].split() for starter in starters]
    assert len({process for process, _ in answers}) == 1
    assert sum(int(said) for _, said in answers) == 1


def test_a_service_whose_starter_is_killed_meanwhile_is_found_by_the_next(settings: Settings) -> None:
    program = (
        "import time; from pathlib import Path; from gangline.sdk.transports import background\n"
        "from gangline.settings import Settings\n"
        f"settings = Settings.load({{}}, home=Path({str(settings.home)!r}),"
        f" runtime_directory=Path({str(settings.runtime_directory)!r}))\n"
        "def wait(*_): print('started', flush=True); time.sleep(600)\n"
        "background.select.select = wait\n"
        "background.ensure_service(settings)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
        starter.kill()
    said: list[str] = []
    ensure_service(settings, say=said.append)
    assert running_process(settings) is not None
    assert said == []


def test_a_client_without_an_address_starts_the_users_service(settings: Settings) -> None:
    with Client(settings=settings) as client:
        assert client.version() == __version__
    assert running_process(settings) is not None


def test_the_service_is_private_and_of_its_own_session(settings: Settings) -> None:
    ensure_service(settings)
    process = running_process(settings)
    assert process is not None
    assert os.getsid(process) == process
    assert settings.runtime_directory.stat().st_mode & 0o777 == 0o700


def test_a_killed_service_leaves_a_socket_that_fools_nobody(settings: Settings) -> None:
    ensure_service(settings)
    Client(address_of(settings), settings=settings).submit(make_command("kept", "true"), halted=True)
    first = running_process(settings)
    assert first is not None
    handle = os.pidfd_open(first)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PIDFD, handle, os.WEXITED)
    os.close(handle)
    assert settings.socket.exists()
    assert running_process(settings) is None
    ensure_service(settings)
    assert running_process(settings) != first
    assert Client(address_of(settings), settings=settings).get("kept").name == "kept"


def test_stopping_ends_the_process_and_removes_the_socket(settings: Settings) -> None:
    ensure_service(settings)
    process = running_process(settings)
    assert stop_service(settings) == process
    assert running_process(settings) is None
    assert not settings.socket.exists()
    assert stop_service(settings) is None


def test_the_service_of_a_home_is_found_from_another_runtime_directory(settings: Settings, tmp_path: Path) -> None:
    ensure_service(settings)
    elsewhere = replace(settings, runtime_directory=tmp_path / "cron")
    assert ensure_service(elsewhere) == f"unix:{settings.socket}"
    assert stop_service(elsewhere) is not None
    assert running_process(settings) is None


def test_a_service_whose_runtime_directory_was_removed_listens_again(settings: Settings) -> None:
    ensure_service(settings)
    process = running_process(settings)
    shutil.rmtree(settings.runtime_directory)
    for _ in range(1200):
        if running_process(settings) is not None:
            break
        threading.Event().wait(0.05)
    assert running_process(settings) == process
    assert Client(address_of(settings), settings=settings).version() == __version__


def test_a_program_that_embeds_the_service_of_a_home_is_not_taken_for_one(settings: Settings) -> None:
    ensure_service(settings)
    stop_service(settings)
    with Client.embedded(home=settings.home):
        assert running_process(settings) is None
        with pytest.raises(UnreachableError, match="another service already runs"):
            ensure_service(settings)


def test_a_service_that_cannot_start_shows_the_end_of_its_log(settings: Settings) -> None:
    settings.home.mkdir(parents=True)
    settings.log_file.write_text("an older story\n")
    settings.database_file.mkdir()
    with pytest.raises(UnreachableError, match="ended with exit code") as failure:
        ensure_service(settings)
    assert "its log ends with" in str(failure.value)
    assert "older story" not in str(failure.value)


def test_a_log_is_shown_from_its_end(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert log_tail(tmp_path / "log", 2) == "line 99998\nline 99999"
    assert log_tail(tmp_path / "missing") == ""
