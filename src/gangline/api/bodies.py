"""What clients send, and how long and how large it may be: a client that stops in the middle must not be waited for."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gangline.errors import GanglineError, InvalidInputError

STALL_SECONDS = 60.0
"""How long a client may take for a document, or for the next part of a stream."""
MOST_STREAM_BYTES: web.AppKey[int] = web.AppKey("most_stream_bytes", int)
"""How large the files may be that somebody sends in one request; as large as the disk permits, if it is not said."""
BODY_HASH: web.RequestKey["hashlib._Hash"] = web.RequestKey("body_hash", object)  # type: ignore[arg-type]  # a C type
"""Hashes a stream as it comes, where somebody must know whether it is the same as another."""
_CHUNK_BYTES = 1 << 18


class StalledError(GanglineError):
    """A client has stopped in the middle of what it sends."""

    def __init__(self) -> None:
        super().__init__(f"nothing came for {STALL_SECONDS:g} s; send it again")


class TooLargeError(InvalidInputError):
    """What a client sends is larger than is allowed."""


@asynccontextmanager
async def arriving() -> AsyncIterator[None]:
    """Wait for what a client sends; refuse one that stops, hangs up or sends no HTTP in the middle of it."""
    try:
        async with asyncio.timeout(STALL_SECONDS):
            yield
    except TimeoutError as error:
        raise StalledError from error
    except (ConnectionError, aiohttp.ClientPayloadError, HttpProcessingError, web.RequestPayloadError) as error:
        raise InvalidInputError("the body breaks off", field="body", expected="all of it") from error


async def whole_body(request: web.Request) -> bytes:
    """Return a document, which must come within a minute."""
    async with arriving():
        return await request.read()


async def body_chunks(request: web.Request) -> AsyncIterator[bytes]:
    """Return a stream as it comes; raises what it must be refused with on the way."""
    most, arrived = request.config_dict.get(MOST_STREAM_BYTES), 0
    _check_size(request.content_length or 0, most)
    chunks = request.content.iter_chunked(_CHUNK_BYTES)
    while True:
        async with arriving():
            chunk = await anext(chunks, b"")
        if not chunk:
            return
        arrived += len(chunk)
        _check_size(arrived, most)
        if BODY_HASH in request:
            request[BODY_HASH].update(chunk)
        yield chunk


def _check_size(size: int, most: int | None) -> None:
    if most is not None and size > most:
        raise TooLargeError(
            "what is sent is too large", field="body", expected=f"at most {most >> 20} MiB (setting upload_limit_mib)"
        )
