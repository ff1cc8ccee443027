"""Handlers for files that travel as one stream: of models, and of jobs."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus

from aiohttp import web

from gangline import operations
from gangline.api.bodies import body_chunks
from gangline.api.operation import Operation, delete, get, put
from gangline.api.rest.answers import json_answer
from gangline.api.rest.context import context_of, reference_of, tenant_of
from gangline.api.rest.parameters import Parameters
from gangline.data.unpacking import PermanentError
from gangline.errors import GanglineError, InvalidInputError
from gangline.model.jobs.job_file import JobFile
from gangline.model.kinds.registered_model import Model, ModelVersion
from gangline.model.lineage import Lineage
from gangline.model.team.access import Right


async def register(request: web.Request) -> web.Response:
    """Register the stream in the body as a version of a model."""
    parameters = Parameters(request)
    context, tenant, name = context_of(request), tenant_of(request), request.match_info["name"]
    framework = parameters.text("framework") or ""
    made = await operations.register_model(context, tenant, name, body_chunks(request), framework=framework)
    return json_answer(made, HTTPStatus.CREATED)


async def download(request: web.Request) -> web.StreamResponse:
    """Return the files of a version as a stream."""
    parameters = Parameters(request)
    version, alias = parameters.number("version", least=1), parameters.text("alias") or ""
    context, tenant, name = context_of(request), tenant_of(request), request.match_info["name"]
    return await streamed(request, await operations.model_files(context, tenant, name, version, alias))


async def promote(request: web.Request) -> web.Response:
    """Let an alias lead to the version in the query."""
    number = Parameters(request).number("version", least=1)
    if number is None:
        raise InvalidInputError("no version is given", field="version", expected="a number")
    return json_answer(await _promoted(request, number))


async def demote(request: web.Request) -> web.Response:
    """Take an alias away."""
    return json_answer(await _promoted(request, None))


async def _promoted(request: web.Request, number: int | None) -> object:
    match = request.match_info
    return await operations.promote(context_of(request), tenant_of(request), match["name"], match["alias"], number)


async def delete_version(request: web.Request) -> web.Response:
    """Delete a version that nobody uses."""
    number = request.match_info["number"]
    name = request.match_info["name"]
    return json_answer(await operations.delete_version(context_of(request), tenant_of(request), name, int(number)))


async def list_files(request: web.Request) -> web.Response:
    """Return what a job has at a path: every file with its size."""
    path = Parameters(request).text("path") or ""
    found = await operations.list_files(context_of(request), tenant_of(request), reference_of(request), path)
    return json_answer(found)


async def read_files(request: web.Request) -> web.StreamResponse:
    """Return a file or a directory of a job as a stream."""
    path = Parameters(request).text("path") or ""
    found = await operations.read_files(context_of(request), tenant_of(request), reference_of(request), path)
    return await streamed(request, found)


async def put_files(request: web.Request) -> web.Response:
    """Put the stream in the body among the files of a job."""
    path = Parameters(request).text("path") or ""
    context, tenant, job = context_of(request), tenant_of(request), reference_of(request)
    return json_answer(
        await operations.write_files(context, tenant, job, path, body_chunks(request)), HTTPStatus.CREATED
    )


async def job_code(request: web.Request) -> web.StreamResponse:
    """Return the archive of a job's code."""
    path = await operations.code_of(context_of(request), tenant_of(request), reference_of(request))
    return web.FileResponse(path, headers={"Content-Type": "application/gzip"})


async def job_packages(request: web.Request) -> web.Response:
    """Return the packages that were installed where a job was submitted."""
    found = await operations.packages_of(context_of(request), tenant_of(request), reference_of(request))
    return json_answer(found)


async def lineage(request: web.Request) -> web.Response:
    """Return where something came from."""
    target = Parameters(request).text("of")
    if target is None:
        raise InvalidInputError("nothing is named", field="of", expected="an address, a model or a job")
    return json_answer(await operations.lineage(context_of(request), tenant_of(request), target))


async def streamed(request: web.Request, chunks: AsyncGenerator[bytes]) -> web.StreamResponse:
    """Answer with files; a stream that fails on its way is cut, so that it does not look whole."""
    async with aclosing(chunks):
        # What is wrong from the beginning is still answered as an error.
        first = await anext(chunks, b"")
        response = web.StreamResponse(headers={"Content-Type": "application/x-tar"})
        await response.prepare(request)
        try:
            await response.write(first)
            async for chunk in chunks:
                await response.write(chunk)
        except (OSError, PermanentError, GanglineError):
            if request.transport is None or request.transport.is_closing():
                return response  # its client went away, and has seen enough
            request.transport.abort()
            raise
        await response.write_eof()
        return response


def operations_here() -> list[Operation]:
    """Every operation of this module."""
    model = "/tenants/{tenant}/models/{name}"
    job = "/tenants/{tenant}/jobs/{job}"
    new, path = HTTPStatus.CREATED, {"path": str}
    chosen = {"version": int, "alias": str}
    return [
        get(Right.READ, f"{job}/files", list_files, query=path, answer=list[JobFile]),
        get(Right.READ, f"{job}/content", read_files, query=path, answer=bytes),
        put(Right.WRITE, f"{job}/content", put_files, query=path, body=bytes, answer=JobFile, status=new),
        get(Right.READ, f"{job}/code", job_code, answer=bytes),
        get(Right.READ, f"{job}/packages", job_packages, answer=list[str]),
        get(Right.READ, "/tenants/{tenant}/lineage", lineage, query={"of": str}, answer=Lineage),
        put(
            Right.WRITE,
            f"{model}/files",
            register,
            query={"framework": str},
            body=bytes,
            answer=ModelVersion,
            status=new,
        ),
        get(Right.READ, f"{model}/files", download, query=chosen, answer=bytes),
        put(Right.WRITE, f"{model}/aliases/{{alias}}", promote, query={"version": int}, answer=Model),
        delete(Right.WRITE, f"{model}/aliases/{{alias}}", demote, answer=Model),
        delete(Right.WRITE, rf"{model}/versions/{{number:[0-9]+}}", delete_version, answer=Model),
    ]
