"""A job that ships code, under a Python that is older than the one these tests run under.

``requires-python`` says 3.11, and that is 3.11.0: what a later patch release brought, as tarfile's filters, is missing.
"""

import re
import shutil
import site
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

NEWER = (3, 11, 4)
"""The patch release that brought filters to tarfile."""


def old_python() -> str:
    """An interpreter of 3.11.0 to 3.11.3: Debian 12 has one."""
    for candidate in ("/usr/bin/python3.11", shutil.which("python3.11")):
        if candidate and Path(candidate).exists():
            said = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=True).stdout
            version = tuple(map(int, re.findall(r"\d+", said)[:3]))
            if (3, 11) <= version < NEWER:
                return candidate
    pytest.skip("there is no Python from 3.11.0 to 3.11.3 here")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment of that interpreter with our packages, which are built for every Python 3.11."""
    subprocess.run([old_python(), "-m", "venv", "--without-pip", tmp_path / "old"], check=True)
    (packages,) = (tmp_path / "old/lib").glob("python3.11/site-packages")
    # Not as plain paths: editable installations are found by the .pth files in them.
    lines = [f"import site; site.addsitedir({folder!r})" for folder in site.getsitepackages()]
    (packages / "ours.pth").write_text("\n".join(lines) + "\n")
    return tmp_path / "old"


def test_a_job_that_ships_code_runs(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code/inner").mkdir(parents=True)
    (tmp_path / "code/inner/seven.txt").write_text("seven")
    (tmp_path / "code/link").symlink_to("inner/seven.txt")
    (tmp_path / "code/train.py").write_text("import sys; print(sys.version_info[:3], open('link').read())\n")
    shell = Shell(tmp_path)
    monkeypatch.setattr(
        shell, "command", lambda *words: [str(environment / "bin/python"), "-m", "gangline.cli.main", *words]
    )
    shell.environment["PATH"] = f"{environment}/bin:{shell.environment['PATH']}"
    try:
        shell.out("submit", "--name", "old", "--code", str(tmp_path / "code"), "--wait", "--", "python", "train.py")
        said = shell.out("logs", "old")
        assert "seven" in said
        assert any(f"(3, 11, {patch})" in said for patch in range(NEWER[2]))
        assert "COMPLETED" in shell.out("get", "old")
    finally:
        shell.tear_down()
