"""Commands about Gangline itself, and what starting it costs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from gangline import __version__
from gangline.cli.doctor_checks import check_socket
from gangline.cli.lazy import COMMANDS
from gangline.cli.main import cli
from gangline.compose.findings import Health
from gangline.settings import Settings
from tests.cli.conftest import Here, Shell

NAMES = [name for section in COMMANDS.values() for name in section]


def test_help_imports_click_and_no_more_of_the_platform_than_the_names_of_kinds() -> None:
    program = (
        "import sys; from gangline.cli.main import run; run(['--help']);"
        "print([name for name in sys.modules if name.split('.')[0] in"
        " ('rich', 'yaml', 'msgspec', 'numpy', 'aiohttp', 'asyncio', 'http')"
        " or name.startswith('gangline.') and not name.startswith('gangline.cli')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "['gangline.kinds.registry', 'gangline.kinds']"
    assert "Submit a job from options or from a file." in found.stdout


def test_a_command_imports_neither_the_service_nor_what_reads_files_nor_rich(shell: Shell) -> None:
    program = (
        "import sys; from gangline.cli.main import run; run(['list']);"
        "print([name for name in ('rich', 'numpy', 'aiohttp', 'asyncio', 'sqlite3', 'yaml',"
        " 'gangline.dialects.kubeflow') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=shell.environment
    )
    assert found.stdout.splitlines()[-1] == "[]"


def test_the_package_runs_as_a_program() -> None:
    found = subprocess.run([sys.executable, "-m", "gangline", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout == f"gangline {__version__}\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_is_what_the_table_says(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.help


@pytest.mark.parametrize("name", NAMES)
def test_every_option_says_what_it_does(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    below = command.commands.values() if isinstance(command, click.Group) else [command]
    for each in below:
        for parameter in each.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{each.name} {parameter.opts}"


def test_the_service_is_started_shown_and_stopped(fresh_shell: Shell) -> None:
    stopped = fresh_shell.run("server", "status")
    assert (stopped.returncode, stopped.stdout.splitlines()[0]) == (3, "State:    not running")
    assert fresh_shell.out("version") == f"client  {__version__}\n"
    fresh_shell.out("server", "start")
    assert fresh_shell.out("version") == f"client  {__version__}\nservice {__version__}\n"
    assert fresh_shell.run("server", "run").returncode == 4, "a second one on the same home is refused"
    running = fresh_shell.out("server", "status")
    assert "State:    running" in running
    assert f"Version:  {__version__}" in running
    assert "serving on" in fresh_shell.out("server", "logs", "--tail", "5")
    assert "stopped the service" in fresh_shell.run("server", "stop").stderr
    assert "no service runs" in fresh_shell.run("server", "stop").stderr


def test_the_doctor_looks_at_everything(here: Here) -> None:
    findings = json.loads(here("doctor", "-o", "json")[1])
    assert [finding["subject"] for finding in findings] == [
        "python",
        "cgroups",
        "loopback",
        "disk",
        "gpu",
        "socket",
        "service",
        "clock",
        "kinds",
    ]
    assert all(finding["fix"] for finding in findings if finding["health"] != "good")


def test_the_doctor_tells_of_a_directory_open_to_others(fresh_shell: Shell) -> None:
    fresh_shell.settings.runtime_directory.mkdir(mode=0o755)
    done = fresh_shell.run("doctor")
    assert done.returncode == 1
    assert "FAIL  socket:" in done.stdout
    assert "fix: chmod 700" in done.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("made", ["run", "run/below"], ids=["the directory", "the one it will be made in"])
def test_the_doctor_tells_of_a_runtime_directory_of_somebody_else(
    fresh_shell: Shell, tmp_path: Path, made: str
) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    os.chown(tmp_path / "run", 4242, 4242)
    done = fresh_shell.run("doctor", GANGLINE_RUNTIME_DIRECTORY=str(tmp_path / made))
    assert done.returncode == 1
    assert "FAIL  socket:" in done.stdout
    assert f"{tmp_path / 'run'} belongs to somebody else" in done.stdout


def test_the_doctor_tells_of_a_directory_of_the_system_that_nothing_can_be_made_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.load({}, home=tmp_path / "home", runtime_directory=tmp_path / "below")
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = check_socket(settings)
    assert (found.health, found.found) == (Health.BAD, f"{tmp_path} belongs to somebody else")


@pytest.mark.parametrize(
    ("word", "want"),
    [
        ("launch", "submit"),
        ("retry", "rerun"),
        ("inspect", "describe"),
        ("abort", "cancel"),
        ("sumbit", "submit"),
        ("prun", "prune"),
        ("unins", None),
    ],
)
def test_an_unknown_command_is_answered_with_the_one_that_was_meant(here: Here, word: str, want: str | None) -> None:
    code, _, said = here(word)
    assert code == 2
    assert (f"Did you mean '{want}'?" if want else "'gangline --help' lists them.") in said


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(here: Here, shell_name: str) -> None:
    assert "_GANGLINE_COMPLETE" in here("completion", shell_name)[1]


@pytest.mark.parametrize("words", [("submit", "-f"), ("submit", "--", "python"), ("what-if", "-f"), ("sweep", "-f")])
def test_the_shell_completes_names_of_files(words: tuple[str, ...]) -> None:
    (item,) = ShellComplete(cli, {}, "gangline", "_GANGLINE_COMPLETE").get_completions(list(words), "jo")
    assert (item.type, item.value) == ("file", "jo")


def test_commands_and_jobs_are_completed(shell: Shell) -> None:
    shell.run("submit", "--name", "completed", "--halted", "--", "true")

    def completed(*words: str) -> list[str]:
        asked = {"_GANGLINE_COMPLETE": "bash_complete", "COMP_WORDS": "gangline " + " ".join(words)}
        return shell.run(COMP_CWORD=str(len(words)), **asked).stdout.split()

    assert completed("sub") == ["plain,submit"]
    assert "plain,completed" in completed("get", "compl")
    assert completed("--tenant", "other", "get", "compl") == []
