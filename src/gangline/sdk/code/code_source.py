"""What this machine knows of a job's code beside its content: the commit, and the packages that are installed."""

import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gangline.sdk.code.active_environment import active_environment

_GIT_SECONDS = 10.0


def commit_of(directory: Path) -> tuple[str, bool]:
    """Return the commit that is checked out there and whether the directory has changes; empty without one."""
    commit = _git(directory, "rev-parse", "--verify", "HEAD")
    if not commit:
        return "", False
    changes = _git(directory, "status", "--porcelain", "--", ".")
    # A tree that cannot be compared in time is not known to be clean.
    return commit, changes is None or bool(changes)


def _git(directory: Path, *words: str) -> str | None:
    command = ("git", "-C", str(directory), "-c", "core.fsmonitor=false", *words)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def installed_packages(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return ``name==version`` of all that is installed in the environment that jobs of this machine run in.

    By the names of folders alone: reading what is in them would cost every submission a tenth of a second.
    """
    active = active_environment(environment)
    prefix = active.get("VIRTUAL_ENV") or active.get("CONDA_PREFIX")
    if prefix is None:
        return ()
    found = set()
    for folder in Path(prefix).glob("lib/python3*/site-packages/*.dist-info"):
        name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
        if name:
            found.add(f"{name.lower().replace('_', '-')}=={version}")
    return tuple(sorted(found))


def packages_text(packages: tuple[str, ...]) -> tuple[str, bytes]:
    """Write a list of packages as it is kept, and the digest it is found by."""
    text = "".join(f"{package}\n" for package in packages).encode()
    return hashlib.sha256(text).hexdigest(), text
