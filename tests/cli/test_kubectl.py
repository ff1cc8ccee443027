"""The plug-in of kubectl."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from gangline.cli import kubectl
from gangline.cli.commands.debug import HIDDEN, hidden
from tests.cli.conftest import Here


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    named = {"clusters": "cluster", "users": "user", "contexts": "context"}
    parts = {"cluster": {"server": "https://127.0.0.1:1"}, "user": {}, "context": {"cluster": "red", "user": "red"}}
    written = {plural: [{"name": "red", one: parts[one]}] for plural, one in named.items()}
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({**written, "current-context": "red"}))
    monkeypatch.setenv("KUBECONFIG", str(file))
    return file


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["list"], ["--context", "red", "list"]),
        (["get", "mnist", "--context", "blue"], ["--context", "blue", "get", "mnist"]),
        (["--context=blue", "-n", "vision", "ps"], ["--context", "blue", "-n", "vision", "ps"]),
        (["run", "--", "x", "--context", "y"], ["--context", "red", "run", "--", "x", "--context", "y"]),
        (["--help"], ["--help"]),
        ([], []),
    ],
)
def test_it_means_the_cluster_that_kubectl_means(kubeconfig: Path, words: list[str], want: list[str]) -> None:
    assert kubectl.arguments(words) == want


def test_another_kubeconfig_may_be_named(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert kubectl.arguments(["list", "--kubeconfig", str(kubeconfig)]) == ["--context", "red", "list"]
    assert os.environ["KUBECONFIG"] == str(kubeconfig)


def test_a_missing_context_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    monkeypatch.setattr(sys, "argv", ["kubectl-gangline", "list"])
    with pytest.raises(SystemExit) as left:
        kubectl.main()
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("error: --context: ")


def test_kubectl_is_told_what_may_come_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-gangline", "me"])
    kubectl.complete()
    assert capsys.readouterr().out.splitlines() == ["metrics", ":4"]


def test_an_archive_holds_what_is_known_of_a_job_and_no_secrets(here: Here, tmp_path: Path) -> None:
    import tarfile

    here("submit", "--name", "ill", "--wait", "-e", "API_TOKEN=hush-hush", "--", "sh", "-c", "echo ouch; exit 3")
    file = tmp_path / "ill.tar.gz"
    assert here("debug", "ill", "-f", str(file))[:2] == (0, f"{file}\n")
    with tarfile.open(file) as archive:
        texts = {
            Path(each.name).name: content.read().decode()
            for each in archive
            if (content := archive.extractfile(each)) is not None
        }
    assert "ouch" in texts["logs.txt"]
    assert "ReplicaFailed" in texts["events.json"]
    assert "hush-hush" not in "".join(texts.values())
    assert f"API_TOKEN: {HIDDEN}" in texts["job.yaml"]


def test_only_values_that_look_secret_are_left_out() -> None:
    assert hidden("  WANDB_API_KEY: abc\n  SEED: 1\n  name: keyword: x\n") == (
        f"  WANDB_API_KEY: {HIDDEN}\n  SEED: 1\n  name: keyword: x\n"
    )
