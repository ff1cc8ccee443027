"""Files on their way between a client and a service: one tar stream, and nothing half there at its end.

What travels is below ``directory/``, or is the one entry of ``file/``: whoever receives it must know which it is.
"""

import contextlib
import os
import shutil
import tarfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from .moving import install, name_target, remove
from .trees import Entry, Tree, check_is_file
from .unpacking import Limits, PermanentError, unpack

DIRECTORY, FILE = "directory", "file"


class Packed(NamedTuple):
    """What a stream is made of, and whether that is a directory or one file."""

    kind: str
    entries: Iterable[Entry]


def packed(source: Path) -> Packed:
    """Read a file or a directory from the disk; raises FileNotFoundError."""
    if source.is_dir():
        return Packed(DIRECTORY, Tree(source))
    check_is_file(source)
    return Packed(FILE, [Entry(source.name, source)])


def write_tar(what: Packed, out: BinaryIO) -> None:
    """Write the stream."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        top = tarfile.TarInfo(what.kind)
        top.type, top.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(top)
        for entry in what.entries:
            with contextlib.suppress(FileNotFoundError):  # a program that runs comes and goes with its files
                _add(archive, f"{what.kind}/{entry.name}", entry)


def _add(archive: tarfile.TarFile, name: str, entry: Entry) -> None:
    header = tarfile.TarInfo(name)
    status = entry.path.lstat() if entry.link is not None else entry.path.stat()
    header.mtime, header.mode = int(status.st_mtime), status.st_mode & 0o777
    if entry.link is not None:
        header.type, header.linkname = tarfile.SYMTYPE, entry.link
        archive.addfile(header)
    elif entry.is_directory:
        header.type, header.mode = tarfile.DIRTYPE, header.mode | 0o700
        archive.addfile(header)
    else:
        with entry.path.open("rb") as content:
            header.size = os.fstat(content.fileno()).st_size
            # A file that grows while it is read travels as long as it was.
            archive.addfile(header, content)


@contextlib.contextmanager
def tar_stream(what: Packed, rights: AbstractContextManager[object] | None = None) -> Iterator[BinaryIO]:
    """Return a stream to read from, written by a thread with these ``rights``; a failure comes at the end."""
    reading, writing = os.pipe()
    failures: list[Exception] = []

    def write() -> None:
        try:
            with os.fdopen(writing, "wb") as out, rights or contextlib.nullcontext():
                write_tar(what, out)
        except BrokenPipeError:
            pass  # whoever reads has seen enough
        except (OSError, PermanentError) as error:
            failures.append(error)

    thread = threading.Thread(target=write, daemon=True)
    with os.fdopen(reading, "rb") as stream:
        thread.start()
        yield stream
    thread.join()
    if failures:
        raise failures[0]


class Chunks:
    """Chunks as a file that is read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return that many bytes, or fewer at the end."""
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def receive(stream: "BinaryIO | Chunks", draft: Path) -> Path:
    """Unpack a stream below a draft directory; return the file or directory that came."""
    draft.mkdir(parents=True, mode=0o700)
    limits = Limits(shutil.disk_usage(draft).free, of_disk=True)
    unpack(cast(BinaryIO, stream), draft, limits, compressed=False, links_stay_inside=True)
    if (draft / DIRECTORY).is_dir():
        return draft / DIRECTORY
    found = list((draft / FILE).iterdir()) if (draft / FILE).is_dir() else []
    if len(found) != 1:
        raise PermanentError("what arrived is neither a file nor a directory")
    return found[0]


def put(arrived: Path, target: Path, *, into: bool) -> Path:
    """Give what arrived its place: a directory's content into a directory, a file under its own name or a new one."""
    if arrived.is_file() and (into or target.is_dir()):
        target = target / arrived.name
    if arrived.is_dir() and target.exists() and not target.is_dir():
        raise PermanentError(f"{target} is a file, and a directory is to go there")
    _check_can_hold(target)
    install(arrived, target)
    return target


def _check_can_hold(target: Path) -> None:
    """Refuse a place below a file."""
    above = next(parent for parent in target.absolute().parents if parent.exists() or parent.is_symlink())
    if not above.is_dir():
        raise PermanentError(f"{above} is not a directory, and {target.name} is to go into it")


def receive_into(stream: "BinaryIO | Chunks", target: Path, *, into: bool) -> Path:
    """Unpack a stream to a place, whole or not at all."""
    _check_can_hold(target)
    parent = target if target.is_dir() else target.absolute().parent
    draft = parent / f".gangline-draft-{os.getpid()}-{threading.get_ident()}"
    try:
        return put(receive(stream, draft), target, into=into)
    except OSError as error:
        name_target(error, draft, target)
        raise
    finally:
        with contextlib.suppress(OSError):
            remove(draft)
