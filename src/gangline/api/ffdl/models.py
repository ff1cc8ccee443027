"""Handlers for models: train, list, show, halt and resume, delete, and download what went in and came out."""

import asyncio
import gzip
import hashlib
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import IO

from aiohttp import web

from gangline import operations
from gangline.api.ffdl.requests import Upload, job_of, tenant_of, upload_of
from gangline.api.rest.cluster import CODE_LIMITS
from gangline.api.rest.context import body_of, context_of
from gangline.api.submissions import take_in
from gangline.data.unpacking import Limits, PermanentError
from gangline.data.zips import tar_to_zip, zip_to_tar
from gangline.dialects import Translation, document
from gangline.dialects.ffdl import NAME_LABEL, job_from_value, model_to_plain
from gangline.errors import InvalidInputError, NotFoundError
from gangline.model import Job, JobId
from gangline.operations.code import CODE_PREFIX
from gangline.storage.interface import JobQuery

_MOST_TRAINED_BYTES = 200 * 10**6
_MOST_NAME = 50
_PAGE = 1000
_CHUNK_BYTES = 1 << 18
_RESULTS = "results"


async def create(request: web.Request) -> web.Response:
    """Train a model: a manifest, and the zip of its definition."""
    async with upload_of(request) as upload:
        translation = _translated(upload.manifest)
        code = await _kept(request, upload)
    number = secrets.token_hex(5)
    name, tenant = translation.spec.name, tenant_of(request)
    spec = replace(
        translation.spec,
        name=f"{name[:_MOST_NAME]}-{number}",  # names of trainings need not differ there
        tenant=tenant,
        labels={**translation.spec.labels, NAME_LABEL: name},
        code=code,
    )
    job = await take_in(context_of(request), JobId(f"training-{number}"), replace(translation, spec=spec))
    found = {"model_id": job.id, "location": f"/v1/models/{job.id}"}
    return web.json_response(found, status=HTTPStatus.CREATED, headers={"Location": found["location"]})


async def listing(request: web.Request) -> web.Response:
    """List the trainings that came over this interface."""
    context, tenant = context_of(request), tenant_of(request)
    found, after = list[Job](), None
    while True:
        page = await operations.list_jobs(context, tenant, JobQuery(limit=_PAGE, after=after))
        found += [job for job in page.jobs if NAME_LABEL in job.spec.labels]
        if (after := page.next) is None:
            return web.json_response({"models": [model_to_plain(job) for job in found]})


async def get(request: web.Request) -> web.Response:
    """Show a training."""
    return web.json_response(model_to_plain(await job_of(request)))


async def change(request: web.Request) -> web.Response:
    """Halt a training, or let a halted one go on from its checkpoint."""
    verbs = {"halt": operations.halt, "resume": operations.resume}
    wanted = (await body_of(request, dict[str, object])).get("status")
    if not isinstance(wanted, str) or wanted not in verbs:
        raise InvalidInputError(f"'{wanted}' is not a status to change to", field="status", expected="halt or resume")
    job = await job_of(request)
    await verbs[wanted](context_of(request), job.spec.tenant, job.id)
    return web.json_response({"model_id": job.id}, status=HTTPStatus.ACCEPTED)


async def delete(request: web.Request) -> web.Response:
    """Delete a training, but nothing in its data stores."""
    job = await job_of(request)
    await operations.delete(context_of(request), job.spec.tenant, job.id)
    return web.json_response({"model_id": job.id})


async def definition(request: web.Request) -> web.StreamResponse:
    """Download the model definition as a zip."""
    job = await job_of(request)
    path = await operations.code_of(context_of(request), job.spec.tenant, job.id)

    def write(out: IO[bytes]) -> None:
        with gzip.open(path, "rb") as packed:
            tar_to_zip(packed, out, mode="r|", named=str)  # type: ignore[arg-type]  # it is read as a file is

    return await _zipped(request, write, f"{job.id}-definition.zip")


async def trained_model(request: web.Request) -> web.StreamResponse:
    """Download what the training wrote to its results, as a zip; refused where that is more than 200 MB."""
    job = await job_of(request)
    context, tenant = context_of(request), job.spec.tenant
    files = await operations.list_files(context, tenant, job.id, _RESULTS)
    size = sum(file.size_bytes for file in files)
    if not files:
        raise NotFoundError("trained model", job.id, hint="the training has written nothing yet")
    if size > _MOST_TRAINED_BYTES:
        raise InvalidInputError(f"the trained model has {size} bytes", expected=f"at most {_MOST_TRAINED_BYTES}")
    with tempfile.TemporaryFile() as packed:
        chunks = await operations.read_files(context, tenant, job.id, _RESULTS)
        async with aclosing(chunks):
            async for chunk in chunks:
                await asyncio.to_thread(packed.write, chunk)
        packed.seek(0)

        def write(out: IO[bytes]) -> None:
            tar_to_zip(packed, out, mode="r|", named=_below)

        return await _zipped(request, write, f"{job.id}-model.zip")


def _below(name: str) -> str:
    """Name a file without the directory that all of them are in."""
    return name.partition("/")[2]


def _translated(manifest: bytes) -> Translation:
    try:
        values = document.parse(manifest.decode())
        if len(values) != 1:
            raise InvalidInputError(f"there are {len(values)} documents", expected="one")
        return job_from_value(values[0])
    except (UnicodeDecodeError, InvalidInputError) as error:
        raise InvalidInputError(f"C101: {error}", field="manifest") from error


async def _kept(request: web.Request, upload: Upload) -> str | None:
    """Keep the model definition as the code of any job is kept; return its name."""
    if upload.definition is None:
        return None
    limits, source = request.app[CODE_LIMITS], upload.definition
    with tempfile.TemporaryFile() as packed:
        try:
            wanted = Limits(limits.unpacked_bytes, limits.files)
            await asyncio.to_thread(zip_to_tar, source, packed, wanted)
        except PermanentError as error:
            raise InvalidInputError(f"C102: {error}", field="model_definition") from error
        packed.seek(0)
        digest = (await asyncio.to_thread(hashlib.file_digest, packed, "sha256")).hexdigest()
        packed.seek(0)
        await operations.put_code(context_of(request), digest, _chunks(packed), limits=limits)
    return f"{CODE_PREFIX}{digest}"


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
        yield chunk


async def _zipped(request: web.Request, write: Callable[[IO[bytes]], None], name: str) -> web.StreamResponse:
    """Answer with a zip that is written to the disk first: what is wrong is then still answered as an error."""
    with tempfile.TemporaryFile() as out:
        await asyncio.to_thread(write, out)
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f'attachment; filename="{Path(name).name}"',
            "Content-Length": str(out.tell()),
        }
        out.seek(0)
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        with suppress(ConnectionResetError):  # a client that goes away has seen enough
            async for chunk in _chunks(out):
                await response.write(chunk)
            await response.write_eof()
        return response
