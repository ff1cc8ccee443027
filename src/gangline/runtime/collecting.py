"""Reads numbers out of what a program writes that knows nothing of Gangline: its output, files, event files, a port.

Run before a command (``python collecting.py -- COMMAND``) it starts that, looks while it runs and once more at its end,
and ends as it did. Run beside one (``python collecting.py``) it looks until it is told to stop. What to read is in
``GANGLINE_COLLECTOR``; the numbers go where those of ``gangline.runtime.report`` go.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

VARIABLE = "GANGLINE_COLLECTOR"
READY_VARIABLE = "GANGLINE_COLLECTOR_READY"
"""The file that has something in it once a collector beside a program cannot miss its end."""
_METRICS = "GANGLINE_METRICS"
_DEFAULT_FILTER = r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)"
_LOOK_SECONDS = 0.5
_SCRAPE_SECONDS = 2.0
_READ_BYTES = 1 << 16
_NOT_FOUND, _NOT_RUNNABLE = 127, 126
_STOP_NAMES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_STOP_SIGNALS = tuple(signal.Signals[name] for name in _STOP_NAMES if hasattr(signal, name))

Reading = tuple[str, float]


class Reports:
    """Where numbers go: one line of JSON each, counted by name, since those who wrote them name no steps."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, readings: list[Reading]) -> None:
        """Write numbers down, in their order."""
        with self._lock:
            lines = "".join(self._line(name, value) for name, value in readings)
            if lines and self._path:
                self._append(lines.encode())

    def _append(self, data: bytes) -> None:
        assert self._path is not None
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            sys.stderr.write(f"gangline: metrics cannot be written: {error}\n")

    def _line(self, name: str, value: float) -> str:
        step = self._counts[name] = self._counts.get(name, 0) + 1
        known = value if math.isfinite(value) else None
        return json.dumps({"at": time.time(), "name": name, "value": known, "step": step}) + "\n"


class TextReader:
    """Finds numbers in lines of text."""

    def __init__(self, metrics: list[str], filters: list[str]) -> None:
        self._metrics = frozenset(metrics)
        self._filters = [re.compile(each) for each in filters or [_DEFAULT_FILTER]]

    def read(self, line: str) -> list[Reading]:
        """Return the numbers of a line."""
        if not any(name in line for name in self._metrics):
            return []
        found = (match for each in self._filters for match in each.finditer(line))
        readings = ((match[1].strip(), number_of(match[2])) for match in found)
        return [(name, value) for name, value in readings if name in self._metrics and value is not None]


class JsonReader:
    """Finds numbers in lines of JSON objects."""

    def __init__(self, metrics: list[str]) -> None:
        self._metrics = metrics

    def read(self, line: str) -> list[Reading]:
        """Return the numbers of a line; one that is not an object has none."""
        try:
            found = json.loads(line)
        except ValueError:
            return []
        if not isinstance(found, dict):
            return []
        readings = ((name, number_of(found.get(name))) for name in self._metrics)
        return [(name, value) for name, value in readings if value is not None]


def number_of(value: object) -> float | None:
    """Return a number, however it was written; None for what is not one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except ValueError:
        return None


class FileTail:
    """Reads a file onwards, line by line."""

    def __init__(self, path: str, reader: TextReader | JsonReader) -> None:
        self._path = Path(path)
        self._reader = reader
        self._offset = 0

    def look(self, *, last: bool = False) -> list[Reading]:
        """Return the numbers that were added; an unfinished line waits, unless nothing more will come."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        whole = len(data) if last else data.rfind(b"\n") + 1
        self._offset += whole
        lines = data[:whole].decode(errors="replace").splitlines()
        return [reading for line in lines for reading in self._reader.read(line)]


class EventFiles:
    """Reads TensorFlow's event files below a directory."""

    def __init__(self, directory: str, metrics: list[str]) -> None:
        self._directory = directory
        self._metrics = metrics
        self._offsets: dict[Path, int] = {}

    def look(self, *, last: bool = False) -> list[Reading]:
        """Return the numbers that were added."""
        del last  # a record that is not whole will never be
        found = list[Reading]()
        for folder, _, files in sorted(os.walk(self._directory)):
            for name in sorted(files):
                if "tfevents" in name:
                    found += self._read(Path(folder) / name)
        return found

    def _read(self, path: Path) -> list[Reading]:
        from gangline.runtime.event_files import read_events  # only few trials write event files

        try:
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                scalars, used = read_events(file.read())
        except OSError:
            return []
        self._offsets[path] = self._offsets.get(path, 0) + used
        folder = str(path.parent)
        return [(name, each.value) for each in scalars for name in self._metrics if _is_meant(name, each.tag, folder)]


def _is_meant(metric: str, tag: str, folder: str) -> bool:
    """Whether a tag is a metric: by its name, or by the name of its folder and its beginning, as Katib reads it."""
    parent, _, name = metric.rpartition("/")
    return tag == metric or (tag.startswith(name) and (not parent or folder.endswith(parent)))


class Scraper:
    """Asks a port of the program for its metrics, in the text format of Prometheus."""

    def __init__(self, port: int, path: str, metrics: list[str]) -> None:
        own = os.environ.get("GANGLINE_ADDRESS", "").rpartition(":")[0]
        hosts = dict.fromkeys(filter(None, (own, "127.0.0.1")))
        self._addresses = [f"http://{host}:{port}{path}" for host in hosts]
        self._metrics = frozenset(metrics)
        self._next = 0.0

    def look(self, *, last: bool = False) -> list[Reading]:
        """Return the numbers as they are now, if it is time to ask again; a program that has ended has none."""
        if last or time.monotonic() < self._next:
            return []
        self._next = time.monotonic() + _SCRAPE_SECONDS
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for address in self._addresses:
            try:
                with opener.open(address, timeout=_SCRAPE_SECONDS) as answer:
                    return self._read(answer.read().decode(errors="replace"))
            except (OSError, urllib.error.URLError, ValueError):
                continue
        return []

    def _read(self, text: str) -> list[Reading]:
        found = list[Reading]()
        for line in text.splitlines():
            match = re.match(r"([a-zA-Z_:][\w:.-]*)(?:\{[^}]*\})?\s+(\S+)", line)
            value = number_of(match[2]) if match else None
            if match and value is not None and match[1] in self._metrics:
                found.append((match[1], value))
        return found


Source = FileTail | EventFiles | Scraper


def source_of(order: dict[str, object]) -> Source | None:
    """Return what has to be looked at again and again; None for a program's own output."""
    metrics = [str(each) for each in _items(order.get("metrics"))]
    path = str(order.get("path") or "")
    if order.get("kind") == "File":
        json_lines = order.get("format") == "JSON"
        return FileTail(path, JsonReader(metrics) if json_lines else text_reader(order))
    if order.get("kind") == "TensorFlowEvent":
        return EventFiles(path, metrics)
    if order.get("kind") == "PrometheusMetric":
        return Scraper(int(str(order.get("port"))), path, metrics)
    return None


def text_reader(order: dict[str, object]) -> TextReader:
    """Return the reader of a program's output."""
    return TextReader(
        [str(each) for each in _items(order.get("metrics"))], [str(each) for each in _items(order.get("filters"))]
    )


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def run(command: list[str], order: dict[str, object], reports: Reports) -> int:
    """Run a command, collect what it reports, and return how it ended as ``subprocess`` has it."""
    source = source_of(order)
    piped = subprocess.PIPE if source is None else None
    received: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def hand_on(number: int, _: object) -> None:
        received.append(number)
        if child is not None:
            child.send_signal(number)

    for number in _STOP_SIGNALS:
        signal.signal(number, hand_on)
    try:
        child = subprocess.Popen(command, stdout=piped, stderr=piped)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError) and not Path(command[0]).exists()
        said = "command not found" if missing else f"cannot be run: {error.strerror}"
        sys.stderr.write(f"{said}: '{command[0]}'\n")
        return _NOT_FOUND if missing else _NOT_RUNNABLE
    for early in received[:1]:  # it came before there was anybody to hand it on to
        child.send_signal(early)
    if source is not None:
        return _watch(child, source, reports)
    reader = text_reader(order)
    assert child.stdout is not None
    assert child.stderr is not None
    pumps = [
        threading.Thread(target=_pump, args=(stream.fileno(), target, reader, reports), daemon=True)
        for stream, target in ((child.stdout, 1), (child.stderr, 2))
    ]
    for pump in pumps:
        pump.start()
    code = child.wait()
    for pump in pumps:
        pump.join(timeout=5.0)  # something that it left behind may hold the pipe for as long as it likes
    return code


def _watch(child: subprocess.Popen[bytes], source: Source, reports: Reports) -> int:
    while True:
        try:
            code = child.wait(timeout=_LOOK_SECONDS)
            break
        except subprocess.TimeoutExpired:
            reports.add(source.look())
    reports.add(source.look())
    reports.add(source.look(last=True))
    return code


def _pump(origin: int, target: int, reader: TextReader, reports: Reports) -> None:
    """Hand a stream on as it comes, and read its lines."""
    rest = b""
    while data := os.read(origin, _READ_BYTES):
        _write(target, data)
        *lines, rest = (rest + data).split(b"\n")
        reports.add([each for line in lines for each in reader.read(line.decode(errors="replace"))])
        rest = rest[-_READ_BYTES:]
    reports.add(reader.read(rest.decode(errors="replace")))


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


def until_stopped() -> threading.Event:
    """Take signals from now on, and tell the kubelet that the program may start: its end is not missed any more."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    if ready := os.environ.get(READY_VARIABLE):
        with contextlib.suppress(OSError):
            Path(ready).write_text("ready", encoding="utf-8")
    return stopped


def look_beside(order: dict[str, object], reports: Reports) -> None:
    """Look until a signal comes, and once more then."""
    source, stopped = source_of(order), until_stopped()
    if order.get("kind") == "Push":
        from gangline.runtime.pushed_metrics import PORT, serve_until  # only few trials push, and it needs gRPC

        serve_until(stopped, reports.add, int(str(order.get("port") or PORT)))
    while source is not None and not stopped.wait(_LOOK_SECONDS):
        reports.add(source.look())
    if source is not None:
        reports.add(source.look())
        reports.add(source.look(last=True))


def main(arguments: list[str]) -> None:
    """Begin with what the environment says."""
    order = json.loads(os.environ.get(VARIABLE) or "{}")
    reports = Reports(os.environ.get(_METRICS))
    if arguments[:1] != ["--"]:
        look_beside(order, reports)
        return
    if ":" in (copied := os.environ.get("GANGLINE_COPY", "")):
        origin, _, target = copied.partition(":")
        shutil.copytree(origin, target, dirs_exist_ok=True)
    code = run(arguments[1:], order, reports)
    if code < 0:
        # Whoever started us reads from our end how the program ended.
        with contextlib.suppress(OSError):  # two signals are never handled
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
