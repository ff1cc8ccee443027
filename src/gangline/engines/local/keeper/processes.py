"""Looking at and ending processes, through /proc."""
# ruff: noqa: PTH110, PTH123, PTH208  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_SECONDS = 0.005
_KERNEL_LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none is lost from sight."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """Return everything below a process; the dead that nobody has collected yet are left out."""
    found: list[int] = []
    pending = children(pid)
    while pending:
        child = pending.pop()
        pending.extend(children(child))
        if alive(child):
            found.append(child)
    return found


def children(pid: int) -> list[int]:
    """Return the direct children of a process; none if it is gone."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(int(word) for word in file.read().split())
    except FileNotFoundError:
        # The process has just ended, or this kernel was built without the list: then every process is asked.
        return found if _KERNEL_LISTS_CHILDREN else [each for each in everyone() if _stat(each)[1:2] == [b"%d" % pid]]
    except OSError:
        return found
    return found


def alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    return _stat(pid)[:1] not in ([], [b"Z"], [b"X"])


def carries(pid: int, marker: bytes) -> bool:
    """Whether a process was started with this entry in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return marker in file.read().split(b"\0")
    except OSError:
        return False


def begins_with(pid: int, marker: bytes) -> bool:
    """Whether an entry of the process's environment begins with this."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(entry.startswith(marker) for entry in file.read().split(b"\0"))
    except OSError:
        return False


def everyone() -> list[int]:
    """Return every process on this machine that can be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def send(pid: int, number: int) -> None:
    """Signal a process; one that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def send_to_group(group: int, number: int) -> None:
    """Signal a process group; one that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def kill_and_wait(pids: list[int], seconds: float) -> None:
    """Kill processes that need not be children of this one, and wait until they are gone."""
    for pid in pids:
        send(pid, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        # A pidfd would tell, but not every kernel that runs replicas has them.
        select.select([], [], [], _LOOK_SECONDS)


def _stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on; none if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []
