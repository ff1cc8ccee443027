"""What a model server counts, in the text that Prometheus reads, summed over its worker processes.

prometheus_client keeps what several processes count in shared memory, at 30 microseconds a request: a fifth of what a
small model takes. Here a worker counts in its own memory and writes the sums to its own file twice a second; whoever is
asked adds up the files, those of dead workers included, so that no sum ever falls.
"""

import os
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Histogram(msgspec.Struct):
    """How often values fell into each bucket; the last is for what exceeds all bounds."""

    counts: list[int]
    total: float = 0.0

    def add(self, value: float, bounds: Sequence[float]) -> None:
        """Count a value."""
        self.counts[bisect_left(bounds, value)] += 1
        self.total += value


class Sums(msgspec.Struct):
    """Everything that one worker counted. Keys are joined by the character 0, which names cannot have."""

    requests: dict[str, int] = msgspec.field(default_factory=dict)
    seconds: dict[str, Histogram] = msgspec.field(default_factory=dict)
    rows: dict[str, Histogram] = msgspec.field(default_factory=dict)
    calls: dict[str, Histogram] = msgspec.field(default_factory=dict)


class VersionCounters:
    """What one version of a model is asked and does."""

    __slots__ = ("_calls", "_key", "_requests", "_rows", "_seconds")

    def __init__(self, sums: Sums, model: str, version: str) -> None:
        self._key = f"{model}\0{version}"
        self._requests = sums.requests
        self._seconds = _histogram(sums.seconds, self._key, _SECONDS)
        self._rows = _histogram(sums.rows, self._key, _ROWS)
        self._calls = _histogram(sums.calls, self._key, _SECONDS)

    def answered(self, status: int, began: float) -> None:
        """Count an answer; began is of time.perf_counter."""
        key = f"{self._key}\0{status}"
        self._requests[key] = self._requests.get(key, 0) + 1
        self._seconds.add(time.perf_counter() - began, _SECONDS)

    def ran(self, rows: int, seconds: float) -> None:
        """Count a call of the model."""
        self._rows.add(rows, _ROWS)
        self._calls.add(seconds, _SECONDS)


@dataclass(slots=True)
class Counters:
    """The counters of one worker."""

    folder: Path | None = None
    _sums: Sums = field(default_factory=Sums)

    def of(self, model: str, version: str) -> VersionCounters:
        """Return the counters of one version of a model."""
        return VersionCounters(self._sums, model, version)

    def save(self) -> None:
        """Write the sums where the other workers find them."""
        if self.folder is not None:
            file = self.folder / f"{os.getpid()}.json"
            new = file.with_suffix(".new")
            new.write_bytes(msgspec.json.encode(self._sums))
            new.replace(file)

    def text(self) -> bytes:
        """Write what all workers counted."""
        self.save()
        files = [self._sums] if self.folder is None else [_read(file) for file in self.folder.glob("*.json")]
        return "".join(f"{line}\n" for line in _lines(_added(files))).encode()


def _histogram(found: dict[str, Histogram], key: str, bounds: Sequence[float]) -> Histogram:
    if key not in found:
        found[key] = Histogram([0] * (len(bounds) + 1))
    return found[key]


def _read(file: Path) -> Sums:
    return msgspec.json.decode(file.read_bytes(), type=Sums)


def _added(parts: Sequence[Sums]) -> Sums:
    whole = Sums()
    for part in parts:
        for key, count in part.requests.items():
            whole.requests[key] = whole.requests.get(key, 0) + count
        for name in ("seconds", "rows", "calls"):
            _add_histograms(getattr(whole, name), getattr(part, name))
    return whole


def _add_histograms(whole: dict[str, Histogram], part: Mapping[str, Histogram]) -> None:
    for key, found in part.items():
        have = whole.get(key, Histogram([0] * len(found.counts)))
        counts = [one + other for one, other in zip(have.counts, found.counts, strict=True)]
        whole[key] = Histogram(counts, have.total + found.total)


def _lines(sums: Sums) -> Iterator[str]:
    yield from _head("gangline_serve_requests_total", "counter", "Requests answered.")
    for key, count in sorted(sums.requests.items()):
        model, version, status = key.split("\0")
        yield f"gangline_serve_requests_total{_labels(model=model, version=version, status=status)} {count}"
    described = (
        ("request_seconds", "Seconds from a request to its answer.", sums.seconds, _SECONDS),
        ("batch_rows", "Rows in one call of the model.", sums.rows, _ROWS),
        ("call_seconds", "Seconds of one call of the model.", sums.calls, _SECONDS),
    )
    for name, help_text, histograms, bounds in described:
        yield from _head(f"gangline_serve_{name}", "histogram", help_text)
        for key, histogram in sorted(histograms.items()):
            yield from _histogram_lines(f"gangline_serve_{name}", key, histogram, bounds)


def _head(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _histogram_lines(name: str, key: str, histogram: Histogram, bounds: Sequence[float]) -> Iterator[str]:
    model, version = key.split("\0")
    below = 0
    for bound, count in zip((*bounds, "+Inf"), histogram.counts, strict=True):
        below += count
        yield f"{name}_bucket{_labels(model=model, version=version, le=str(bound))} {below}"
    yield f"{name}_sum{_labels(model=model, version=version)} {histogram.total}"
    yield f"{name}_count{_labels(model=model, version=version)} {below}"


def _labels(**values: str) -> str:
    escaped = {
        name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, value in values.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
