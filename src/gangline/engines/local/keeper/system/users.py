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
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_SLAVE = 0x2, 0x4, 0x8, 0x4000, 0x80000


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


def hide_processes() -> None:
    """Show this process and all it starts a /proc in which users see only what is theirs; raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    done = (
        library.unshare(_CLONE_NEWNS) == 0
        and library.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None) == 0
        and library.mount(b"proc", b"/proc", b"proc", flags, b"hidepid=2") == 0
    )
    if not done:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
