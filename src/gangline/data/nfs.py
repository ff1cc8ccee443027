"""NFS exports, mounted for as long as a transfer takes. That needs root, and a kernel that has an NFS client."""

import contextlib
import errno
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from .addresses import Address
from .lanes import StoreError
from .trees import printable
from .unpacking import PermanentError

_MOUNT_SECONDS = 60.0
_OPTIONS = "soft,timeo=100,retrans=3,nosuid,nodev,noexec"
_NEVER = ("unknown filesystem type", "No such device", "bad option", "No such file or directory", "access denied")
"""What mount says when another try would end the same."""

Mount = Callable[[Address, Path, str], None]


@contextlib.contextmanager
def mounted(address: Address, *, writable: bool, mount: Mount | None = None) -> Iterator[Path]:
    """Mount an export and give the path of what the address names; it is unmounted at the end."""
    place = Path(tempfile.mkdtemp(prefix="gangline-nfs-"))
    try:
        (mount or mount_export)(address, place, "rw" if writable else "ro")
        try:
            yield place
        finally:
            # Lazily: a server that went away must not hold up whoever reports that.
            subprocess.run(("umount", "-l", str(place)), capture_output=True, check=False)
    finally:
        with contextlib.suppress(OSError):
            place.rmdir()


def mount_export(address: Address, place: Path, mode: str) -> None:
    """Have the kernel mount it, ``ro`` or ``rw``."""
    if os.geteuid() != 0:
        raise PermanentError(
            f"{address.text}: an NFS export can be mounted by root alone, and this service does not run as root; "
            "have it mounted on the machine and use its path"
        )
    options = f"{mode},{_OPTIONS}"
    command = ("mount", "-t", "nfs", "-o", options, f"{address.place}:{address.path}", str(place))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MOUNT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise StoreError(f"{address.text}: {address.place} does not answer") from None
    except FileNotFoundError:
        raise PermanentError(f"{address.text}: this machine has no program 'mount'") from None
    if done.returncode == 0:
        return
    reason = printable(" ".join(done.stderr.split())) or f"mount ended with {done.returncode}"
    if not _kernel_has_nfs():
        reason = f"the kernel of this machine has no NFS client ({reason})"
        raise PermanentError(f"{address.text} cannot be mounted: {reason}")
    refused = any(text in done.stderr for text in _NEVER)
    raise (PermanentError if refused else StoreError)(f"{address.text} cannot be mounted: {reason}")


def mount_point(export: str, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Where an export, ``HOST:/path``, is mounted already; raises FileNotFoundError if it is not."""
    for line in mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        source, place, kind, *_ = (re.sub(r"\\([0-7]{3})", _character, word) for word in line.split(" "))
        if kind in ("nfs", "nfs4") and (source.rstrip("/") or source) == (export.rstrip("/") or export):
            return place
    raise FileNotFoundError(errno.ENOENT, "it is not mounted", export)


def _character(octal: "re.Match[str]") -> str:
    return chr(int(octal[1], 8))


def _kernel_has_nfs() -> bool:
    try:
        return "nfs" in Path("/proc/filesystems").read_text(encoding="ascii")
    except OSError:
        return True
