"""Files as streams of an event loop: packed and unpacked in a thread, as they come and go."""

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from gangline.data.tars import Packed, receive, tar_stream
from gangline.errors import StorageFullError

_CHUNK_BYTES = 1 << 18


async def tar_chunks(what: Packed, rights: AbstractContextManager[None] | None = None) -> AsyncGenerator[bytes]:
    """Return files as one tar stream; they are read with some rights."""
    with tar_stream(what, rights) as stream:
        while chunk := await asyncio.to_thread(_read, stream):
            yield chunk


async def receive_stream(stream: AsyncIterator[bytes], draft: Path, rights: AbstractContextManager[None]) -> Path:
    """Unpack a tar stream below a draft directory, with some rights; return the file or directory that came."""
    reading, writing = os.pipe()

    def unpacked() -> Path:
        with os.fdopen(reading, "rb") as source, rights:
            return receive(source, draft)

    unpacking = asyncio.create_task(asyncio.to_thread(unpacked))
    try:
        with os.fdopen(writing, "wb") as out:
            async for chunk in stream:
                # One that is refused reads no more; why is said below.
                await asyncio.to_thread(out.write, chunk)
    except BrokenPipeError:
        pass
    finally:
        await asyncio.wait([unpacking])
    return unpacking.result()


@contextlib.contextmanager
def full_disk_told() -> Iterator[None]:
    """Turn what a full disk raises into what a client is told."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageFullError("no space left on the disk of the service; nothing was changed") from error


def _read(stream: BinaryIO) -> bytes:
    return stream.read(_CHUNK_BYTES)
