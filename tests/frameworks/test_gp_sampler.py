"""Optuna's Gaussian process, which needs PyTorch: a sweep tries what Optuna alone tries, before and after a restart."""

import os
import subprocess
import sysconfig

import pytest

from tests.frameworks.conftest import PROJECT
from tools.frameworks import frameworks_python

pytestmark = pytest.mark.frameworks


def test_a_gaussian_process_searches_as_it_does_alone() -> None:
    """The tests of all samplers, in an interpreter that has PyTorch beside what this one has."""
    path = (str(PROJECT / "src"), str(PROJECT), sysconfig.get_path("purelib"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    command = [str(frameworks_python()), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "gp"]
    done = subprocess.run(
        [*command, "tests/sweeps/test_samplers.py"],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout
