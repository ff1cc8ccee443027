"""What a person sees on a machine that cannot run the cluster. Needs no cluster itself."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = "import os\nos.geteuid = lambda: 1000\n"
SUITE = "def test_one(kubernetes_cluster): pass\ndef test_two(kubernetes_cluster): pass\ndef test_three(): pass\n"


def run(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_suite.py").write_text(SUITE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tools.cluster.pytest_plugin", *options, str(folder)]
    return subprocess.run(
        command, cwd=folder, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two processes"])
def test_a_machine_that_cannot_run_it_skips_and_says_so_once(tmp_path: Path, options: tuple[str, ...]) -> None:
    result = run(tmp_path, *options)
    assert result.returncode == 0, result.stdout
    assert "1 passed, 2 skipped" in result.stdout
    lines = [line for line in result.stdout.splitlines() if line.startswith("the Kubernetes suite was skipped")]
    assert lines == [
        "the Kubernetes suite was skipped: the cluster needs root: its nodes are namespaces with networks and mounts"
    ]


def test_in_ci_the_same_is_a_failure(tmp_path: Path) -> None:
    result = run(tmp_path, CI="true")
    assert result.returncode == 1
    assert "CI must run it: the cluster needs root" in result.stdout


def test_a_named_cluster_is_used_instead(tmp_path: Path) -> None:
    result = run(tmp_path, GANGLINE_TEST_KUBECONFIG=str(tmp_path / "config"))
    assert "3 passed" in result.stdout
