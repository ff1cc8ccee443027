"""Programs the tests need from Debian's packages: installed when the machine allows it, else a visible skip."""

import os
import shutil
import subprocess
from typing import NoReturn

import pytest


def require_program(program: str, package: str) -> str:
    """Return the path of a program, installing its package when this is root; skips, or fails in CI, without it."""
    found = shutil.which(program)
    if found is None and install(package):
        found = shutil.which(program)
    if found is None:
        refuse(f"{program} is missing: install Debian's package {package}")
    return found


def install(package: str) -> bool:
    """Install a package where this is allowed; whether it worked."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = [apt, "install", "--yes", "--no-install-recommends", package]

    def succeeds(arguments: list[str]) -> bool:
        return subprocess.run(arguments, env=environment, capture_output=True, check=False).returncode == 0

    # The lists of packages are fetched only if they turn out to be missing or old.
    return succeeds(command) or (succeeds([apt, "update"]) and succeeds(command))


def refuse(reason: str) -> NoReturn:
    """Skip the calling test, visibly; in CI, where everything must run, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
