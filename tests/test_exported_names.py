"""The public names of the package are a promise."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gangline


@pytest.mark.parametrize("name", gangline.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(gangline, name) is not None
    assert name in dir(gangline)


def test_another_name_is_refused_as_usual() -> None:
    with pytest.raises(AttributeError, match="'Clinet'"):
        gangline.Clinet  # noqa: B018  # asking is the test


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    assert gangline.__version__ == project["project"]["version"]


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import gangline, sys; print([name for name in sys.modules if name.startswith('gangline.')])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
