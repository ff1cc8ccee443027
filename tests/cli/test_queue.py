"""Changing queues: what is not meant is refused, and nobody's change is lost."""

import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gangline.cli.kind_commands import _edit_text, edit_fields
from gangline.errors import StaleVersionError
from gangline.kinds.queue import QUEUE
from gangline.model import Queue, QueueName
from tests.cli.conftest import Here

TWO = "kind: Queue\nmetadata: {name: mine}\n---\nkind: Queue\nmetadata: {name: other}\n"


@pytest.fixture
def mine(here: Here) -> Iterator[str]:
    assert here("queue", "create", "mine", "--weight", "2")[0] == 0
    yield "mine"
    here("queue", "delete", "mine")


def test_a_file_of_several_queues_changes_none(here: Here, mine: str, tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO)
    code, _, said = here("queue", "edit", mine, "-f", str(file))
    assert (code, said) == (2, "error: there are 2 documents; expected queue 'mine' alone\n")


@pytest.mark.parametrize(
    ("program", "want_code", "want"),
    [
        pytest.param("", 0, "mine stays as it is", id="nothing changed"),
        pytest.param(f"file.write_text({TWO!r})", 2, "there are 2 documents", id="a second one"),
        pytest.param("file.write_text(file.read_text().replace('2', '3'))", 0, "mine is changed", id="another weight"),
        pytest.param(
            "subprocess.run([sys.executable, '-m', 'gangline.cli.main', 'queue', 'edit', 'mine', '--weight', '7']);"
            "file.write_text(file.read_text().replace('2', '3'))",
            4,
            "somebody else changed queue 'mine' meanwhile",
            id="somebody else was faster",
        ),
    ],
)
def test_a_queue_is_changed_in_an_editor(
    here: Here, mine: str, monkeypatch: pytest.MonkeyPatch, program: str, want_code: int, want: str
) -> None:
    program = f"import pathlib, subprocess, sys; file = pathlib.Path(sys.argv[1]); {program}"
    monkeypatch.setenv("EDITOR", shlex.join([sys.executable, "-c", program]))
    code, _, said = here("queue", "edit", mine)
    assert (code, want in said) == (want_code, True), said


class BusyRecords:
    """One queue, whose limit somebody else changes between each reading and the next writing, some times over."""

    def __init__(self, disturbed: int) -> None:
        self.kept = SimpleNamespace(spec=Queue(name=QueueName("mine")), version=1)
        self.disturbed = disturbed

    def get(self, name: str) -> Any:
        return SimpleNamespace(**vars(self.kept))

    def edit(self, spec: Queue, *, version: int) -> None:
        if self.disturbed:
            self.disturbed -= 1
            self.kept = SimpleNamespace(spec=replace(self.kept.spec, may_borrow=False), version=version + 1)
        if version != self.kept.version:
            raise StaleVersionError("queue", spec.name, expected=version, found=self.kept.version)
        self.kept = SimpleNamespace(spec=spec, version=version + 1)


def test_two_people_change_different_fields_at_once_and_both_are_kept() -> None:
    records = BusyRecords(disturbed=3)
    edit_fields(records, "mine", {"weight": 9})
    assert records.kept.spec == Queue(name=QueueName("mine"), weight=9, may_borrow=False)


@pytest.mark.parametrize(("field", "want"), [("status", 7), ("spec", StaleVersionError)])
def test_text_is_kept_if_only_the_status_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch, field: str, want: object
) -> None:
    records = BusyRecords(disturbed=0)

    def edit(text: str, extension: str) -> str:
        del extension
        other = replace(records.kept.spec, may_borrow=False) if field == "spec" else records.kept.spec
        records.kept = SimpleNamespace(spec=other, version=records.kept.version + 1)
        return f"{text.rstrip()}\n".replace("spec: {}", "spec: {weight: 7}")

    monkeypatch.setattr("click.edit", edit)
    if isinstance(want, int):
        assert _edit_text(QUEUE, records, "mine")
        assert records.kept.spec.weight == want
    else:
        with pytest.raises(StaleVersionError):
            _edit_text(QUEUE, records, "mine")


def test_a_change_that_is_never_in_time_says_so_in_the_end() -> None:
    with pytest.raises(StaleVersionError):
        edit_fields(BusyRecords(disturbed=100), "mine", {"weight": 9})


@pytest.mark.parametrize("amounts", ["cpu", "cpu=1,cpu=2", ""])
def test_amounts_that_are_not_understood_are_refused(here: Here, amounts: str) -> None:
    code, _, said = here("queue", "create", "wrong", "--limit", amounts)
    assert (code, said) == (
        2,
        f"error: --limit: found '{amounts}'; expected RESOURCE=AMOUNT,... with each name once\n",
    )


def test_every_setting_is_kept_as_it_was_given(here: Here) -> None:
    given = ["--guarantee", "cpu=4,gpu.a100=4", "--borrowing-limit", "gpu=2,gpu.a100=0", "--lending-limit", "gpu=1"]
    given += ["--minimum-run", "10m", "--non-preemptible-within-guarantee", "true"]
    assert here("queue", "create", "settled", *given)[0] == 0
    try:
        shown = yaml.safe_load(here("queue", "get", "settled", "-o", "yaml")[1])
        spec = shown.get("spec", shown)
        assert spec["guarantee"] == {"cpu": 4, "gpu": 4, "gpu.a100": 4}
        assert spec["borrowing_limit"] == {"gpu": 2, "gpu.a100": 0}
        assert (spec["lending_limit"], spec["minimum_run"]) == ({"gpu": 1}, "10m")
        assert spec["non_preemptible_within_guarantee"] is True
        assert here("queue", "edit", "settled", "--lending-limit", "none")[0] == 0
        assert "lending_limit" not in here("queue", "get", "settled", "-o", "yaml")[1]
        assert "4 a100 GPU" in here("queue", "list")[1]
    finally:
        here("queue", "delete", "settled")
