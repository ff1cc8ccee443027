"""What a keeper knows of its attempt, on disk: the only source of news for the engine, and for a keeper's successor.

The file is replaced atomically. A start is recorded before it happens, so no successor starts a replica again.
"""
# ruff: noqa: PTH105, PTH108, PTH123  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import contextlib
import json
import os
import time
from enum import StrEnum

TYPE_CHECKING = False  # as in typing, which a keeper need not wait for
if TYPE_CHECKING:
    from typing import Any

_RESERVE_BYTES = 1 << 16
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Status(StrEnum):
    """Where a replica is."""

    STARTING = "starting"
    """Recorded before the fork: from here on nobody starts this incarnation again."""
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"


class Stage(StrEnum):
    """Where the moving of data is."""

    NONE = "none"
    RUNNING = "running"
    DONE = "done"


class ReplicaRecord:
    """One replica as it was last seen."""

    __slots__ = (
        "cgroup",
        "exit_code",
        "finished_at",
        "incarnation",
        "message",
        "name",
        "pid",
        "result",
        "started_at",
        "status",
    )

    def __init__(self, name: str, incarnation: int, status: Status) -> None:
        self.name = name
        self.incarnation = incarnation
        self.status = status
        self.pid: int | None = None
        self.cgroup: str | None = None
        self.started_at: float | None = None
        self.finished_at: float | None = None
        self.exit_code: int | None = None
        self.message = ""
        self.result = ""

    def run(self, pid: int) -> None:
        """Note that the replica's program runs."""
        self.status = Status.RUNNING
        self.pid = pid
        self.started_at = wall_clock()

    def exit(self, exit_code: int, message: str) -> None:
        """Note how the replica ended."""
        self.status = Status.EXITED
        self.pid = None
        self.finished_at = wall_clock()
        self.exit_code = exit_code
        self.message = message

    def lose(self, message: str) -> None:
        """Note that the replica is gone and that nobody saw it exit."""
        self.status = Status.LOST
        self.pid = None
        self.finished_at = wall_clock()
        self.message = message

    def as_json(self) -> dict[str, object]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, fields: dict[str, object]) -> ReplicaRecord:
        """Read what ``as_json`` wrote."""
        record = cls("", 0, Status.STARTING)
        for name in cls.__slots__:
            setattr(record, name, fields.get(name, ""))  # an earlier version's knows no result
        record.status = Status(str(fields["status"]))
        return record


class AttemptRecord:
    """Everything a keeper knows. Attributes are what is on disk; ``boot`` is empty until there was a keeper."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._reserve = f"{path}.reserve"
        self.boot = ""
        self.keeper_pid = 0
        self.replicas: dict[str, ReplicaRecord] = {}
        self.inputs = Stage.NONE
        self.inputs_at: float | None = None
        self.outputs = Stage.NONE
        self.outputs_at: float | None = None
        self.outputs_note = ""
        self.failure: dict[str, Any] | None = None
        self.stopped_at: float | None = None

    @classmethod
    def load(cls, path: str) -> AttemptRecord:
        """Read what a keeper wrote; without a file, nothing has happened yet."""
        record = cls(path)
        try:
            with open(path, "rb") as file:
                fields = json.loads(file.read())
        except FileNotFoundError:
            return record
        vars(record).update(fields)
        record.replicas = {entry["name"]: ReplicaRecord.from_json(entry) for entry in fields["replicas"]}
        record.inputs, record.outputs = Stage(fields["inputs"]), Stage(fields["outputs"])
        return record

    def save(self) -> None:
        """Put everything on disk, whole or not at all."""
        fields = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        fields["replicas"] = [record.as_json() for record in self.replicas.values()]
        draft = self._path + ".draft"
        with open(draft, "wb") as file:
            file.write(json.dumps(fields).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._path)

    def set_room_aside(self) -> None:
        """Make sure that the end can be recorded, even on a disk that the replicas have filled; if that can be done."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, _RESERVE_BYTES)
            finally:
                os.close(descriptor)

    def use_room(self) -> None:
        """Let go of that room, once nothing is left that could take it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._reserve)

    def fail(self, reason: str, message: str, *, permanent: bool = False, blameless: bool = False) -> None:
        """Note that the gang cannot go on; the first reason stands."""
        if self.failure is None:
            judgement = {"permanent": permanent, "blameless": blameless}
            self.failure = {"reason": reason, "message": message, **judgement, "at": wall_clock()}


def boot_id() -> str:
    """Return what identifies this run of the machine: process ids of another run mean nothing."""
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


def wall_clock() -> float:
    """Return the time. A keeper is the edge of the system: nobody is there to hand it a clock."""
    return time.time_ns() / 1e9
