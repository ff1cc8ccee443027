"""Debian's packages, installed where this machine allows it: by root, one process after the other."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOCK = Path("/run/lock")
_PATIENCE_SECONDS = 300


def install(packages: Sequence[str]) -> str:
    """Install packages; return why that was not possible, or an empty text.

    apt-get refuses to work while another one does. Several processes of a test run may miss the same package, so they
    take turns, and wait for whoever else is installing something.
    """
    apt = shutil.which("apt-get", path=_SEARCH_PATH)
    if apt is None:
        return "this machine has no apt-get"
    if os.geteuid() != 0:
        return "only root can install packages"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": _SEARCH_PATH}
    waiting = (apt, "-o", f"DPkg::Lock::Timeout={_PATIENCE_SECONDS}")
    wanted = [*waiting, "install", "--yes", "--no-install-recommends", *packages]
    with (_LOCK / "gangline-packages").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = _run(wanted, environment)
        if done.returncode and _run([*waiting, "update"], environment).returncode == 0:  # its lists were missing or old
            done = _run(wanted, environment)
    return done.stderr[-2000:] if done.returncode else ""


def _run(command: Sequence[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
