"""Reading kept output: merged by time, from the end, from a moment on, and onwards as it grows.

Files are numbered upwards and never renamed; a reader that comes to the end of one looks whether the next is there.
"""

import asyncio
import calendar
import heapq
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path

from gangline.engines.interface import LogQuery
from gangline.engines.local.keeper.output import log_numbers, log_path
from gangline.model import LogLine, ReplicaId, Stream, Timestamp

_ENTRY = re.compile(rb"(\S{30}) (stdout|stderr) ([FP]) (.*)", re.DOTALL)
_BLOCK_BYTES = 1 << 18
_BATCH_LINES = 2000
_POLL_SECONDS = 0.05


class ReplicaLog:
    """Reads one replica's output onwards from where it stands."""

    def __init__(self, directory: Path, replica: ReplicaId, attempt: int) -> None:
        self._directory = str(directory)
        self._name = str(replica)
        self._replica = replica
        self._attempt = attempt
        self._number = 0
        self._offset = 0
        self._pieces: dict[bytes, list[bytes]] = {b"stdout": [], b"stderr": []}
        self._end: tuple[int, int] | None = None

    def stop_at_end(self) -> None:
        """Read no further than what is there now: a replica that writes fast would never be read to its end."""
        number = max(log_numbers(self._directory, self._name), default=0)
        try:
            self._end = number, Path(log_path(self._directory, self._name, number)).stat().st_size
        except FileNotFoundError:
            self._end = number, 0

    def go_to_tail(self, lines: int) -> None:
        """Stand before the last ``lines`` lines, reading backwards only as far as needed."""
        wanted = lines
        for number in reversed(log_numbers(self._directory, self._name)):
            if self._end is not None and number > self._end[0]:
                continue
            self._number = number
            end = self._end[1] if self._end is not None and number == self._end[0] else None
            found, self._offset = _tail_offset(Path(log_path(self._directory, self._name, number)), wanted, end)
            wanted -= found
            if wanted <= 0:
                return

    def go_to_time(self, since: Timestamp) -> None:
        """Stand before the first file that can hold a line of that time."""
        numbers = log_numbers(self._directory, self._name)
        for number, following in pairwise(numbers):
            first = _first_time(Path(log_path(self._directory, self._name, following)))
            if first is None or first > since:
                self._number = number
                return
            self._number = following

    def lines(self) -> Iterator[LogLine]:
        """Return what is there from here on."""
        while True:
            # Asked before reading: only a file that has a successor already will not grow any more.
            later = [number for number in log_numbers(self._directory, self._name) if number > self._number]
            for block in self._blocks():
                for entry in block.split(b"\n")[:-1]:
                    if (line := self._line(entry)) is not None:
                        yield line
            if not later or (self._end is not None and later[0] > self._end[0]):
                return
            self._number, self._offset = later[0], 0

    def _blocks(self) -> Iterator[bytes]:
        """Return whole lines of the present file, block by block."""
        path = Path(log_path(self._directory, self._name, self._number))
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return  # rotated away, or the job was deleted
        with file:
            while True:
                file.seek(self._offset)
                block = file.read(self._next_bytes())
                whole = block.rfind(b"\n") + 1
                if not whole:
                    return
                self._offset += whole
                yield block[:whole]

    def _next_bytes(self) -> int:
        if self._end is None or self._number < self._end[0]:
            return _BLOCK_BYTES
        return min(_BLOCK_BYTES, max(0, self._end[1] - self._offset))

    def _line(self, entry: bytes) -> LogLine | None:
        match = _ENTRY.fullmatch(entry)
        if match is None:
            return None
        stamp, stream, kind, text = match.groups()
        pieces = self._pieces[stream]
        if kind == b"P":
            pieces.append(text)
            return None
        if pieces:
            text = b"".join([*pieces, text])
            pieces.clear()
        return LogLine(
            replica=self._replica,
            attempt=self._attempt,
            at=_parse_time(stamp),
            stream=Stream(stream.decode()),
            text=text.decode(errors="replace"),
        )


async def read_logs(directory: Path, query: LogQuery, attempt: int) -> AsyncIterator[LogLine]:
    """Read what is kept at this moment."""
    logs = _open_logs(directory, query, attempt, {}, onwards=False)
    async for line in _in_batches(_merged(logs, query.since)):
        yield line


async def follow_logs(
    directory: Path, query: LogQuery, attempt: int, *, over: Callable[[], bool]
) -> AsyncIterator[LogLine]:
    """Read what is kept and what is added, until the attempt is over and all is read."""
    known: dict[str, ReplicaLog] = {}
    while True:
        # Asked before reading: what is written up to the end of the attempt is read after it is known to be over.
        last = over()
        logs = _open_logs(directory, query, attempt, known, onwards=True)
        async for line in _in_batches(_merged(logs, query.since)):
            yield line
        if last:
            return
        await asyncio.sleep(_POLL_SECONDS)


def _open_logs(
    directory: Path, query: LogQuery, attempt: int, known: dict[str, ReplicaLog], *, onwards: bool
) -> Iterable[ReplicaLog]:
    """Open the logs the query asks for; those in ``known`` go on from where they stand."""
    try:
        names = {entry.name.partition(".")[0] for entry in directory.iterdir()}
    except FileNotFoundError:
        names = set()  # nothing was written yet, or the job was deleted
    for name in sorted(names):
        replica = ReplicaId.parse(name)
        if name in known or query.role not in (None, replica.role) or query.index not in (None, replica.index):
            continue
        log = known[name] = ReplicaLog(directory, replica, attempt)
        if not onwards:
            log.stop_at_end()
        if query.tail is not None:
            log.go_to_tail(query.tail)
        elif query.since is not None:
            log.go_to_time(query.since)
    return known.values()


def _merged(logs: Iterable[ReplicaLog], since: Timestamp | None) -> Iterator[LogLine]:
    lines = heapq.merge(*(log.lines() for log in logs), key=lambda line: line.at)
    return (line for line in lines if since is None or line.at >= since)


async def _in_batches(lines: Iterator[LogLine]) -> AsyncIterator[LogLine]:
    """Read in a thread, some lines at a time: the event loop never waits for a disk."""
    while batch := await asyncio.to_thread(lambda: list(islice(lines, _BATCH_LINES))):
        for line in batch:
            yield line


def _tail_offset(path: Path, lines: int, end: int | None = None) -> tuple[int, int]:
    """Return how many of the last ``lines`` lines before ``end`` the file holds, and where the first of them begins."""
    found = 0
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return 0, 0
    with file:
        end = file.seek(0, 2) if end is None else end
        tail = b""
        while end > 0 and found <= lines:
            start = max(0, end - _BLOCK_BYTES)
            file.seek(start)
            tail = file.read(end - start) + tail
            end = start
            starts = _line_starts(tail, at_file_start=start == 0)
            found = len(starts)
            if found > lines or (found == lines and start == 0):
                return lines, end + starts[-lines] if lines else end + len(tail)
    return found, 0


def _line_starts(text: bytes, *, at_file_start: bool) -> list[int]:
    """Return where lines begin. The pieces of one long line count as one line."""
    starts = []
    position = 0 if at_file_start else text.find(b"\n") + 1
    after_piece: dict[bytes, bool] = {}
    while 0 <= position < len(text):
        stream, piece = text[position + 31 : position + 37], text[position + 38 : position + 39] == b"P"
        if not after_piece.get(stream):
            starts.append(position)
        after_piece[stream] = piece
        position = text.find(b"\n", position) + 1 or -1
    return starts


def _first_time(path: Path) -> Timestamp | None:
    try:
        with path.open("rb") as file:
            stamp = file.read(30)
    except FileNotFoundError:
        return None
    return _parse_time(stamp) if len(stamp) == 30 else None


@lru_cache(maxsize=64)
def _parse_time(stamp: bytes) -> Timestamp:
    """Read ``2026-01-31T12:00:00.123456789Z``. Lines of one chunk share a stamp, so most answers are remembered."""
    seconds = calendar.timegm(time.strptime(stamp[:19].decode(), "%Y-%m-%dT%H:%M:%S"))
    return Timestamp(seconds + int(stamp[20:29]) / 1e9)
