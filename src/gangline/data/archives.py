"""Archives by what they begin with: tar, plain or compressed in three ways, and zip."""

import bz2
import lzma
import stat
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from .unpacking import Limits, PermanentError, inside, unpack

_GZIP, _BZIP2, _XZ, _ZIP = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", (b"PK\x03\x04", b"PK\x05\x06")
_BLOCK = 1 << 20


def unpack_archive(path: Path, target: Path, limits: Limits) -> None:
    """Unpack a file into a directory, and never write anywhere else; links that lead out of it are refused."""
    with path.open("rb") as packed:
        head = packed.read(6)
        packed.seek(0)
        if head[:4] in _ZIP:
            _unpack_zip(packed, target, limits)
            return
        stream: BinaryIO = packed
        if head.startswith(_BZIP2):
            stream = cast(BinaryIO, bz2.BZ2File(packed))
        elif head == _XZ:
            stream = cast(BinaryIO, lzma.LZMAFile(packed))  # noqa: SIM115  # the file below it is closed
        try:
            unpack(stream, target, limits, compressed=head.startswith(_GZIP), links_stay_inside=True)
        except (lzma.LZMAError, EOFError) as error:
            raise PermanentError(f"the archive is damaged: {error}") from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise PermanentError(f"the archive is damaged: {error}") from error  # as bz2 says it


def _unpack_zip(packed: BinaryIO, target: Path, limits: Limits) -> None:
    root, left = target.resolve(), float("inf") if limits.size is None else limits.size
    try:
        with zipfile.ZipFile(packed) as archive:
            entries = archive.infolist()
            if limits.files is not None and len(entries) > limits.files:
                raise PermanentError(f"the archive holds more than {limits.files} files")
            for entry in entries:
                left -= _unpack_entry(archive, entry, root, left)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise PermanentError(f"the archive is damaged, or of a kind that is not known: {error}") from error


def _unpack_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, root: Path, most: float) -> int:
    """Unpack one entry and return its size: what the archive says of that is not relied on."""
    path = inside(entry.filename, root)
    mode = entry.external_attr >> 16
    if stat.S_ISLNK(mode):
        raise PermanentError(f"the archive holds {entry.filename}, a link, which zip archives here may not")
    if entry.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    size = 0
    with archive.open(entry) as content, path.open("xb") as file:
        while block := content.read(_BLOCK):
            size += len(block)
            if size > most:
                raise PermanentError("the archive holds more than there is room for when it is unpacked")
            file.write(block)
    path.chmod(mode & 0o755 | 0o600)
    return size
