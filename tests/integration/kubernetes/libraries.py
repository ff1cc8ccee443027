"""Libraries of the system that compiled packages of Python need, for images that are put together here."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.cluster.images import Entry, Image

SYSTEM_LIBRARIES = frozenset(
    f"lib{name}"
    for name in ("stdc++.so.6", "gcc_s.so.1", "gomp.so.1", "rt.so.1", "dl.so.2", "pthread.so.0", "util.so.1", "z.so.1")
)


def system_libraries(below: Image) -> dict[str, Entry]:
    """Return the files of those that an image does not have yet, as entries of a layer."""
    brought = {Path(path).name for layer in below.layers for path in layer}
    return {
        str(file).lstrip("/"): Entry(source=file.resolve(), mode=0o755)
        for file in _installed()
        if file.name not in brought
    }


def _installed() -> Sequence[Path]:
    listing = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^\s*(\S+) .*=> (/\S+)$", listing, re.MULTILINE)
    return [Path(path) for name, path in dict(reversed(found)).items() if name in SYSTEM_LIBRARIES]
