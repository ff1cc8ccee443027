"""Where the real frameworks train: a laptop (the local engine), driven with the command line as a person would.

`make test-frameworks` runs this folder; every other run passes it by, because its environment is large.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environments import environment_with
from tools.frameworks import frameworks_python

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "examples"
DEADLINE_SECONDS = 300


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if "frameworks" in config.option.markexpr else True


@dataclass(frozen=True)
class Laptop:
    """A Gangline of its own, whose user has activated the frameworks' environment."""

    environment: dict[str, str]
    data: Path

    def gangline(self, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "gangline.cli.main", *words]
        return subprocess.Popen(
            command, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, *words: str) -> str:
        """What a command prints; it must succeed."""
        process = self.gangline(*words)
        output, _ = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0, output
        return output


def paddle_python() -> Path:
    """Return the interpreter that has Paddle."""
    return environment_with("paddlepaddle==3.3.1", "numpy", "setuptools")


def accuracies(output: str) -> list[float]:
    return [float(found) for found in re.findall(r"accuracy (\d\.\d+)", output)]


@pytest.fixture(scope="session")
def mnist() -> Path:
    folder = PROJECT / "data" / "mnist"
    subprocess.run([sys.executable, EXAMPLES / "mnist" / "data.py", folder], check=True)
    return folder


@pytest.fixture(scope="session")
def laptop(tmp_path_factory: pytest.TempPathFactory, mnist: Path) -> Iterator[Laptop]:
    with opened_laptop(tmp_path_factory.mktemp("laptop"), mnist, frameworks_python()) as laptop:
        yield laptop


@pytest.fixture(scope="session")
def paddle_laptop(tmp_path_factory: pytest.TempPathFactory, mnist: Path) -> Iterator[Laptop]:
    """One with Paddle, in an environment of its own, so that what it needs binds nobody else."""
    with opened_laptop(tmp_path_factory.mktemp("paddle"), mnist, paddle_python()) as laptop:
        yield laptop


@contextmanager
def opened_laptop(place: Path, mnist: Path, python: Path) -> Iterator[Laptop]:
    claim = place / "home" / "claims" / "default" / "mnist"
    shutil.copytree(EXAMPLES / "kubeflow", claim)
    for file in mnist.glob("*.gz"):
        (claim / file.name).symlink_to(file)
    own = {name: value for name, value in os.environ.items() if not name.startswith("GANGLINE_")}
    laptop = Laptop(
        own
        | {
            "GANGLINE_HOME": str(place / "home"),
            "GANGLINE_RUNTIME_DIRECTORY": str(place / "run"),
            "VIRTUAL_ENV": str(python.parents[1]),
            "PATH": f"{python.parent}:{os.environ['PATH']}",
        },
        data=mnist,
    )
    yield laptop
    laptop.run("server", "stop")
