"""Directories that a job left in a state of its own are removed all the same, and nothing beyond them is touched."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REMOVE = "import sys; from gangline.engines.local.keeper.system.trees import remove_tree; remove_tree(sys.argv[1])"
POWERS = "-dac_override,-dac_read_search"
"""What lets root into every directory; a user has neither."""


def remove_as_a_user(folder: Path) -> None:
    command = [sys.executable, "-c", REMOVE, str(folder)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root cannot become a user here")
        command = ["setpriv", f"--bounding-set={POWERS}", f"--inh-caps={POWERS}", *command]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("mode", [0o500, 0o000], ids=["read-only", "closed"])
def test_a_directory_is_removed_whatever_its_mode(tmp_path: Path, mode: int) -> None:
    job, elsewhere = tmp_path / "job", tmp_path / "elsewhere"
    inner = job / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    elsewhere.mkdir(mode=0o755)
    (job / "a" / "link").symlink_to(elsewhere)
    inner.chmod(mode)
    (job / "a").chmod(mode)
    remove_as_a_user(job)
    assert not job.exists()
    assert elsewhere.stat().st_mode & 0o777 == 0o755
