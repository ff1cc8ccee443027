"""Following a job's output through a restart of the service, so that no line is lost and none comes twice."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from gangline.errors import NotFoundError
from gangline.model import Job, LogLine, Phase, ReplicaId, Timestamp
from gangline.sdk.exchange import Exchange, query_of
from gangline.wire import iso

_DISORDER_SECONDS = 60.0
"""Lines of different replicas reach us out of the order of their times by less than this."""
_ALWAYS = Timestamp(0.0)
"""Before the first line of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Which output is wanted: what ``Client.logs`` is asked for, and ``path``, where it is."""

    path: tuple[str, ...]
    role: str | None = None
    index: int | None = None
    attempt: int | None = None
    since: Timestamp | None = None
    tail: int | None = None

    def read(self, exchange: Exchange, *, follow: bool) -> Iterator[LogLine]:
        """Return the lines, oldest first."""
        query = query_of(
            role=self.role,
            index=self.index,
            attempt=self.attempt,
            since=None if self.since is None else iso(self.since),
            tail=self.tail,
            follow=follow,
        )
        return exchange.follow(LogLine, self.path, query)


class LogMarks:
    """How far each replica's output has been read: the time of its last line, and how many lines bear that time."""

    def __init__(self) -> None:
        self._marks: dict[tuple[int, ReplicaId], tuple[Timestamp, int]] = {}

    @property
    def last_attempt(self) -> int:
        """The newest attempt of which a line was read; 0 before the first."""
        return max((attempt for attempt, _ in self._marks), default=0)

    @property
    def oldest(self) -> Timestamp | None:
        """A time before which nothing unread can lie; None if nothing was read."""
        last = self.last_attempt
        times = [at for (attempt, _), (at, _) in self._marks.items() if attempt == last]
        return Timestamp(min(times) - _DISORDER_SECONDS) if times else None

    def unread(self, lines: Iterator[LogLine], *, floor: Timestamp = _ALWAYS) -> Iterator[LogLine]:
        """Leave out what was read before, and of replicas that were silent what is older than ``floor``."""
        known = dict(self._marks)
        for line in lines:
            key = (line.attempt, line.replica)
            at, count = known.get(key, (floor, 0))
            if line.at < at:
                continue
            if line.at == at and count:
                known[key] = (at, count - 1)
                continue
            last, same = self._marks.get(key, (line.at, 0))
            self._marks[key] = (line.at, same + 1 if last == line.at else 1)
            yield line


class FollowedOutput:
    """A job's output as it comes, until the job rests or is gone. ``get`` reads the job."""

    def __init__(self, exchange: Exchange, output: Output, get: Callable[[], Job]) -> None:
        self._exchange = exchange
        self._get = get
        self._marks = LogMarks()
        # With a tail, what a silent replica wrote before this was left out on purpose.
        began = Timestamp(time.time())  # noqa: TID251  # an edge: nothing decides by it
        self._floor = began if output.tail is not None else output.since or _ALWAYS
        self._output = replace(output, since=self._floor, tail=None)
        self._first_attempt = get().attempt
        self._lines = output.read(exchange, follow=True)

    def lines(self) -> Iterator[LogLine]:
        """Return the lines; output ends with a job that is deleted."""
        stream = self._marks.unread(self._lines)
        with suppress(NotFoundError):
            yield from self._exchange.reconnected(stream, again=self._again, over=self._is_over)

    def _is_over(self) -> bool:
        job = self._get()
        return job.finished or job.phase is Phase.HALTED or self._output.attempt is not None

    def _again(self) -> Iterator[LogLine]:
        """Follow from where the marks are; attempts that ended during the gap come before the present one."""
        output = replace(self._output, since=self._marks.oldest or self._output.since)
        stream = output.read(self._exchange, follow=True)
        if output.attempt is not None:
            yield from self._unread(stream)
            return
        behind = max(self._marks.last_attempt, self._first_attempt, 1)
        present = self._get().attempt
        yield from self._earlier(output, behind, present)
        behind = max(behind, present)
        for line in self._unread(stream):
            # Empty, unless the next attempt began while we asked for the present one.
            yield from self._earlier(output, behind, line.attempt)
            behind = max(behind, line.attempt)
            yield line

    def _earlier(self, output: Output, first: int, end: int) -> Iterator[LogLine]:
        for attempt in range(first, end):
            yield from self._unread(replace(output, attempt=attempt).read(self._exchange, follow=False))

    def _unread(self, stream: Iterator[LogLine]) -> Iterator[LogLine]:
        return self._marks.unread(stream, floor=self._floor)
