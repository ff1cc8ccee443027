"""Room set aside for the time when the disk is full: to stop and delete jobs then, records must still be written."""

import contextlib
import os
import time
from pathlib import Path

_MOST_BYTES = 8 << 20
_LEAST_BYTES = 256 << 10
"""Enough to end a few jobs; less would be of no use."""
_SHARE = 8
"""One part in this many of what the disk has left is set aside, so that it takes nobody's last."""
_RETRY_SECONDS = 30.0


class Reserve:
    """A file that holds nothing but room."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = path.exists()
        self._tried_at = -_RETRY_SECONDS

    def keep(self) -> bool:
        """Set the room aside if it is not, and if the disk has enough; True if that was done now."""
        now = time.monotonic()
        if self._kept or now - self._tried_at < _RETRY_SECONDS:
            return False
        self._tried_at = now
        with contextlib.suppress(OSError):
            disk = os.statvfs(self._path.parent)
            size = min(disk.f_bavail * disk.f_frsize // _SHARE, _MOST_BYTES)
            if size >= _LEAST_BYTES:
                with self._path.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, size)
                self._kept = True
        return self._kept

    def release(self) -> None:
        """Let go of the room."""
        self._path.unlink(missing_ok=True)
        self._kept = False
        self._tried_at = time.monotonic()
