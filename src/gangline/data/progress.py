"""How far a transfer is, as a value, and the meter that makes such values."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_WINDOW_SECONDS = 10.0
_TELL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Bytes and files that have arrived out of all that will; the rate is that of the last ten seconds."""

    moved_bytes: int
    total_bytes: int
    moved_files: int
    total_files: int
    bytes_per_second: float

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate; None while nobody knows."""
        left = self.total_bytes - self.moved_bytes
        if left <= 0:
            return 0.0
        return left / self.bytes_per_second if self.bytes_per_second > 0 else None


Listener = Callable[[Progress], None]


class Meter:
    """Counts what many threads move, and tells a listener twice a second at most, and at the end."""

    def __init__(self, listener: Listener | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._listener = listener
        self._clock = clock
        self._lock = threading.Lock()
        self._bytes = self._files = self._total_bytes = self._total_files = 0
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._told_at = float("-inf")
        self.digest = ""
        """What tells the content that was moved last from any other; empty if nobody knows."""

    def expect(self, total_bytes: int, total_files: int) -> None:
        """Add to what will be moved."""
        with self._lock:
            self._total_bytes += total_bytes
            self._total_files += total_files

    def add(self, moved_bytes: int, files: int = 0) -> None:
        """Count bytes, which are negative where something is moved again, and finished files."""
        with self._lock:
            self._bytes += moved_bytes
            self._files += files
            now = self._clock()
            if now - self._told_at < _TELL_SECONDS:
                return
            self._told_at = now
            progress = self._measure(now)
        if self._listener is not None:
            self._listener(progress)

    def finish(self) -> None:
        """Tell the end."""
        progress = self.measure()
        if self._listener is not None:
            self._listener(progress)

    def measure(self) -> Progress:
        """How far it is now."""
        with self._lock:
            return self._measure(self._clock())

    def _measure(self, now: float) -> Progress:
        self._samples.append((now, self._bytes))
        while len(self._samples) > 2 and now - self._samples[0][0] > _WINDOW_SECONDS:
            self._samples.popleft()
        since, before = self._samples[0]
        return Progress(
            moved_bytes=self._bytes,
            total_bytes=self._total_bytes,
            moved_files=self._files,
            total_files=self._total_files,
            bytes_per_second=max(self._bytes - before, 0) / (now - since) if now > since else 0.0,
        )
