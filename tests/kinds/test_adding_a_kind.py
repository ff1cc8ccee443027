"""docs/adding-a-kind.md is true: its package adds a kind to the service, the command line and the Python client."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.kinds.support import PAGE, write_package


class Installed:
    """A home, and the package on the path."""

    def __init__(self, place: Path) -> None:
        write_package(place)
        self.place = place
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        folders = {name: str(place / name.lower()) for name in ("GANGLINE_HOME", "XDG_RUNTIME_DIR")}
        self.environment = {**kept, **folders, "PYTHONPATH": str(place), "HOME": str(place), "TMPDIR": str(place)}
        (place / "xdg_runtime_dir").mkdir(mode=0o700)

    def run(self, *command: str, code: int = 0) -> str:
        done = subprocess.run(
            command, cwd=self.place, env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def gangline(self, *words: str, code: int = 0) -> str:
        return self.run(sys.executable, "-m", "gangline", *words, code=code)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    found = Installed(tmp_path_factory.mktemp("kind"))
    yield found
    found.gangline("server", "stop")


def test_the_kind_is_small() -> None:
    blocks = [block for block in blocks_of(PAGE, (ROOT / PAGE).read_text()) if block.detail.endswith((".py", ".toml"))]
    assert len(blocks) <= 4
    assert sum(len(block.text.splitlines()) for block in blocks) <= 150


def test_it_is_used_from_the_command_line(installed: Installed) -> None:
    assert "Run the same job several times." in installed.gangline("--help")
    assert "nightly" in installed.gangline("repeat", "create", "-f", "nightly.yaml")
    assert installed.gangline("repeat", "wait", "nightly", "--timeout", "60s").strip() == "nightly is finished"
    heading, row = installed.gangline("repeat", "list").splitlines()
    assert heading.split() == ["NAME", "STATE", "RUNS", "FAILED", "AGE"]
    assert row.split()[:4] == ["nightly", "finished", "3/3", "0"]
    (shown,) = json.loads(installed.gangline("repeat", "list", "-o", "json"))
    assert (shown["kind"], shown["status"]["begun"]) == ("Repeat", 3)
    described = installed.gangline("repeat", "describe", "nightly")
    assert "- nightly-2: COMPLETED" in described
    assert "- nightly-0: COMPLETED" in described
    installed.gangline("repeat", "delete", "nightly")
    assert "no jobs" in installed.gangline("list")


def test_its_own_verb_ends_it_early(installed: Installed) -> None:
    go = installed.place / "go"
    text = (installed.place / "nightly.yaml").read_text().replace("nightly", "long")
    text = text.replace("[echo, hello]", f"[sh, -c, 'until test -e {go}; do sleep 0.1; done']")
    (installed.place / "long.yaml").write_text(text)
    installed.gangline("repeat", "create", "-f", "long.yaml")
    installed.gangline("repeat", "skip", "long")
    go.touch()
    installed.gangline("repeat", "wait", "long", "--timeout", "60s")
    (shown,) = json.loads(installed.gangline("repeat", "list", "-o", "json"))
    assert shown["status"]["begun"] == 1
    installed.gangline("repeat", "delete", "long")


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ("times: 3", "times: 0", "spec.times: 0 is too small; expected 1 or more"),
        ("times: 3", "time: 3", "did you mean 'times'?"),
        ("times: 3", "times: many", "expected a whole number"),
        ("command:", "comand:", "did you mean 'command'?"),
        ("name: nightly", "nam: nightly", "did you mean 'name'?"),
        ("kind: Repeat", "kind: Job", "did you mean"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_field(installed: Installed, old: str, new: str, want: str) -> None:
    wrong = (installed.place / "nightly.yaml").read_text().replace(old, new)
    (installed.place / "wrong.yaml").write_text(wrong)
    said = installed.gangline("repeat", "create", "-f", "wrong.yaml", code=2)
    assert "wrong.yaml:" in said
    assert want in said or "one of Repeat" in said


def test_its_file_is_no_job(installed: Installed) -> None:
    said = installed.gangline("submit", "-f", "nightly.yaml", code=2)
    assert "'gangline repeat create -f FILE' takes a Repeat" in said


def test_it_is_used_from_python(installed: Installed) -> None:
    (program,) = (
        block.text
        for block in blocks_of(PAGE, (ROOT / PAGE).read_text())
        if block.language == "python" and block.order == "not run"
    )
    said = installed.run(sys.executable, "-c", program)
    assert "RepeatStatus(begun=3, failed=0, skipping=False, finished_at=" in said
