"""System users of tenants: as whom a tenant's jobs run, and with whose rights the service uses files that are theirs.

A service that is root's gives every tenant a number of a range that is its alone; such a user needs no name and no
entry anywhere. What a tenant's jobs may write belongs to that user and is closed to all others; what tells the service
what to do (orders, records, logs) stays root's. Where the service itself reads or writes among a tenant's files it does
so with that user's rights, since a job may have put a link to anything there.
"""

import contextlib
import ctypes
import fcntl
import json
import logging
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gangline.data.cache import Cache
from gangline.engines.local.layout import Layout
from gangline.errors import EngineError, InvalidInputError

_FILE = "system-users.json"
_ENTERED = ("jobs", "t", "cache", "claims", "models", "environments")
"""What users pass through on the way to what is theirs; they cannot list it."""
_ENTER, _READ, _OWN = 0o711, 0o750, 0o700
_LEAST, _MOST = 1000, 2**32 - 3
"""Below are users of the system; above are numbers that mean nobody."""
_UNCHANGED = 2**32 - 1
_PROBE = "import os, sys; import gangline.data.carrying; os.stat(sys.argv[1])"
_HIDING = (
    "import sys; sys.path.insert(0, sys.argv[1]); from keeper.system import users; "
    "users.leave_mounts(); users.hide_processes()"
)

_log = logging.getLogger(__name__)
_library = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class UserRange:
    """The numbers that tenants may have as system users, both ends included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "UserRange | None":
        """Read ``FIRST-LAST``; ``none`` means that jobs run as the user of the service."""
        if text == "none":
            return None
        found = re.fullmatch(r"([0-9]{1,10})-([0-9]{1,10})", text)
        if found is None or not _LEAST <= int(found[1]) <= int(found[2]) <= _MOST:
            expected = f"FIRST-LAST, numbers of users from {_LEAST} on that nobody has, or none"
            raise InvalidInputError(f"'{text}' does not fit", field="system_users", expected=expected)
        return cls(int(found[1]), int(found[2]))

    def next_after(self, taken: Iterable[int]) -> int | None:
        """The number for a new tenant; one that somebody ever had is not given again, for files may still be theirs."""
        highest = max((number for number in taken if self.first <= number <= self.last), default=self.first - 1)
        return highest + 1 if highest < self.last else None


class SystemUsers:
    """The users of one service's tenants, kept in its home."""

    def __init__(self, root: Path, numbers: UserRange) -> None:
        self._layout = Layout(root.absolute())
        self._file = self._layout.root / _FILE
        self._numbers = numbers
        self._ready: dict[str, int] = {}
        self._preparing = threading.Lock()

    def open(self) -> None:
        """Let users pass through the home, close everything else in it, and see that they can run jobs at all.

        Changes this process: what it makes from now on is closed to others, and it has no groups but its own.
        """
        os.umask(0o077)
        os.setgroups([])
        root = self._layout.root
        for entry in root.iterdir():
            if not entry.is_symlink():
                entry.chmod(entry.stat().st_mode & 0o700)
        for folder in (root, *(root / name for name in _ENTERED)):
            folder.mkdir(exist_ok=True)
            folder.chmod(_ENTER)
        self._check_reach()
        if (problem := _fails([sys.executable, "-I", "-S", "-c", _HIDING, str(Path(__file__).parent)])) is not None:
            _log.warning("jobs see the processes of other tenants in /proc, and may open their GPUs: %s", problem)

    def _check_reach(self) -> None:
        command = [sys.executable, "-I", "-c", _PROBE, str(self._layout.root / "jobs")]
        problem = _fails(command, user=self._numbers.first)
        if problem is not None:
            raise EngineError(
                f"jobs cannot run as users of their own: user {self._numbers.first} cannot use {sys.executable} and "
                f"{self._layout.root} ({problem}). Install Gangline and choose a home where every user can pass "
                "through, or set system_users to none"
            )

    def user_of(self, tenant: str) -> int:
        """Return the number of a tenant, which has places of its own from then on. Raises EngineError."""
        with self._preparing:
            if tenant not in self._ready:
                self._ready[tenant] = self._prepared(tenant)
            return self._ready[tenant]

    def _prepared(self, tenant: str) -> int:
        number, layout = self._number_of(tenant), self._layout
        cache = Cache(layout.cache, tenant, 0).folder
        for folder in (cache, layout.claims(tenant), layout.environments(tenant), layout.models(tenant)):
            give(folder, number)
        return number

    def rights_of(self, tenant: str) -> AbstractContextManager[None]:
        """Use files with the rights of a tenant; see ``file_rights``."""
        return file_rights(self.user_of(tenant))

    def open_job(self, job_folder: Path, tenant: str) -> int:
        """Make the directories of a job, which its tenant may enter; return the tenant's number."""
        number = self.user_of(tenant)
        let_read(job_folder, number)
        for name in ("data", "results", "checkpoints", "receipts"):
            give(job_folder / name, number)
        return number

    def _number_of(self, tenant: str) -> int:
        # Several replicas of a service may meet a new tenant at once, and two tenants must not get one number.
        with self._file.with_suffix(".lock").open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            return self._chosen(tenant)

    def _chosen(self, tenant: str) -> int:
        known = self._read()
        if tenant in known:
            return known[tenant]
        number = self._numbers.next_after(known.values())
        if number is None:
            raise EngineError("every system user is taken: widen the range of the setting system_users")
        draft = self._file.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as file:
            json.dump({**known, tenant: number}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._file)
        return number

    def _read(self) -> Mapping[str, int]:
        try:
            return {str(name): int(number) for name, number in json.loads(self._file.read_bytes()).items()}
        except FileNotFoundError:
            return {}


@contextlib.contextmanager
def file_rights(user: int | None) -> Iterator[None]:
    """Have this thread alone use files as a user does, and make them that user's; None changes nothing.

    Nothing may be awaited, and no thread begun, until it is over: a new thread would keep the rights.
    """
    if user is None:
        yield
        return
    _library.setfsgid(ctypes.c_uint(user))
    _library.setfsuid(ctypes.c_uint(user))
    try:
        if ctypes.c_uint(_library.setfsuid(ctypes.c_uint(_UNCHANGED))).value != user:
            raise EngineError(f"the rights of user {user} cannot be taken on")
        yield
    finally:
        _library.setfsuid(ctypes.c_uint(os.geteuid()))
        _library.setfsgid(ctypes.c_uint(os.getegid()))


def let_read(path: Path, user: int) -> None:
    """Make a directory, unless there is something, that stays the service's own and that a user may enter and read."""
    if not path.exists():
        path.mkdir(mode=_OWN, parents=True)
    os.chown(path, os.geteuid(), user)
    path.chmod(_READ)


def give(folder: Path, user: int) -> None:
    """Make a directory that belongs to a user; what is in one that did not yet goes with it."""
    folder.mkdir(mode=_OWN, exist_ok=True)
    if folder.stat().st_uid == user:
        return
    for _, folders, files, place in os.fwalk(folder):
        for name in (*folders, *files):
            os.chown(name, user, user, dir_fd=place, follow_symlinks=False)
    os.chown(folder, user, user)
    folder.chmod(_OWN)


def open_file(path: Path) -> BinaryIO:
    """Open a file that a job has made, to read it; raises OSError for anything that may keep its reader waiting."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(f"{path} is not a file")
    return os.fdopen(descriptor, "rb")


def _fails(command: list[str], user: int | None = None) -> str | None:
    """Run a program to its end; return what it said last if it failed."""
    try:
        done = subprocess.run(
            command,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        return str(error)
    lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return None if done.returncode == 0 else lines[-1]
