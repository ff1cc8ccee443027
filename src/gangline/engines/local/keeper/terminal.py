"""A shell on a terminal where a replica runs, as a process of its own: ``python -m`` and the name of this module.

It becomes what the replica is, its system user, control group and view of the file system, and then the shell. Nothing
of the replica's, its variables above all, is used before that. Its argument is the number of a descriptor from which
it reads what it is to become; the terminal is its standard input.
"""

import ctypes
import fcntl
import json
import os
import sys
import termios
from contextlib import suppress
from typing import Any

from gangline.engines.local.keeper.system import users

_SHELLS = ("bash", "sh")
_CLONE_NEWNS = 0x20000


def main() -> None:
    """Become the shell."""
    with open(int(sys.argv[1]), "rb") as file:  # noqa: PTH123  # a descriptor
        order: dict[str, Any] = json.load(file)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if order["group"]:
        with suppress(OSError), open(f"{order['group']}/cgroup.procs", "w") as members:  # noqa: PTH123
            members.write(str(os.getpid()))
    if order["user"] is not None:
        _see_files_as(order["pid"])
    directory = os.open(f"/proc/{order['pid']}/cwd", os.O_PATH | os.O_CLOEXEC)
    users.become(order["user"])
    os.fchdir(directory)
    environment = {**order["environment"], "TERM": "xterm"}
    for shell in _SHELLS:
        with suppress(FileNotFoundError):
            os.execvpe(shell, [shell], environment)


def _see_files_as(pid: int) -> None:
    """Enter the mounts of a replica: what is hidden from it is hidden from its shell."""
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "the mounts of the replica cannot be entered")


if __name__ == "__main__":
    main()
