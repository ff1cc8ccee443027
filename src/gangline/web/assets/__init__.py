"""The files that browsers load: our own style and scripts, and the packages of others that set-up brings beside them.

Every file is read and compressed once. Its address has a digest of its content, so that browsers may keep it.
"""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
VENDOR = _HERE / "vendor"
NEEDED = ("htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css")
"""Packages of others: without them the pages are neither live nor drawn."""
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file."""

    content: bytes
    compressed: bytes
    media_type: str
    digest: str


class Assets:
    """Every file by name."""

    def __init__(self, vendor: Path = VENDOR) -> None:
        files = [*_HERE.iterdir(), *(vendor.iterdir() if vendor.is_dir() else ())]
        self._found = {file.name: _read(file) for file in files if file.suffix in _TYPES}

    @property
    def names(self) -> frozenset[str]:
        """What there is."""
        return frozenset(self._found)

    @property
    def complete(self) -> bool:
        """Whether the packages of others are here."""
        return all(name in self._found for name in NEEDED)

    @property
    def styles(self) -> tuple[str, ...]:
        """The style sheets, ours last."""
        return tuple(name for name in ("uPlot.min.css", "dashboard.css") if name in self._found)

    def get(self, name: str) -> Asset | None:
        """Return a file."""
        return self._found.get(name)

    def address(self, name: str) -> str:
        """Where a browser finds a file."""
        return f"/dashboard/assets/{self._found[name].digest}/{name}"


def _read(file: Path) -> Asset:
    content = file.read_bytes()
    return Asset(
        content=content,
        compressed=gzip.compress(content, mtime=0),
        media_type=_TYPES[file.suffix],
        digest=hashlib.sha256(content).hexdigest()[:12],
    )
