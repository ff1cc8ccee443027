"""docs/sweeps.md is true: a sampler of an installed package searches, in the service as on the command line."""

import os
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, blocks_of

PAGE = "docs/sweeps.md"
PROJECT = """
[project]
name = "gangline-middle"
version = "1.0"

[project.entry-points."gangline.samplers"]
middle = "my_package:MIDDLE"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
include = ["my_package.py"]
"""
SWEEP = """
kind: Sweep
metadata: {name: halfway}
spec:
  sampler: middle
  budget: {trials: 5}
  parameters: {rate: {min: 0, max: 1}, layers: [1, 2, 3]}
  template: {spec: {command: [echo, "$(rate)", "$(layers)"], resources: {cpu: 100m, memory: 32Mi}}}
"""


def test_a_sampler_of_an_installed_package_searches(tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("own")  # a short name: sockets lie below it
    (source,) = [block.text for block in blocks_of(PAGE, (ROOT / PAGE).read_text()) if "class Middle" in block.text]
    package, site = tmp_path / "package", tmp_path / "site"
    package.mkdir()
    (package / "my_package.py").write_text(source)
    (package / "pyproject.toml").write_text(PROJECT)
    (package / "sweep.yaml").write_text(SWEEP)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    folders = {"GANGLINE_HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    environment = {**kept, **folders, "PYTHONPATH": str(site), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    (tmp_path / "run").mkdir(mode=0o700)

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=package, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "install", "--quiet")
    run(*pip, "--no-deps", "--no-build-isolation", "--target", str(site), str(package))
    gangline = (sys.executable, "-m", "gangline")
    try:
        assert "halfway is finished (1 COMPLETED)" in run(*gangline, "sweep", "-f", "sweep.yaml", "--wait")
        assert run(*gangline, "logs", "halfway-0").strip().endswith("0.5 2")
    finally:
        run(*gangline, "server", "stop")
