"""The command line as its users meet it: real processes, a home of their own, a service they start themselves."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gangline.cli.main import run
from gangline.errors import NotFoundError
from gangline.sdk import Client
from gangline.sdk.transports.background import address_of, running_process, stop_service
from gangline.settings import Settings
from tests.cli.forking import Forks

Here = Callable[..., tuple[int, str, str]]


class Shell:
    """Runs gangline as one user on one machine."""

    def __init__(self, place: Path, forks: Forks | None = None) -> None:
        self._forks = forks
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GANGLINE_", "XDG_"))}
        self.environment = {
            **kept,
            "HOME": str(place),
            "GANGLINE_HOME": str(place / "home"),
            "GANGLINE_RUNTIME_DIRECTORY": str(place / "run"),
            "GANGLINE_CONFIG": str(place / "config.yaml"),
        }
        self.environment.pop("NO_COLOR", None)
        self.settings = Settings.load(self.environment)

    def run(self, *arguments: str, text_in: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**self.environment, **variables}
        if self._forks is not None and not any(name.startswith("PYTHON") for name in variables):
            return self._forks.run(arguments, text_in=text_in, env=env, timeout=120)
        return subprocess.run(
            self.command(*arguments), input=text_in, capture_output=True, text=True, env=env, timeout=120, check=False
        )

    def out(self, *arguments: str) -> str:
        """Run a command that must succeed; return what it printed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @staticmethod
    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "gangline.cli.main", *arguments]

    def tear_down(self) -> None:
        if running_process(self.settings) is not None:
            client = Client(address_of(self.settings), settings=self.settings)
            for job in client.list(limit=None):
                with contextlib.suppress(NotFoundError):  # it was on its way out already
                    client.delete(job.id)
            stop_service(self.settings)


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """What commands are forked from."""
    forks = Forks(tmp_path_factory.mktemp("forks"))
    yield forks
    forks.close()


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Iterator[Shell]:
    """One user whose service runs through all the tests; job names keep the tests apart."""
    shell = Shell(tmp_path_factory.mktemp("user"), forks)
    shell.out("server", "start")
    yield shell
    shell.tear_down()


@pytest.fixture
def here(shell: Shell, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    """Runs commands of the same user within this process: no faster way to see what one prints and returns."""
    return _within_this_process(shell, monkeypatch, capfd)


@pytest.fixture
def fresh_here(fresh_shell: Shell, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    """Runs commands of a user who has never used Gangline within this process."""
    return _within_this_process(fresh_shell, monkeypatch, capfd)


def _within_this_process(shell: Shell, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    for name, value in shell.environment.items():
        monkeypatch.setenv(name, value)

    def run_here(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(arguments)
        return (code, *capfd.readouterr())

    return run_here


@pytest.fixture
def fresh_shell(tmp_path: Path, forks: Forks) -> Iterator[Shell]:
    """A user who has never used Gangline."""
    shell = Shell(tmp_path, forks)
    yield shell
    shell.tear_down()
