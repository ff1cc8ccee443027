"""Reads what a job's program writes in forms of its own, and adds it to the metrics of the lead replica.

The local engine does it itself, and keeps how far each file was read beside the metrics, so that its next life goes on
from there. In a pod, a container beside the program does (``gangline.engines.collecting.beside``).
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gangline.engines.collecting.records import Found
from gangline.engines.collecting.tensorboard import read_events
from gangline.engines.collecting.text_lines import PatternReader, read_record
from gangline.engines.local.system_users import open_file
from gangline.model import Clock
from gangline.model.jobs.metric_source import MetricFormat, MetricSource

_READ_BYTES = 1 << 20


class MetricCollector:
    """The sources of one attempt. ``target`` is where the engine reads metrics from, ``state`` keeps how far it is."""

    def __init__(self, sources: Sequence[MetricSource], target: Path, clock: Clock, state: Path | None = None) -> None:
        self._clock = clock
        self._sources = sources
        self._target = target
        self._state = state
        self._offsets: dict[str, int] = self._known()
        self._readers = {place: PatternReader(each) for place, each in enumerate(sources) if each.pattern}

    def read(self, *, last: bool = False) -> None:
        """Add what was written since the last time; at the ``last`` one all of it, lines that have no end too."""
        more = True
        while more:
            before = dict(self._offsets)
            self._read(last=last)
            more = last and self._offsets != before

    def _read(self, *, last: bool) -> None:
        lines = []
        for place, source in enumerate(self._sources):
            for file, folder in _files(source):
                for found in self._new(place, source, file, last=last):
                    name = f"{folder}/{found.name}" if folder else found.name
                    at = self._clock.now() if found.at is None else found.at
                    value = found.value if math.isfinite(found.value) else None
                    lines.append(json.dumps({"at": at, "name": name, "value": value, "step": found.step}))
        if lines:
            with self._target.open("a", encoding="utf-8") as file_of_metrics:
                file_of_metrics.write("".join(f"{line}\n" for line in lines))
            if self._state is not None:
                self._state.write_text(json.dumps(self._offsets), encoding="utf-8")

    def _new(self, place: int, source: MetricSource, file: Path, *, last: bool) -> Iterator[Found]:
        key = f"{place}:{file}"
        offset = self._offsets.get(key, 0)
        try:
            with open_file(file) as stream:
                stream.seek(offset)
                data = stream.read(_READ_BYTES)
        except OSError:
            return
        if source.format is MetricFormat.TENSORBOARD:
            found, used = read_events(data)
            yield from found
        else:
            used = len(data) if last and len(data) < _READ_BYTES else data.rfind(b"\n") + 1
            yield from self._text(place, data[:used].decode(errors="replace").splitlines(keepends=True))
        # A record longer than what is read at once is none of ours; step over it, or nothing would follow.
        self._offsets[key] = offset + (used or (len(data) if len(data) == _READ_BYTES else 0))

    def _text(self, place: int, lines: Iterable[str]) -> Iterator[Found]:
        reader = self._readers.get(place)
        for line in lines:
            yield from read_record(line) if reader is None else reader.read(line)

    def _known(self) -> dict[str, int]:
        if self._state is None:
            return {}
        try:
            known: Mapping[str, int] = json.loads(self._state.read_bytes())
        except (OSError, ValueError):
            return {}
        return dict(known)


def _files(source: MetricSource) -> Iterator[tuple[Path, str]]:
    """The files of a source, each with the folder that it lies in below that of the source."""
    root = Path(source.path)
    if source.format is not MetricFormat.TENSORBOARD or root.is_file():
        yield root, ""
        return
    for file in sorted(root.rglob("*tfevents*")):
        folder = file.parent.relative_to(root)
        yield file, "" if str(folder) == "." else str(folder)
