"""Handlers for what belongs to no single job: nodes, usage, queues, code archives, version and health."""

from http import HTTPStatus

from aiohttp import web

from gangline import __version__, operations
from gangline.api.rest.answers import json_answer
from gangline.api.rest.context import body_of, desk_of, tenant_of
from gangline.api.rest.parameters import Parameters
from gangline.model import CodeLimits

CODE_LIMITS: web.AppKey[CodeLimits] = web.AppKey("code_limits", CodeLimits)
_CHUNK_BYTES = 1 << 20


async def nodes(request: web.Request) -> web.Response:
    """Return every node."""
    Parameters(request, ())
    return json_answer(await operations.nodes(desk_of(request)))


async def usage(request: web.Request) -> web.Response:
    """Measure what is used now."""
    Parameters(request, ())
    return json_answer(await operations.usage(desk_of(request)))


async def queues(request: web.Request) -> web.Response:
    """Return every queue."""
    Parameters(request, ())
    return json_answer(await operations.queues(desk_of(request)))


async def head_code(request: web.Request) -> web.Response:
    """Say whether an archive is here, so that a client need not send it."""
    known = operations.has_code(desk_of(request), request.match_info["digest"])
    return web.Response(status=HTTPStatus.OK if known else HTTPStatus.NOT_FOUND)


async def put_code(request: web.Request) -> web.Response:
    """Keep a code archive."""
    chunks = request.content.iter_chunked(_CHUNK_BYTES)
    digest = request.match_info["digest"]
    await operations.put_code(desk_of(request), digest, chunks, limits=request.app[CODE_LIMITS])
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def put_object(request: web.Request) -> web.Response:
    """Bring an object to where the jobs that refer to it will run, in place of one that was brought before."""
    Parameters(request, ())
    found = await body_of(request, dict[str, object])
    await operations.bring_object(desk_of(request), tenant_of(request), found)
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def version(request: web.Request) -> web.Response:
    """Return the version of the service."""
    Parameters(request, ())
    desk_of(request)
    return json_answer({"version": __version__})


async def health(request: web.Request) -> web.Response:
    """Answer if the service can answer at all; reads a record to prove it."""
    Parameters(request, ())
    await operations.queues(desk_of(request))
    return json_answer({"status": "ok"})


def routes() -> list[web.RouteDef]:
    """Every path of this module."""
    return [
        web.get("/v1/nodes", nodes),
        web.get("/v1/usage", usage),
        web.get("/v1/queues", queues),
        web.head("/v1/code/{digest}", head_code),
        web.put("/v1/code/{digest}", put_code),
        web.put("/v1/tenants/{tenant}/objects", put_object),
        web.get("/v1/version", version),
        web.get("/v1/health", health),
    ]
