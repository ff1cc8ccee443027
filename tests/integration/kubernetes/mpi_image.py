"""An image with Open MPI, made from this machine's packages on top of the Python image; it has no sshd."""

import re
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tools.cluster import python_image
from tools.cluster.images import Entry, Image
from tools.debian import require_program

NAME = "gangline.local/openmpi:1"
_PACKAGES = ("openmpi-bin", "openmpi-common", "libopenmpi3")
_UNNEEDED = ("/usr/share/doc", "/usr/share/man", "/usr/share/lintian")


def mpi_image() -> Image:
    """Describe the image."""
    mpirun = Path(require_program("mpirun", "openmpi-bin"))
    below = python_image()
    entries = {str(file).lstrip("/"): _entry(file) for file in _package_files()}
    entries["usr/bin/mpirun"] = Entry(source=mpirun.resolve(), mode=0o755)
    entries |= {
        str(file).lstrip("/"): Entry(source=file.resolve(), mode=0o755) for file in _libraries(entries.values())
    }
    brought = {path for layer in below.layers for path in layer}
    layer = {path: entry for path, entry in entries.items() if path not in brought}
    return replace(below, name=NAME, layers=[*below.layers, layer])


def _package_files() -> list[Path]:
    listing = subprocess.run(["dpkg", "-L", *_PACKAGES], capture_output=True, text=True, check=True).stdout
    files = [Path(line) for line in listing.splitlines() if line.startswith("/") and not line.startswith(_UNNEEDED)]
    return [file for file in files if file.is_file()]


def _entry(file: Path) -> Entry:
    return Entry(source=file.resolve())


def _libraries(entries: Iterable[Entry]) -> list[Path]:
    binaries = sorted({str(entry.source) for entry in entries if entry.source is not None and _is_binary(entry.source)})
    listing = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    return [Path(path) for path in sorted(set(re.findall(r"=> (/\S+) \(", listing)))]


def _is_binary(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"\x7fELF"
