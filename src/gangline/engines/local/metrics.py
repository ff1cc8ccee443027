"""Reading the metrics that training code appends to its file, one line of JSON each."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gangline.model import JobId, Metric, ReplicaId, Timestamp

_READ_BYTES = 1 << 20
_MOST_STEPS = 2**63 - 1
"""What a database can count to; a larger step is no step."""
_LAST_SECOND = 253402300799.0
"""The end of the year 9999, where calendars end; a later time was written in other units than seconds."""


class MetricLine(msgspec.Struct, frozen=True):
    """One line as training code writes it. A value that is not a number is null."""

    at: float
    name: str
    value: float | None
    step: int | None = None


class MetricTail:
    """Reads one replica's file onwards. A new one begins at the start: the store keeps one of two equal metrics."""

    def __init__(self, path: Path, job_id: JobId, replica: ReplicaId) -> None:
        self._path = path
        self._job_id = job_id
        self._replica = replica
        self._offset = 0

    def read(self) -> Iterator[Metric]:
        """Return what was appended since; an unfinished line waits, one that cannot be read is passed over."""
        while True:
            try:
                with self._path.open("rb") as file:
                    file.seek(self._offset)
                    data = file.read(_READ_BYTES)
            except FileNotFoundError:
                return
            whole = data.rfind(b"\n") + 1
            if not whole:
                # A line longer than what is read at once is no metric; step over it, or nothing would follow.
                self._offset += len(data) if len(data) == _READ_BYTES else 0
                return
            self._offset += whole
            for line in data[:whole].splitlines():
                if (metric := self._metric(line)) is not None:
                    yield metric

    def _metric(self, line: bytes) -> Metric | None:
        try:
            found = msgspec.json.decode(line, type=MetricLine)
        except (msgspec.DecodeError, msgspec.ValidationError):
            return None
        if found.value is None or (found.step is not None and abs(found.step) > _MOST_STEPS):
            return None
        if not 0 <= found.at <= _LAST_SECOND:
            return None
        return Metric(
            job_id=self._job_id,
            replica=self._replica,
            name=found.name,
            value=found.value,
            step=found.step,
            at=Timestamp(found.at),
        )
