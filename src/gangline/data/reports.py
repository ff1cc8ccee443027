"""What a mover tells of its work while it does it: how far it is, and the digests of what it has moved.

One JSON document, which replaces the one before: in a file beside the order of an attempt here, as a line of a mover's
output on a cluster. Every engine reads it with ``engines.transfer_report``.
"""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from .progress import Meter, Progress

REPORT_FILE = "transfers.json"
_TELL_SECONDS = 1.0


class Reporter:
    """Tells of the moves of one stage, the inputs or the outputs: every second, and at the end of each.

    By the clock and not by what arrives: of a transfer that stands still, that is what has to be told.
    """

    def __init__(self, stage: str, moves: int, write: Callable[[str], None]) -> None:
        self._stage, self._moves, self._write = stage, moves, write
        self._done: list[tuple[str, str]] = []
        self._telling = threading.Lock()
        self._closed = threading.Event()
        self.meter = Meter()
        threading.Thread(target=self._tell_forever, daemon=True).start()

    def close(self) -> None:
        """Tell nothing more: what follows is to be the last that is heard."""
        with self._telling:
            self._closed.set()

    def moved(self, address: str, digest: str) -> None:
        """Note what lay, or lies now, at an address."""
        self._done.append((address, digest))
        self._tell()

    def _tell_forever(self) -> None:
        while not self._closed.wait(_TELL_SECONDS):
            self._tell()

    def _tell(self) -> None:
        with self._telling:
            if not self._closed.is_set():
                self._write(self.report())

    def report(self) -> str:
        """Say how far it is now, and what was moved."""
        now = self.meter.measure()
        progress = {name: getattr(now, name) for name in Progress.__slots__}
        progress |= {"move": min(len(self._done) + 1, self._moves), "moves": self._moves}
        moved = [{"address": address, "digest": digest} for address, digest in self._done]
        return json.dumps({"stage": self._stage, "progress": progress, "moved": moved})


def write_to(folder: Path) -> Callable[[str], None]:
    """Return what keeps the newest report in a folder, whole or not at all."""
    file, draft = folder / REPORT_FILE, folder / f"{REPORT_FILE}.draft"

    def write(report: str) -> None:
        # A disk that is full has no room for news of it, and the transfer itself will say so.
        try:
            draft.write_text(report, encoding="utf-8")
            os.replace(draft, file)  # noqa: PTH105  # pathlib does the same with more calls
        except OSError:
            draft.unlink(missing_ok=True)

    return write
