"""Small disks that can be filled, and given room again."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount a disk of that size in memory; skips the test where that is not permitted."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk: Path) -> None:
    """Leave no room at all."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass


def enlarge(disk: Path, size: str) -> None:
    """Make room."""
    subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)
