"""Archives as zip, for interfaces that want them so: into the tar that everything else here uses, and back."""

import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import IO

from gangline.data.unpacking import Limits, PermanentError

_DATE = 946_684_800
_CHUNK_BYTES = 1 << 18
_PROGRAM, _FILE = 0o755, 0o644


def zip_to_tar(packed: IO[bytes], out: IO[bytes], limits: Limits) -> None:
    """Write the files of a zip as a compressed tar whose bytes depend on them alone.

    Raises PermanentError for one that is damaged, leaves its directory, has links, or is larger than its limits:
    what is unpacked is counted, not what the zip says of itself.
    """
    left = limits.size
    try:
        with (
            zipfile.ZipFile(packed) as source,
            gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0, compresslevel=1) as compressed,
            tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            files = sorted((each for each in source.infolist() if not each.is_dir()), key=lambda each: each.filename)
            if limits.files is not None and len(files) > limits.files:
                raise PermanentError(f"the archive holds more than {limits.files} files")
            for each in files:
                _check(each)
                content = _unpacked(source, each, left)
                left = None if left is None else left - len(content)
                archive.addfile(_header(each, len(content)), io.BytesIO(content))
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, ValueError) as error:
        raise PermanentError(f"the zip is damaged: {error}") from error


def tar_to_zip(packed: IO[bytes], out: IO[bytes], *, mode: str, named: Callable[[str], str]) -> None:
    """Write the files of a tar as a zip; ``named`` says what each is called, '' for those that are left out."""
    with (
        tarfile.open(fileobj=packed, mode=mode) as source,  # type: ignore[call-overload]  # a stream's mode, as text
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for member in source:
            name = named(member.name) if member.isfile() else ""
            content = source.extractfile(member) if name else None
            if content is None:
                continue
            header = zipfile.ZipInfo(name, date_time=(2000, 1, 1, 0, 0, 0))
            header.external_attr = (stat.S_IFREG | member.mode & 0o777) << 16
            header.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(header, "w", force_zip64=True) as file:
                while chunk := content.read(_CHUNK_BYTES):
                    file.write(chunk)


def _check(each: zipfile.ZipInfo) -> None:
    path = PurePosixPath(each.filename.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise PermanentError(f"the archive has a file outside of itself: {each.filename!r}")
    if stat.S_ISLNK(each.external_attr >> 16):
        raise PermanentError(f"the archive has a link: {each.filename!r}")
    if each.flag_bits & 1:
        raise PermanentError("the archive is encrypted")


def _unpacked(source: zipfile.ZipFile, each: zipfile.ZipInfo, most: int | None) -> bytes:
    with source.open(each) as file:
        content = file.read() if most is None else file.read(most + 1)
    if most is not None and len(content) > most:
        raise PermanentError("the archive holds more than is allowed when it is unpacked")
    return content


def _header(each: zipfile.ZipInfo, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(str(PurePosixPath(each.filename.replace("\\", "/"))))
    header.size, header.mtime = size, _DATE
    header.mode = _PROGRAM if (each.external_attr >> 16) & 0o111 else _FILE
    return header
