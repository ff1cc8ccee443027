"""A directory of code as one archive whose digest depends on its content alone.

Times, owners and the order of a directory are left out or fixed, so that unchanged code is sent once. What
``.ganglineignore`` and ``.gitignore`` name stays at home, and so do version control, caches and virtual environments;
``.ganglineignore`` has the last word, and ``!pattern`` there ships what git does not keep.
"""

import gzip
import hashlib
import io
import os
import stat
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gangline.errors import InvalidInputError
from gangline.model import CodeLimits
from gangline.sdk.code.ignoring import GitRules, IgnoreRules, lines_of

IGNORE_FILE = ".ganglineignore"
ALWAYS_IGNORED = (".git", "__pycache__/", ".venv")
"""Not directories alone: ``.git`` is a file in a work tree, and ``.venv`` often a link."""

_DATE = 946_684_800
"""When every file was last changed: 2000-01-01. The same content must give the same digest, so no date can be the real
one; but zip knows none before 1980, and some programs take 1970 for no date at all."""
_IN_MEMORY_BYTES = 16 * 2**20
_BIGGEST_SHOWN = 5
_LARGEST_TOLD = 3
_WORTH_TELLING_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A packed directory; ``file`` stands at its beginning."""

    digest: str
    size_bytes: int
    file: BinaryIO


@contextmanager
def pack(directory: Path, *, limits: CodeLimits, say: Callable[[str], None] | None = None) -> Iterator[Archive]:
    """Pack a directory; the archive lives as long as the context. ``say`` is told first how much a large one is."""
    if not directory.is_dir():
        raise InvalidInputError(f"'{directory}' is not a directory", field="spec.code", expected="a directory of code")
    entries = tuple(_entries(directory))
    if len(entries) > limits.files:
        raise _too_many(directory, entries, limits.files)
    size = sum(_size(directory / entry) for entry in entries)
    if size > limits.unpacked_bytes:
        raise _too_large(directory, entries, limits.unpacked_bytes, "")
    if say is not None and size >= _WORTH_TELLING_BYTES:
        say(_told(directory, entries, size))
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as file:
        # Level 1: most of what is saved is saved at once, and code is small.
        with (
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=1) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for entry in entries:
                _add(archive, directory, entry)
                if file.tell() > limits.packed_bytes:
                    raise _too_large(directory, entries, limits.packed_bytes, " packed")
        size = file.tell()
        if size > limits.packed_bytes:
            raise _too_large(directory, entries, limits.packed_bytes, " packed")
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        yield Archive(digest=digest, size_bytes=size, file=file)  # type: ignore[arg-type]  # a file in all but name


def _told(directory: Path, entries: tuple[Path, ...], size: int) -> str:
    """Say how much code is packed, and in which folders most of it lies."""
    folders: Counter[str] = Counter()
    for entry in entries:
        folders[f"{entry.parts[0]}/" if len(entry.parts) > 1 else "."] += _size(directory / entry)
    largest = ", ".join(f"{name} ({part / 2**20:.1f} MiB)" for name, part in folders.most_common(_LARGEST_TOLD) if part)
    return (
        f"packing {directory}: {size / 2**20:.1f} MiB in {len(entries)} files and folders, most of it in {largest}; "
        f"{IGNORE_FILE} leaves files out"
    )


def digests_of_files(chunks: Iterator[bytes]) -> dict[str, str]:
    """Return the SHA-256 of every file of a packed directory, by its path."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks)), mode="r:gz") as archive:
        return {
            member.name.removeprefix("./"): hashlib.sha256(content.read()).hexdigest()
            for member in archive
            if (content := archive.extractfile(member)) is not None
        }


def _entries(directory: Path) -> Iterator[Path]:
    """Every file, link and directory to pack, relative and in one order everywhere."""
    rules, git = IgnoreRules([*lines_of(directory / IGNORE_FILE), *ALWAYS_IGNORED]), GitRules(directory)

    def left_out(path: Path, *, folder: bool = False) -> bool:
        own = rules.verdict(path, folder=folder)
        return bool(git.verdict(path, folder=folder) if own is None else own)

    for parent, directories, files in os.walk(directory, onerror=_cannot_read):
        relative = Path(parent).relative_to(directory)
        links = [name for name in directories if (Path(parent) / name).is_symlink()]
        kept = [name for name in directories if name not in links and not left_out(relative / name, folder=True)]
        directories[:] = sorted(kept)
        yield from (relative / name for name in directories)
        yield from (relative / name for name in sorted([*files, *links]) if not left_out(relative / name))


def _add(archive: tarfile.TarFile, directory: Path, entry: Path) -> None:
    """Add one entry without anything that differs from machine to machine; sockets and the like are left out."""
    path = directory / entry
    try:
        _add_there(archive, path, entry)
    except FileNotFoundError:
        return  # it has disappeared since the directory was read: editors and caches come and go
    except OSError as error:
        error.filename = error.filename or str(path)
        _cannot_read(error)


def _add_there(archive: tarfile.TarFile, path: Path, entry: Path) -> None:
    mode = path.lstat().st_mode
    header = tarfile.TarInfo(entry.as_posix())
    header.mtime = _DATE
    if stat.S_ISLNK(mode):
        header.type, header.linkname, header.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        archive.addfile(header)
    elif stat.S_ISDIR(mode):
        header.type, header.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(header)
    elif stat.S_ISREG(mode):
        header.mode = 0o755 if mode & stat.S_IXUSR else 0o644
        with path.open("rb") as content:
            header.size = os.fstat(content.fileno()).st_size
            archive.addfile(header, content)


def _cannot_read(error: OSError) -> None:
    # An error without a number is tarfile's own: the file ended before the size it had when it was opened.
    problem = error.strerror or "it changed while it was packed"
    raise InvalidInputError(
        f"cannot pack '{error.filename}': {problem}",
        field="spec.code",
        expected=f"files that stay and can be read; leave others out with {IGNORE_FILE}",
    ) from error


def _too_many(directory: Path, entries: tuple[Path, ...], most: int) -> InvalidInputError:
    counts = Counter(entry.parts[0] for entry in entries).most_common(_BIGGEST_SHOWN)
    largest = ", ".join(f"{name} ({count})" for name, count in counts)
    return InvalidInputError(
        f"the code in '{directory}' has {len(entries)} files; most of them are in {largest}",
        field="spec.code",
        expected=f"at most {most} (setting code_files); leave files out with {IGNORE_FILE}",
    )


def _too_large(directory: Path, entries: tuple[Path, ...], limit_bytes: int, how: str) -> InvalidInputError:
    setting = "code_limit_mib" if how else "code_unpacked_mib"
    sizes = sorted(((_size(directory / entry), entry) for entry in entries), reverse=True)[:_BIGGEST_SHOWN]
    biggest = ", ".join(f"{entry} ({size / 2**20:.1f} MiB)" for size, entry in sizes)
    return InvalidInputError(
        f"the code in '{directory}' is too large; the biggest files are {biggest}",
        field="spec.code",
        expected=f"at most {limit_bytes / 2**20:g} MiB{how} (setting {setting}); leave files out with {IGNORE_FILE}",
    )


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0  # editors and caches come and go
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
