"""A replica's output on disk: stamped lines in numbered files, of which the newest few are kept.

One line is ``<time> <stdout|stderr> <F|P> <text>``; P marks a piece of a line that goes on in the next entry of the
same stream. Lines are stamped by the chunk they arrived in: stamping each on its own would cost more than writing it.
A line that is drawn over, as progress bars are, is kept as a terminal would show it: once a second, and at its end.
Files are numbered upwards and never renamed, so a reader follows by counting.
"""
# ruff: noqa: PTH108, PTH208  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable

LINE_LIMIT = 16 * 1024
REDRAW_NANOS = 1_000_000_000
STREAMS = ("stdout", "stderr")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
"""What moves or colours a terminal."""
_ROUTINE = re.compile(r"\b(?:DEBUG|INFO)\b")
_TRACEBACK = "Traceback (most recent call last):"
_SHOWN = 500


class LogWriter:
    """Writes the output of one replica. A full disk never stops the replica: what does not fit is counted and told."""

    def __init__(
        self, directory: str, name: str, *, file_bytes: int, file_count: int, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._directory = directory
        self._name = name
        self._file_bytes = file_bytes
        self._file_count = file_count
        self._clock_ns = clock_ns
        self._second = -1
        self._second_text = ""
        self._pending = dict.fromkeys(STREAMS, b"")
        self._drawn: dict[str, bytes] = {}
        """What was last written of a line that is being drawn over."""
        self._drawn_at = dict.fromkeys(STREAMS, -REDRAW_NANOS)
        self._lost_bytes = 0
        self._lost_reason = ""
        self._number = 0
        self._descriptor = -1
        self._size = 0

    def open(self) -> None:
        """Make the file, while there is time for it. If that fails, so may the first write, which then tells why."""
        with contextlib.suppress(OSError):
            self._open()

    def feed(self, stream: str, data: bytes) -> None:
        """Write what arrived; an unfinished last line waits for its end."""
        data = self._pending[stream] + data
        cut = data.rfind(b"\n") + 1
        lines, rest = data[:cut], data[cut:]
        whole, part = self._heads(stream)
        if b"\r" in data or stream in self._drawn:
            lines = self._as_seen(stream, lines)
        entries = _stamp(lines[:-1], whole, part) if lines else b""
        if b"\r" in rest:
            entries += self._redrawn(stream, rest, whole)
            rest = _seen(rest) + b"\r" * rest.endswith(b"\r")
        while len(rest) > LINE_LIMIT:
            entries += part + rest[:LINE_LIMIT] + b"\n"
            rest = rest[LINE_LIMIT:]
        self._pending[stream] = rest
        if entries:
            self._write(entries)

    def close(self) -> None:
        """Write unfinished lines and the count of what was lost, and let go of the file."""
        for stream in STREAMS:
            if self._pending[stream]:
                self.feed(stream, b"\n")
        if self._lost_bytes:
            self._write(b"")
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _as_seen(self, stream: str, lines: bytes) -> bytes:
        """Return whole lines as a terminal would show them, without a first one that was written already."""
        if not lines:
            return lines
        seen = [_seen(line) for line in lines.split(b"\n")]
        if seen[0] == self._drawn.pop(stream, None):
            del seen[0]
        return b"\n".join(seen)

    def _redrawn(self, stream: str, rest: bytes, whole: bytes) -> bytes:
        """Return the entry for a line that is being drawn over, if it is time to show it again."""
        seen, now = _seen(rest), self._clock_ns()
        if not seen or seen == self._drawn.get(stream) or now - self._drawn_at[stream] < REDRAW_NANOS:
            return b""
        self._drawn[stream], self._drawn_at[stream] = seen, now
        return whole + seen + b"\n"

    def _heads(self, stream: str) -> tuple[bytes, bytes]:
        """Return how a whole line and a piece of one begin, now."""
        second, nanos = divmod(self._clock_ns(), 1_000_000_000)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        stamp = f"{self._second_text}.{nanos:09d}Z {stream}"
        return f"{stamp} F ".encode(), f"{stamp} P ".encode()

    def _write(self, entries: bytes) -> None:
        try:
            if self._lost_bytes:
                self._append(self._lost_note())
                self._lost_bytes = 0
            while entries:
                room = self._file_bytes - self._size
                if len(entries) <= room:
                    break
                cut = entries.rfind(b"\n", 0, max(room, 0)) + 1
                if not cut and not self._size:
                    cut = entries.find(b"\n") + 1
                self._append(entries[:cut])
                entries = entries[cut:]
                self._next_file()
            self._append(entries)
        except OSError as error:
            self._lost_bytes += len(entries)
            self._lost_reason = error.strerror or str(error)

    def _lost_note(self) -> bytes:
        whole, _ = self._heads("stderr")
        return whole + f"[gangline] {self._lost_bytes} bytes of output were lost: {self._lost_reason}\n".encode()

    def _append(self, entries: bytes) -> None:
        """Append whole entries or none: a write that was cut short is taken back."""
        if not entries:
            return
        if self._descriptor < 0:
            self._open()
        written = 0
        view = memoryview(entries)
        try:
            while written < len(entries):
                written += os.write(self._descriptor, view[written:])
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += written

    def _open(self) -> None:
        self._number = self._number or max(log_numbers(self._directory, self._name), default=1)
        path = log_path(self._directory, self._name, self._number)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _next_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._number += 1
        self._size = 0
        for number in log_numbers(self._directory, self._name):
            if number <= self._number - self._file_count:
                os.unlink(log_path(self._directory, self._name, number))


def log_path(directory: str, name: str, number: int) -> str:
    """Return where the file of that number lies."""
    return f"{directory}/{name}.{number:06d}.log"


def log_numbers(directory: str, name: str) -> list[int]:
    """Return the numbers of a replica's files that are kept, oldest first; none if there is no output."""
    prefix, suffix = f"{name}.", ".log"
    try:
        entries = os.listdir(directory)
    except FileNotFoundError:
        return []  # the job is being deleted while somebody reads
    names = [entry for entry in entries if entry.startswith(prefix) and entry.endswith(suffix)]
    return sorted(int(entry[len(prefix) : -len(suffix)]) for entry in names)


def failure_line(output: bytes) -> str:
    """Return the line of some output that may say why its program failed, as plain text that is safe to show.

    That is the exception of its last traceback, else the last line that is neither a message of its routine nor part of
    something printed as JSON. The Kubernetes engine has the same rule: a keeper imports nothing, and nobody a keeper.
    """
    lines = _ESCAPES.sub("", output.decode(errors="replace")).splitlines()
    said = _raised(lines) or next((line for line in reversed(lines) if _is_telling(line.strip())), "")
    return "".join(sign if sign.isprintable() else " " for sign in said).strip()[:_SHOWN]


def _raised(lines: list[str]) -> str:
    """Return the first line below the frames of the last traceback; some programs write a prefix before every line."""
    headers = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    prefix = lines[headers[-1]].partition(_TRACEBACK)[0] if headers else ""
    behind = lines[headers[-1] + 1 :] if headers else []
    return next((each for each in behind if each.removeprefix(prefix)[:1].strip()), "")


def _is_telling(line: str) -> bool:
    printed = line.startswith('"') or line.endswith(("{", "[", "(")) or not any(sign.isalnum() for sign in line)
    return not printed and _ROUTINE.search(line) is None


def _seen(line: bytes) -> bytes:
    """Return what is to be seen of a line in the end: what follows its last carriage return."""
    line = line.rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :]


def _stamp(lines: bytes, whole: bytes, part: bytes) -> bytes:
    """Turn lines, without the last line's end, into entries."""
    if not _has_long_line(lines):
        return whole + lines.replace(b"\n", b"\n" + whole) + b"\n"
    entries = []
    for line in lines.split(b"\n"):
        start = 0
        while len(line) - start > LINE_LIMIT:
            entries += [part, line[start : start + LINE_LIMIT], b"\n"]
            start += LINE_LIMIT
        entries += [whole, line[start:], b"\n"]
    return b"".join(entries)


def _has_long_line(lines: bytes) -> bool:
    """Jump from line end to line end in strides of the limit: a few steps per megabyte."""
    start = 0
    while len(lines) - start > LINE_LIMIT:
        end = lines.rfind(b"\n", start, start + LINE_LIMIT + 1)
        if end < 0:
            return True
        start = end + 1
    return False
