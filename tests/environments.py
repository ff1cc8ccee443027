"""Environments with packages of others, as their users install them: made once, then kept in the user's cache."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path


def node_modules_of(folder: Path) -> Path:
    """Return a directory with the packages that a folder's package.json names. Safe to call from several processes."""
    wanted = (folder / "package.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gangline" / "node"
    place = cache / hashlib.sha256(wanted).hexdigest()[:16]
    place.mkdir(parents=True, exist_ok=True)
    with (cache / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            (place / "package.json").write_bytes(wanted)
            install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
            subprocess.run(install, cwd=place, check=True, capture_output=True, timeout=600)
            (place / "complete").touch()
    return place


def environment_with(*packages: str) -> Path:
    """Return the interpreter of an environment that has these packages. Safe to call from several processes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gangline" / "test-venvs"
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / hashlib.sha256(f"{' '.join(packages)} {sys.version}".encode()).hexdigest()[:16]
    with (cache / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            uv = [sys.executable, "-m", "uv"]
            subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(place)], check=True)
            python = ["--python", str(place / "bin" / "python")]
            subprocess.run([*uv, "pip", "install", "--quiet", *python, *packages], check=True)
            (place / "complete").touch()
    return place / "bin" / "python"
