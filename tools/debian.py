"""Programs the tests need from Debian's packages: installed when the machine allows it, else a visible skip."""

import os
import shutil
from typing import NoReturn

import pytest

from tools import apt


def require_program(program: str, package: str) -> str:
    """Return the path of a program, installing its package when this is root; skips, or fails in CI, without it."""
    found = shutil.which(program)
    if found is None and not apt.install([package]):
        found = shutil.which(program)
    if found is None:
        refuse(f"{program} is missing: install Debian's package {package}")
    return found


def refuse(reason: str) -> NoReturn:
    """Skip the calling test, visibly; in CI, where everything must run, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
