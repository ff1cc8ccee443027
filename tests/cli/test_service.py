"""``gangline serve`` and ``gangline service`` as their users meet them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from gangline.cli.commands import service as commands
from gangline.model import Timestamp
from gangline.model.kinds.service import Rollout, Service, ServiceSpec, ServiceStatus
from tests.cli.conftest import Shell


@pytest.fixture(scope="module")
def files(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that answers with the files of a directory."""
    place = tmp_path_factory.mktemp("served")
    (place / "hello").write_text("hello there")
    command = [Shell.command()[0], "-m", "http.server", "$(PORT)", "--directory", str(place)]
    made = shell.run("serve", "--name", "files", "--resources", "cpu=100m,memory=64Mi", "--", *command)
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip().endswith("/services/files")
    yield "files"
    assert shell.run("service", "delete", "files").returncode == 0


def test_service_is_asked_listed_and_explained(shell: Shell, files: str) -> None:
    assert shell.out("service", "predict", files, "--path", "/hello").strip() == "hello there"
    assert "ready" in shell.out("service", "list")
    assert "RevisionCreated: revision 1" in shell.out("service", "explain", files)
    assert shell.out("service", "rollout", files).splitlines()[1].split()[:3] == ["1", "current", "1"]
    assert "GET /hello" in shell.out("service", "logs", files)
    refused = shell.run("service", "logs", files, "--replica", "99")
    assert (refused.returncode, "no replica named '99'; files has 1" in refused.stderr) == (3, True)


def test_changed_file_is_rolled_out_and_rolled_back(shell: Shell, files: str, tmp_path: Path) -> None:
    (tmp_path / "hello").write_text("hello again")
    file = tmp_path / "files.yaml"
    file.write_text(
        f"""
apiVersion: gangline.dev/v1
kind: Service
metadata: {{name: files}}
spec:
  rollout: {{steps: []}}
  job:
    command: [{Shell.command()[0]}, -m, http.server, $(PORT), --directory, {tmp_path}]
    resources: {{cpu: 100m, memory: 64Mi}}
"""
    )
    assert shell.run("service", "edit", files, "-f", str(file)).returncode == 0
    assert answers(shell, files, "hello again")
    assert shell.run("service", "rollout", "-w", files).returncode == 0
    assert "revision 1" in shell.run("service", "rollback", files).stderr
    assert answers(shell, files, "hello there")


def answers(shell: Shell, name: str, text: str) -> bool:
    """Ask until the service answers with this; every request must be answered."""
    return any(shell.out("service", "predict", name, "--path", "/hello").strip() == text for _ in range(200))


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (("serve",), "not clear what to serve"),
        (("serve", "model://mnist", "--", "true"), "not clear what to serve"),
        (("serve", "--", "true"), "--name NAME -- COMMAND"),
        (("serve", "--", "sleep", "9"), "--name is needed"),
        (("serve", "model://mnist", "--replicas", "some"), "not a number of replicas"),
        (("service", "scale", "nobody", "x"), "not a number of replicas"),
        (("service", "rollback", "nobody"), "nobody"),
        (("service", "predict", "nobody"), "nothing to send"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(shell: Shell, arguments: tuple[str, ...], want: str) -> None:
    refused = shell.run(*arguments)
    assert refused.returncode != 0
    assert want in refused.stderr


def test_serve_ends_when_the_model_is_not_there(shell: Shell) -> None:
    refused = shell.run("serve", "model://nobody", "--name", "blocked")
    shell.run("service", "delete", "blocked")
    assert refused.returncode == 4
    assert "service 'blocked' is blocked: no model named 'nobody'" in refused.stderr


def test_program_that_exits_at_once_is_explained(shell: Shell) -> None:
    small = ("--resources", "cpu=100m,memory=64Mi")
    assert shell.run("serve", "--no-wait", "--name", "exits", *small, "--", "no-such-program").returncode == 0
    said = next((text for _ in range(200) if "started again" in (text := shell.out("service", "explain", "exits"))), "")
    assert shell.run("service", "delete", "exits").returncode == 0
    assert "exits-1-1: started again" in said
    assert "command not found: 'no-such-program'" in said


def test_program_that_never_listens_is_explained(shell: Shell) -> None:
    small = ("--resources", "cpu=100m,memory=64Mi")
    assert shell.run("serve", "--no-wait", "--name", "silent", *small, "--", "sleep", "1000").returncode == 0
    want = "silent-1-1: runs and does not pass its check yet"
    said = any(want in shell.out("service", "explain", "silent") for _ in range(200))
    assert shell.run("service", "delete", "silent").returncode == 0
    assert said


def test_watched_rollout_says_what_happens_after_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    status = ServiceStatus(rollout=Rollout(revision=2))
    for number in range(40):
        status = status.told(Timestamp(number), "Happened", f"number {number}")
    before = Service(id="s1", created_at=Timestamp(0), spec=ServiceSpec(name="old", model="model://m"), status=status)
    after = replace(before, status=replace(status, rollout=None).told(Timestamp(41), "RolledOut", "at last"))
    services = Mock(**{"get.return_value": before, "watch.return_value": [before, after]})
    monkeypatch.setattr(commands, "connect", lambda *_, **__: Mock(services=services))
    said = CliRunner().invoke(commands.command, ["rollout", "-w", "old"], obj={}).output
    assert said.count("number 39") == 1
    assert "RolledOut: at last" in said


@pytest.mark.parametrize("words", [("mnist",), ("mnist", "--name", "digits")])
def test_name_of_a_model_is_not_run_as_a_program(shell: Shell, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "weights").touch()
    if "mnist" not in shell.out("model", "list"):
        assert shell.run("model", "register", "mnist", str(tmp_path)).returncode == 0
    refused = shell.run("serve", *words)
    assert refused.returncode != 0
    assert "model://mnist" in refused.stderr
    assert "digits" not in shell.out("service", "list")
