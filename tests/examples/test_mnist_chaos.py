"""The fault drill of the MNIST example."""

import argparse
import importlib
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "mnist"


@pytest.fixture
def chaos(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLE)
    return importlib.import_module("chaos")


def test_only_the_number_of_epochs_and_workers_differs_from_the_job_file(chaos: ModuleType, tmp_path: Path) -> None:
    original = chaos.load(EXAMPLE / "job.yaml")
    job = chaos.job_for(argparse.Namespace(workers=3, epochs=77, data=tmp_path), "drill")
    assert [(role.name, role.replicas) for role in job.roles] == [("chief", 1), ("ps", 1), ("worker", 3)]
    for before, after in zip(original.roles, job.roles, strict=True):
        changed = [pair for pair in zip(before.command[1:], after.command[1:], strict=True) if pair[0] != pair[1]]
        assert [new for _, new in changed] == ["77"] * ("--epochs" in before.command)
        assert after.restart == before.restart
    assert "77" in job.roles[0].command
