"""Programs the tests need from Debian's packages: installed when the machine allows it, else a visible skip."""

import os
import shutil
import subprocess

import pytest


def require_program(program: str, package: str) -> str:
    """Return the path of a program, installing its package when this is root; skips, or fails in CI, without it."""
    found = shutil.which(program)
    apt = shutil.which("apt-get")
    if found is None and apt is not None and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = [apt, "install", "--yes", "--no-install-recommends", package]
        for command in (install, [apt, "update"], install):
            result = subprocess.run(command, env=environment, capture_output=True, check=False)
            if command is install and result.returncode == 0:
                break
        found = shutil.which(program)
    if found is None:
        reason = f"{program} is missing: install Debian's package {package}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found
