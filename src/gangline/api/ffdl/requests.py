"""What a handler needs from its request: the tenant, the job, and the two files of an upload."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import IO, NamedTuple, TypeVar

from aiohttp import BodyPartReader, web

from gangline import operations
from gangline.api.bodies import TooLargeError, arriving
from gangline.api.rest.cluster import CODE_LIMITS
from gangline.api.rest.context import context_of
from gangline.dialects.ffdl import NAME_LABEL
from gangline.errors import InvalidInputError, NotFoundError
from gangline.model import Job, Tenant

T = TypeVar("T")

HOME: web.AppKey[Tenant] = web.AppKey("home", str)  # type: ignore[arg-type]  # a tenant is a text
_MOST_MANIFEST_BYTES = 2**20
_IN_MEMORY_BYTES = 2**20


class Upload(NamedTuple):
    """A manifest, and the zip of its model definition if one was sent."""

    manifest: bytes
    definition: IO[bytes] | None


def tenant_of(request: web.Request) -> Tenant:
    """Return the tenant whose trainings are meant: the only one in which the caller may, or the service's own."""
    tenants = context_of(request).caller.tenants
    if tenants is not None and len(tenants) == 1:
        return next(iter(tenants))
    home = request.app[HOME]
    if tenants is None or home in tenants:
        return home
    raise InvalidInputError("you have roles in several tenants", expected="a token, which is for one of them")


async def job_of(request: web.Request) -> Job:
    """Return the job in the path; one that did not come over this interface is none of it."""
    name = request.match_info["model"]
    job = await operations.get_job(context_of(request), tenant_of(request), name)
    if NAME_LABEL not in job.spec.labels or job.id != name:
        raise NotFoundError("model", name)
    return job


@asynccontextmanager
async def upload_of(request: web.Request) -> AsyncIterator[Upload]:
    """Read a multipart body as it comes: each part is bounded, and a large zip is on the disk, until it is used."""
    if not request.content_type.startswith("multipart/"):
        raise InvalidInputError("the body has no parts", field="body", expected="multipart/form-data with a manifest")
    with (
        tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as manifest,
        tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as definition,
    ):
        places = {
            "manifest": (manifest, _MOST_MANIFEST_BYTES),
            "model_definition": (definition, request.app[CODE_LIMITS].packed_bytes),
        }
        arrived = set()
        try:
            reader = await request.multipart()
            while (part := await _in_time(reader.next())) is not None:
                if not isinstance(part, BodyPartReader) or part.name not in places or part.name in arrived:
                    raise InvalidInputError("unexpected part", field=part.headers.get("Content-Disposition", ""))
                arrived.add(part.name)
                await _receive(part, *places[part.name])
        except (ValueError, AssertionError, RuntimeError) as error:
            raise InvalidInputError(f"the body is not understood: {error}", field="body") from error
        if "manifest" not in arrived:
            raise InvalidInputError("C101: there is no manifest", field="manifest", expected="a manifest in YAML")
        yield Upload(manifest.read(), definition if "model_definition" in arrived else None)


async def _receive(part: BodyPartReader, file: IO[bytes], most: int) -> None:
    size = 0
    while chunk := await _in_time(part.read_chunk(1 << 18)):
        size += len(chunk)
        if size > most:
            raise TooLargeError("the part is too large", field=part.name or "", expected=f"at most {most} bytes")
        await asyncio.to_thread(file.write, chunk)
    file.seek(0)


async def _in_time(reading: Awaitable[T]) -> T:
    async with arriving():
        return await reading
