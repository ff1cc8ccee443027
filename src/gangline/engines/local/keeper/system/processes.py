"""Looking at processes through /proc, ending them, and how this one lives among them."""
# ruff: noqa: PTH110, PTH123, PTH208  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import struct
import time

_PR_SET_CHILD_SUBREAPER = 36
_SET_SCHEDULING = {"x86_64": 314, "aarch64": 274}
"""The number of the system call, which the C library has no name for yet."""
_SCHEDULING = struct.Struct("IIQiIQQQ")
"""What it is told: size, policy, flags, niceness, priority, length of a turn, and two numbers of other policies."""
_RESET_ON_FORK = 1
_SLICE_NANOSECONDS = 100_000
_LOOK_SECONDS = 0.005
_KERNEL_LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none is lost from sight."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_promptly() -> None:
    """Ask for short turns on the processor, which come at once: nobody waits long for one who needs little.

    The share of the processor stays the same, and what this process starts has turns of the usual length. Kernels
    before 6.12 give everybody the same turns; where an administrator chose otherwise for this process, that stands.
    """
    number, nice = _SET_SCHEDULING.get(os.uname().machine), os.getpriority(os.PRIO_PROCESS, 0)
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER or nice < 0:
        return
    wanted = (_SCHEDULING.size, os.SCHED_OTHER, _RESET_ON_FORK, nice, 0, _SLICE_NANOSECONDS, 0, 0)
    ctypes.CDLL(None).syscall(number, 0, _SCHEDULING.pack(*wanted), 0)


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
    """Signal a process; one that is gone already is not an error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def send_to_group(group: int, number: int) -> None:
    """Signal a process group; one that is gone already is not an error."""
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
