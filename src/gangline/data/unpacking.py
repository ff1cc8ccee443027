"""Unpacks archives that nobody vouches for: nothing outside the directory is written, and no more than allowed.

Used by the local engine for a job's code, and by the mover, with which this file travels to a cluster; so it needs the
standard library of an old Python and nothing else.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tarfile
import zlib
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HEADER_BYTES = 4096
"""The most that an archive may spend on the headers of one file."""


class PermanentError(Exception):
    """Another try would end the same."""


class Limits(NamedTuple):
    """The most that an archive may hold; None: as much as there is room for."""

    size: int | None = None
    files: int | None = None
    of_disk: bool = False
    """Whether the size is what is free on the disk."""


def unpack(
    packed: BinaryIO,
    target: Path,
    limits: Limits = Limits(),  # noqa: B008  # a tuple never changes
    *,
    compressed: bool = True,
    links_stay_inside: bool = False,
) -> None:
    """Unpack an archive into a directory, and never write anywhere else, whatever the archive says.

    Links of code are left as their user made them, wherever they lead, for people link to their data; nothing is
    written through a link that leads out. Those of data, which may be a stranger's, can be refused if they lead out.
    Python's own filters for this are not in every Python that runs jobs.
    """
    root = target.resolve()
    for archive, member in members(packed, limits, compressed=compressed):
        try:
            if links_stay_inside:
                _check_link(member, root)
            _unpack_one(archive, member, root)
        except tarfile.TarError as error:  # it ends in the middle of a file
            raise PermanentError(f"the archive is damaged: {error}") from error
        except ValueError as error:  # a name that no file can have
            raise PermanentError(f"the archive cannot be unpacked: {member.name!r}: {error}") from error


def members(
    packed: BinaryIO, limits: Limits, *, compressed: bool = True
) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Read an archive entry by entry as far as the limits allow: a few bytes can be unpacked to very many."""
    count = size = 0
    try:
        with gzip.GzipFile(fileobj=packed) if compressed else contextlib.nullcontext(packed) as stream:
            bounded = cast(BinaryIO, _Bounded(cast(BinaryIO, stream), limits))
            with tarfile.open(fileobj=bounded, mode="r|") as archive:
                for member in archive:
                    count, size = count + 1, size + member.size
                    _check_limits(size, count, limits)
                    yield archive, member
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:
        raise PermanentError(f"the archive is damaged: {error}") from error


def _check_limits(size: int, count: int, limits: Limits) -> None:
    if limits.size is not None and size > limits.size:
        if limits.of_disk:
            raise PermanentError(f"no space left: it needs more than the {limits.size / 2**20:.0f} MiB that are free")
        raise PermanentError(f"the archive holds more than {limits.size / 2**20:g} MiB when it is unpacked")
    if limits.files is not None and count > limits.files:
        raise PermanentError(f"the archive holds more than {limits.files} files")


class _Bounded:
    """A stream that ends with an error where an archive within the limits would have ended long before."""

    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._left = float("inf")
        if limits.size is not None and limits.files is not None:
            self._left = limits.size + (limits.files + 1) * _HEADER_BYTES

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise PermanentError(f"the archive holds more than {(self._limits.size or 0) / 2**20:g} MiB of headers")
        return data


def _unpack_one(archive: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    path = inside(member.name, root)
    if path == root:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or not (member.isdir() and path.is_dir()):
        path.unlink(missing_ok=True)
    if member.isdir():
        path.mkdir(exist_ok=True)
    elif member.issym():
        path.symlink_to(member.linkname)
    elif member.islnk():
        try:
            os.link(inside(member.linkname, root), path, follow_symlinks=False)
        except (FileNotFoundError, PermissionError) as error:
            raise PermanentError(f"the archive holds {member.name}, a link to what it does not hold") from error
    elif member.isreg():
        with path.open("xb") as file:
            shutil.copyfileobj(cast(BinaryIO, archive.extractfile(member)), file, 1 << 20)
        path.chmod(member.mode & 0o755 | 0o600)
        os.utime(path, (member.mtime, member.mtime))
    else:
        raise PermanentError(f"the archive holds {member.name}, which is neither a file, nor a directory, nor a link")


def _check_link(member: tarfile.TarInfo, root: Path) -> None:
    """Refuse a link that leads out, or might once others are made: all of its '..' come first, and are few enough."""
    if member.issym():
        parts = member.linkname.split("/")
        up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
        depth = len(inside(member.name, root).parent.relative_to(root).parts)
        leads_out = member.linkname.startswith("/") or up > depth or ".." in parts[up:]
    else:
        # The same link lower or higher would lead elsewhere.
        leads_out = member.islnk() and inside(member.linkname, root).is_symlink()
    if leads_out:
        raise PermanentError(f"the archive holds {member.name}, a link that leads out of its directory")


def inside(name: str, root: Path) -> Path:
    """Where an entry of an archive goes: its directory with all links resolved, and then its own name."""
    path = root / name.lstrip("/")
    if ".." not in path.parts:
        path = path if path == root else path.parent.resolve() / path.name
        if path == root or root in path.parents:
            return path
    raise PermanentError(f"the archive holds {name}, which would be written outside of its directory")
