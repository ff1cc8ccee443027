"""One living replica as its keeper sees it: its processes, its output, and how it ended."""

from __future__ import annotations

import os
import signal
import time

from . import launch
from .output import STREAMS, LogWriter, failure_line
from .records import ReplicaRecord
from .system import cgroups, processes, users

_READ_BYTES = 1 << 18
_TAIL_BYTES = 4096
"""How much of each stream's end is remembered, to say what a replica that fails said last."""
RESULT_VARIABLE = "GANGLINE_RESULT"
_MOST_RESULT_BYTES = 1 << 18
"""It is kept with the record of the job; what is larger is a file, and belongs among the results."""


class LiveReplica:
    """A started replica. It is over when its first process has ended and nothing it left behind is alive."""

    def __init__(self, launched: launch.Launch, record: ReplicaRecord, writer: LogWriter) -> None:
        assert launched.pid is not None
        self.order = launched.order
        self.record = record
        self.writer = writer
        self.pid = launched.pid
        self.streams = {launched.pipes.stdout: "stdout", launched.pipes.stderr: "stderr"}
        self.wait_status: int | None = None
        self.kill_at: float | None = None
        self.grace_seconds: float | None = None
        self.unwanted = False
        """No longer part of the gang: its record goes when it is over."""
        self._marker = f"{launch.MARKER}={self.order.environment[launch.MARKER]}".encode()
        self._killed_late = False
        self._launched = launched
        self._forbidden = False
        self._refused_processes = 0
        self._tails = dict.fromkeys(STREAMS, b"")

    def read_output(self, descriptor: int) -> bool:
        """Move what the replica wrote to its log; False once there will be no more."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return True
        if data:
            self._keep(self.streams[descriptor], data)
        return bool(data)

    def ask_to_end(self, grace_seconds: float) -> None:
        """Send the stop signal once; a later call can only bring the end nearer."""
        kill_at = time.monotonic() + grace_seconds
        if self.kill_at is not None:
            self.kill_at = min(self.kill_at, kill_at)
            return
        self.kill_at = kill_at
        self.grace_seconds = grace_seconds
        processes.send_to_group(self.pid, signal.SIGTERM)
        for pid in self._members():
            if pid != self.pid and _group_of(pid) != self.pid:
                processes.send(pid, signal.SIGTERM)

    def is_over(self) -> bool:
        """Kill what may no longer live; True when nothing of the replica does."""
        late = self.kill_at is not None and time.monotonic() >= self.kill_at
        if self.wait_status is None and not late:
            return False
        # A first process that ends by itself takes the others along; one that was asked to leaves them their grace.
        if late or self.kill_at is None:
            self._killed_late |= late and self.wait_status is None
            self._forbid_more()
            members = self._members()
            # Without a limit that forbids more, all of them first: some begin faster than they can be killed.
            for number in (signal.SIGSTOP, signal.SIGKILL) if self._launched.processes is None else (signal.SIGKILL,):
                for pid in members:
                    processes.send(pid, number)
        return self.wait_status is not None and not self._members()

    def conclude(self) -> None:
        """Drain the output and record how the replica ended."""
        for descriptor in self.streams:
            while self._drain(descriptor):
                pass
            os.close(descriptor)
        self.streams.clear()
        self.writer.close()
        self.record.exit(*self._ending())
        with users.acting_as(self._launched.user):
            self.record.result = _read_result(self.order.environment.get(RESULT_VARIABLE, ""))
        if self.record.cgroup is not None:
            cgroups.remove(self.record.cgroup)
            self.record.cgroup = None

    def _drain(self, descriptor: int) -> bool:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._keep(self.streams[descriptor], data)
        return bool(data)

    def _keep(self, stream: str, data: bytes) -> None:
        self.writer.feed(stream, data)
        whole = data if len(data) >= _TAIL_BYTES else self._tails[stream] + data
        self._tails[stream] = whole[-_TAIL_BYTES:]

    def _ending(self) -> tuple[int, str]:
        assert self.wait_status is not None
        code = os.waitstatus_to_exitcode(self.wait_status)
        group = self.record.cgroup
        starved = group is not None and cgroups.out_of_memory_kills(group) > 0
        limit = f"out of memory, limit {self.order.memory_mib} MiB"
        if code == -signal.SIGKILL and starved:
            return 128 + signal.SIGKILL, f"killed: {limit}"
        if code == -signal.SIGKILL and self._killed_late:
            return 128 + signal.SIGKILL, f"killed: it did not end within {self.grace_seconds:g} s of being asked to"
        if code < 0:
            return 128 - code, f"ended by {_signal_name(-code)}"
        if code and starved:
            return code, f"one of its processes was killed: {limit}"
        said = failure_line(self._tails["stderr"]) or failure_line(self._tails["stdout"])
        return code, self._with_limit(said) if code else ""

    def _with_limit(self, said: str) -> str:
        if not self._refused_processes:
            return said
        limit = f"it reached its limit of {self._launched.most_processes} processes (setting replica_processes)"
        return f"{limit}: {said}" if said else limit

    def _forbid_more(self) -> None:
        """Have no more processes begin while the others are killed: some begin faster than they can be killed."""
        if self._launched.processes is not None and not self._forbidden:
            self._forbidden = True
            self._refused_processes = cgroups.refused_processes(self._launched.processes)
            cgroups.limit_processes(self._launched.processes, 0)

    def _members(self) -> list[int]:
        """Return every living process of the replica."""
        if self.record.cgroup is not None and (found := cgroups.members(self.record.cgroup)):
            return [pid for pid in found if processes.alive(pid)]
        # Without a group: what descends from the first process, and orphans that carry the replica's mark.
        found = [] if self.wait_status is not None else [self.pid, *processes.descendants(self.pid)]
        for orphan in processes.children(os.getpid()):
            if orphan not in found and processes.alive(orphan) and processes.carries(orphan, self._marker):
                found += [orphan, *processes.descendants(orphan)]
        return found


def _read_result(path: str) -> str:
    """Return what the program left for whoever started its job; nothing if that is too large or not text."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        data = os.read(descriptor, _MOST_RESULT_BYTES + 1)
        return "" if len(data) > _MOST_RESULT_BYTES else data.decode()
    except (OSError, UnicodeDecodeError):
        return ""
    finally:
        os.close(descriptor)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
