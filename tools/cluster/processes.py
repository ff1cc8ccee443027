"""Starts and stops the cluster's processes, and remembers them on disk so that another run can find them.

A record is a process id together with its start time, so that a number the system gave to somebody else since is
never signalled.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals

from tools.cluster.errors import ClusterError, ComponentFailedError

_LOG_TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One process that was started."""

    name: str
    pid: int
    started: int
    command: tuple[str, ...]

    @property
    def alive(self) -> bool:
        """Whether it still runs; one that only waits to be buried does not."""
        stat = _stat(self.pid)
        return stat is not None and stat.started == self.started and stat.state != "Z"


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    parent: int
    started: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return _Stat(fields[0], int(fields[1]), int(fields[19]))


def start_time(pid: int) -> int | None:
    """When a process began, in the kernel's ticks; None if there is no such process."""
    stat = _stat(pid)
    return stat.started if stat is not None else None


def running(pid: int) -> bool:
    """Whether a process exists and is more than a remainder that waits to be buried."""
    stat = _stat(pid)
    return stat is not None and stat.state != "Z"


def children(pid: int) -> list[int]:
    """Find the direct children of a process."""
    numbers = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [number for number in numbers if (stat := _stat(number)) is not None and stat.parent == pid]


class Processes:
    """The processes of one cluster, by name; records and logs are files below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._records = folder / "processes"
        self._logs = folder / "logs"

    def start(self, name: str, command: Sequence[str]) -> Record:
        """Start a process in its own session; its output is added to its log."""
        if (old := self.find(name)) is not None and old.alive:
            raise ClusterError(f"{name} runs already")
        self._records.mkdir(exist_ok=True)
        self._logs.mkdir(exist_ok=True)
        output = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            command[0],
            list(command),
            # Components written in Go spend a quarter of their time on collecting garbage unless they may keep some.
            {"GOGC": "200", **os.environ},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log(name)), output, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        stat = _stat(pid)
        record = Record(name=name, pid=pid, started=stat.started if stat else 0, command=tuple(command))
        document = {"pid": pid, "started": record.started, "command": record.command}
        (self._records / name).write_text(json.dumps(document), encoding="utf-8")
        return record

    def find(self, name: str) -> Record | None:
        """Find what was last started under a name."""
        try:
            document = json.loads((self._records / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Record(name=name, pid=document["pid"], started=document["started"], command=tuple(document["command"]))

    def all(self) -> list[Record]:
        """Find everything that was started."""
        if not self._records.is_dir():
            return []
        found = (self.find(file.name) for file in sorted(self._records.iterdir()))
        return [record for record in found if record is not None]

    def signal(self, name: str, number: Signals) -> None:
        """Signal a process: the program itself, not the ``nsenter`` that waits for it outside its namespace."""
        record = self.find(name)
        if record is None or not record.alive:
            raise ClusterError(f"{name} does not run")
        for pid in _program(record):
            os.kill(pid, number)

    def stop(self, name: str, number: Signals = SIGTERM, *, seconds: float = 10) -> None:
        """End a process and wait for its end; one that does not heed the signal in time is killed."""
        record = self.find(name)
        if record is None or not record.alive:
            return
        self.signal(name, number)
        if not wait_until(lambda: not _alive(record), seconds=seconds):
            self.signal(name, SIGKILL)
            wait_until(lambda: not _alive(record), seconds=seconds)

    def forget(self, name: str) -> None:
        """Drop the record of a process that is meant to be gone."""
        (self._records / name).unlink(missing_ok=True)

    def log(self, name: str) -> Path:
        """Name the file a process writes to."""
        return self._logs / f"{name}.log"

    def failure(self, name: str, problem: str) -> ComponentFailedError:
        """Build the error that shows the end of a component's log."""
        log = self.log(name)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return ComponentFailedError(name, problem, log=text[-_LOG_TAIL_BYTES:])

    def check_alive(self) -> None:
        """Raise for the first process that has ended without being told to."""
        for record in self.all():
            if not _alive(record):
                raise self.failure(record.name, "ended")


def _alive(record: Record) -> bool:
    """Ask, and bury our own child if it is dead."""
    with contextlib.suppress(ChildProcessError):  # started by an earlier run, so not ours to bury
        os.waitpid(record.pid, os.WNOHANG)
    return record.alive


def _program(record: Record) -> list[int]:
    if Path(record.command[0]).name == "nsenter":
        return children(record.pid) or [record.pid]
    return [record.pid]


def wait_until(condition: Callable[[], bool], *, seconds: float, every_seconds: float = 0.05) -> bool:
    """Ask again and again until the condition holds or the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every_seconds)
    return True
