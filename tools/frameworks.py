"""An environment with TensorFlow, PyTorch, JAX and mpi4py, for tests and benchmarks that train with the real ones.

    python -m tools.frameworks        make it if need be, and print the path of its Python

It is large, so it is announced, made once for each version of its lock file, and kept in the user's cache.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]
LOCK = PROJECT / "requirements" / "frameworks.lock"
ANNOUNCEMENT = """\
making the frameworks' environment: TensorFlow, PyTorch, JAX, mpi4py
  about 3 GB to download and 7 GB of disk; two to four minutes, once
  in {place}
"""


def cache_directory() -> Path:
    """Where environments are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gangline" / "frameworks"


def frameworks_python() -> Path:
    """The interpreter of the environment, which is made first if need be. Safe to call from several processes."""
    digest = hashlib.sha256(f"{LOCK.read_text()} {sys.version} {PROJECT}".encode()).hexdigest()[:16]
    place = cache_directory() / digest
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f"{digest}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            _make(place)
    return place / "bin" / "python"


def _make(place: Path) -> None:
    sys.stderr.write(ANNOUNCEMENT.format(place=place))
    began = time.monotonic()
    shutil.rmtree(place, ignore_errors=True)
    uv = [sys.executable, "-m", "uv"]
    python = ["--python", str(place / "bin" / "python")]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(place)], check=True)
    # Compiled now: where the packages are mounted read-only, every start would compile them anew.
    sync = ["pip", "sync", "--quiet", "--compile-bytecode", "--require-hashes"]
    subprocess.run([*uv, *sync, *python, str(LOCK)], check=True)
    # Gangline itself, for programs that use its parameter server: what it needs is in the lock file already.
    packages = next((place / "lib").glob("python*/site-packages"))
    (packages / "gangline.pth").write_text(f"{PROJECT / 'src'}\n")
    (place / "complete").touch()
    sys.stderr.write(f"  made in {time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    sys.stdout.write(f"{frameworks_python()}\n")
