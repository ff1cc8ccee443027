"""Start a keeper for one attempt directory: ``python -I -S -c '...' DIRECTORY SOCKET_NAME [start] [groups]``.

Without ``start`` the keeper waits to be told: the order it finds may be older than the wish to stop. With ``groups``
the way into control groups is cleared while the keeper reads its order.

Returns (exit code 0) once a keeper is in charge, whether this one or one that was there before; the keeper itself goes
on in a session of its own, as a child of init, so that it outlives whoever asked for it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import traceback

from .supervisor import Keeper
from .system import cgroups


def main() -> None:
    """Detach, take the lock, tell the caller, and keep."""
    directory, name, *requests = sys.argv[1:]
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        if "groups" in requests:
            cgroups.wait_for_kernel()
        problem = os.read(reading, 4096)
        sys.stderr.buffer.write(problem)
        sys.stderr.flush()
        os._exit(1 if problem else 0)
    os.close(reading)
    os.setsid()
    try:
        keeper = _take_charge(directory, name, start_now="start" in requests)
    except Exception as error:  # noqa: BLE001  # the caller is told whatever it is
        os.write(writing, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    os.close(writing)
    if keeper is None:
        os._exit(0)
    try:
        keeper.run()
    except BaseException:  # noqa: BLE001  # the last words of a process that ends next
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _take_charge(directory: str, name: str, *, start_now: bool) -> Keeper | None:
    """Return the keeper that holds the lock; None if another one does."""
    _detach_standard_streams(directory)
    lock = os.open(f"{directory}/keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0{name}")
    listener.listen(16)
    listener.setblocking(False)
    return Keeper(directory, listener, start_now=start_now)


def _detach_standard_streams(directory: str) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(f"{directory}/keeper.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(log, 2)
    os.close(nothing)
    os.close(log)
    os.chdir("/")


if __name__ == "__main__":
    main()
