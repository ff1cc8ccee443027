"""Code archives: the working directory a user ships with a job, kept once per content.

An archive lies at ``code_directory/<digest>.tar.gz``, where the digest is the SHA-256 of the file; engines read it
there. It appears under that name only when it is whole and its content matches.
"""

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gangline.errors import InvalidInputError
from gangline.operations.desk import Desk

CODE_PREFIX = "sha256:"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def code_path(desk: Desk, digest: str) -> Path:
    """Where the archive of that digest lies or would lie; refuses what is no digest."""
    if not _DIGEST.fullmatch(digest):
        raise InvalidInputError(f"'{digest}' is no SHA-256 digest", field="code", expected="64 hexadecimal digits")
    return desk.code_directory / f"{digest}.tar.gz"


def has_code(desk: Desk, digest: str) -> bool:
    """Whether the archive of that digest is here, whole."""
    return code_path(desk, digest).is_file()


async def put_code(desk: Desk, digest: str, chunks: AsyncIterator[bytes], *, limit_bytes: int) -> None:
    """Keep an archive. Sending one that is here already changes nothing; a wrong digest or size keeps nothing."""
    path = code_path(desk, digest)
    with _incoming(path) as file:
        found = await _receive(file, chunks, limit_bytes)
        if found != digest:
            raise InvalidInputError(
                f"the archive that arrived has the digest {found}", field="code", expected=f"the digest {digest}"
            )


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
