"""Writes checkpoints to the address where another machine finds them, in the background."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from gangline.runtime.errors import MirrorError

if TYPE_CHECKING:
    from gangline.runtime.checkpoint_address import CheckpointPlace


class Mirror:
    """What one rank has written to a place; ``to`` is how that is called."""

    def __init__(self, to: str, place: CheckpointPlace) -> None:
        self._to = to
        self.place = place
        self._changed = threading.Condition()
        self._pending: tuple[int, Path] | None = None
        self._writing: Path | None = None
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def offer(self, step: int, path: Path) -> None:
        """Have a finished checkpoint written in the background. One that waits gives way to a newer one."""
        with self._changed:
            self._pending = (step, path)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="checkpoint mirror", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def needs(self, path: Path) -> bool:
        """Whether a local checkpoint must stay because it is being written, or will be."""
        with self._changed:
            return path == self._writing or (self._pending is not None and self._pending[1] == path)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until everything is written; False if that takes longer. Raises MirrorError if the last one failed."""
        with self._changed:
            idle = self._changed.wait_for(lambda: self._pending is None and self._writing is None, timeout)
            if idle and self._failure is not None:
                raise MirrorError(self._to, str(self._failure)) from self._failure
        return idle

    def finish(self) -> None:
        """Write what waits before the program ends; what cannot be written was told on standard error."""
        with contextlib.suppress(MirrorError):
            self.wait()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending is not None)
                assert self._pending is not None
                (step, path), self._pending = self._pending, None
                self._writing = path
            failure = None
            try:
                self.place.write(step, path, self._has_newer)
            except Exception as error:  # noqa: BLE001  # training goes on; the next checkpoint is tried anew
                failure = error
                sys.stderr.write(f"checkpoint {step} is not at {self._to}: {error}\n")
            with self._changed:
                self._writing, self._failure = None, failure
                self._changed.notify_all()

    def _has_newer(self) -> bool:
        """Whether another one waits, which makes the one before it moot: some rank went on without it."""
        with self._changed:
            return self._pending is not None
