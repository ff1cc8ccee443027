"""Code archives: the working directory a user ships with a job, kept once per content.

An archive lies at ``code_directory/<digest>.tar.gz``, where the digest is the SHA-256 of the file; engines read it
there. It appears under that name only when it is whole and its content matches.
"""

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, BinaryIO, cast

from gangline.errors import InvalidInputError
from gangline.model import CodeLimits
from gangline.operations.desk import Desk
from gangline.runtime.unpacking import Limits, PermanentError, members
from gangline.storage.interface import JobQuery

CODE_PREFIX = "sha256:"
_PAGE = 1000
_GRACE_SECONDS = 3600.0
_DIGEST = re.compile(r"[0-9a-f]{64}")


def code_path(desk: Desk, digest: str) -> Path:
    """Where the archive of that digest lies or would lie; refuses what is no digest."""
    if not _DIGEST.fullmatch(digest):
        raise InvalidInputError(f"'{digest}' is no SHA-256 digest", field="code", expected="64 hexadecimal digits")
    return desk.code_directory / f"{digest}.tar.gz"


def has_code(desk: Desk, digest: str) -> bool:
    """Whether the archive of that digest is here, whole."""
    return code_path(desk, digest).is_file()


async def forget_unused_code(desk: Desk) -> None:
    """Remove every archive that no job or sweep names any more, unless it is so new that its job may be on its way."""
    templates = [sweep.spec.template for sweep in await desk.store.sweeps()]
    used = {template.code.removeprefix(CODE_PREFIX) for template in templates if template.code}
    query = JobQuery(limit=_PAGE)
    while True:
        page = await desk.store.list(query)
        used.update(job.spec.code.removeprefix(CODE_PREFIX) for job in page.jobs if job.spec.code and not job.deleting)
        if page.next is None:
            break
        query = replace(query, after=page.next)
    _remove_archives(desk, used)


def _remove_archives(desk: Desk, used: Collection[str]) -> None:
    for archive in desk.code_directory.glob("*.tar.gz"):
        age = desk.clock.now() - archive.stat().st_mtime
        if archive.name.removesuffix(".tar.gz") not in used and age > _GRACE_SECONDS:
            archive.unlink(missing_ok=True)


async def put_code(desk: Desk, digest: str, chunks: AsyncIterator[bytes], *, limits: CodeLimits) -> None:
    """Keep an archive. Sending one that is here already changes nothing; one with any fault is not kept."""
    path = code_path(desk, digest)
    with _incoming(path) as file:
        found = await _receive(file, chunks, limits.packed_bytes)
        if found != digest:
            raise InvalidInputError(
                f"the archive that arrived has the digest {found}", field="code", expected=f"the digest {digest}"
            )
        await asyncio.to_thread(_check_content, file, limits)


@contextmanager
def _incoming(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that becomes ``path`` if all goes well, and nothing otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".incoming-", delete=False) as file:
        partial = Path(file.name)
        try:
            yield file
            file.flush()
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _check_content(file: IO[bytes], limits: CodeLimits) -> None:
    """Refuse what would not be unpacked, before a job waits for it."""
    file.seek(0)
    try:
        for _ in members(cast(BinaryIO, file), Limits(limits.unpacked_bytes, limits.files)):
            pass
    except PermanentError as error:
        size = f"{limits.unpacked_bytes / 2**20:g} MiB (setting code_unpacked_mib)"
        expected = f"an archive of at most {size} and {limits.files} files (setting code_files)"
        raise InvalidInputError(str(error), field="code", expected=expected) from error


async def _receive(file: IO[bytes], chunks: AsyncIterator[bytes], limit_bytes: int) -> str:
    """Write the chunks and return their digest; disk work stays off the event loop."""
    digest, size = hashlib.sha256(), 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit_bytes:
            raise InvalidInputError(
                "the code archive is too large",
                field="code",
                expected=f"at most {limit_bytes / 2**20:g} MiB; leave files out with .ganglineignore",
            )
        await asyncio.to_thread(file.write, chunk)
        digest.update(chunk)
    return digest.hexdigest()
