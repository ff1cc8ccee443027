"""Running programs as the system user of their tenant, where the keeper is root's.

A user and its group have one number.

A starter must come back to root between two programs, to enter their control groups; so it keeps root as its saved
user, which ends with the start of the program: the kernel then makes the saved user the effective one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PRIVATE_MASK = 0o077
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWNS = 0x20000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 0x2, 0x4, 0x8, 0x20
_MS_BIND, _MS_REC, _MS_SLAVE, _MNT_DETACH = 0x1000, 0x4000, 0x80000, 2


def take_on(user: int | None) -> None:
    """Prepare a starter to start programs of a user: with no other groups, and no way to gain rights by a program."""
    if user is None:
        return
    os.umask(_PRIVATE_MASK)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, 0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def become(user: int | None) -> None:
    """Be the user and nobody else, for good."""
    if user is None:
        return
    take_on(user)
    os.setresuid(user, user, user)


@contextlib.contextmanager
def acting_as(user: int | None) -> Iterator[None]:
    """Use files with the rights of the user for a moment: its directories may have links to anywhere."""
    if user is None:
        yield
        return
    group = os.getegid()
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)


def leave_mounts() -> None:
    """Give this process and all it starts a view of the mounts that can differ from the others'; raises OSError."""
    _check(_library().unshare(_CLONE_NEWNS))
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)


def hide_processes() -> None:
    """Mount a /proc in which users see only what is theirs; raises OSError."""
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "hidepid=2")


def close_file(path: str) -> None:
    """Have a device refuse to be opened; raises OSError."""
    _mount(path, path, None, _MS_BIND)
    _mount(None, path, None, _MS_REMOUNT | _MS_BIND | _MS_NODEV)


def open_file(path: str) -> None:
    """Have a device that was closed be as it was; raises OSError."""
    _check(_library().umount2(os.fsencode(path), _MNT_DETACH))


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = (None if word is None else os.fsencode(word) for word in (source, target, kind))
    _check(_library().mount(*words, ctypes.c_ulong(flags), None if options is None else options.encode()))


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(answer: int) -> None:
    if answer != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
