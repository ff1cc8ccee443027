"""Reading the metrics that training code appends to its file, one line of JSON each."""

from collections.abc import Iterator
from pathlib import Path

from gangline.engines.local.system_users import open_file
from gangline.engines.metric_line import read_metric
from gangline.model import JobId, Metric, ReplicaId

_READ_BYTES = 1 << 20


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
                with open_file(self._path) as file:
                    file.seek(self._offset)
                    data = file.read(_READ_BYTES)
            except OSError:
                return
            whole = data.rfind(b"\n") + 1
            if not whole:
                # A line longer than what is read at once is not a metric; step over it, or nothing would follow.
                self._offset += len(data) if len(data) == _READ_BYTES else 0
                return
            self._offset += whole
            for line in data[:whole].splitlines():
                if (metric := read_metric(line, self._job_id, self._replica)) is not None:
                    yield metric
