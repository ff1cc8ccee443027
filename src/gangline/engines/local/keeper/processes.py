"""Looking at and ending processes, through /proc."""
# ruff: noqa: PTH123, PTH208  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time

_PR_SET_CHILD_SUBREAPER = 36


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
    """Return the direct children of a process."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(int(word) for word in file.read().split())
    except OSError:
        return found
    return found


def alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


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
    watched: dict[int, int] = {}
    for pid in pids:
        try:
            watched[os.pidfd_open(pid)] = pid
        except ProcessLookupError:
            continue
        send(pid, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while watched and (left := deadline - time.monotonic()) > 0:
        ended, _, _ = select.select(list(watched), [], [], left)
        for descriptor in ended:
            del watched[descriptor]
            os.close(descriptor)
    for descriptor in watched:
        os.close(descriptor)
