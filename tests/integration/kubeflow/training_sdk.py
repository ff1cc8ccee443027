"""The Kubeflow Training SDK as its users install it, in an environment of its own, and what they do with it."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

SDK = "kubeflow-training==1.9.4"
SCENARIOS = Path(__file__).with_name("sdk_scenarios.py")


def sdk_environment() -> Path:
    """Return the interpreter of an environment that has the SDK (33 MB, made once in a few seconds, then cached)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gangline" / "test-venvs"
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / hashlib.sha256(f"{SDK} {sys.version}".encode()).hexdigest()[:16]
    with (cache / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            uv = [sys.executable, "-m", "uv"]
            subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(place)], check=True)
            python = ["--python", str(place / "bin" / "python")]
            subprocess.run([*uv, "pip", "install", "--quiet", *python, SDK], check=True)
            (place / "complete").touch()
    return place / "bin" / "python"
