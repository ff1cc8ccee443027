"""Handlers for what belongs to no single job: nodes, usage, code archives, version and health."""

from http import HTTPStatus

from aiohttp import web

from gangline import __version__, operations
from gangline.api.bodies import body_chunks
from gangline.api.operation import Operation, get, head, put
from gangline.api.rest.answers import json_answer
from gangline.api.rest.context import body_of, context_of, tenant_of
from gangline.api.rest.parameters import Parameters
from gangline.kinds.queue import QUEUE
from gangline.model import CodeLimits, Node, Timestamp, Usage
from gangline.model.team.access import Right
from gangline.model.team.accounting import Group, Period, UsageReport

CODE_LIMITS: web.AppKey[CodeLimits] = web.AppKey("code_limits", CodeLimits)


async def nodes(request: web.Request) -> web.Response:
    """Return every node."""
    return json_answer(await operations.nodes(context_of(request)))


async def usage(request: web.Request) -> web.Response:
    """Measure what is used now."""
    return json_answer(await operations.usage(context_of(request)))


async def usage_report(request: web.Request) -> web.Response:
    """Add up what was used: by tenant, queue or user, and by hour, day or month."""
    parameters = Parameters(request)
    words = [word for text in parameters.texts("by") for word in text.split(",")]
    found = await operations.usage_report(
        context_of(request),
        tenant_of(request) if "tenant" in request.match_info else None,
        since=parameters.time("since"),
        until=parameters.time("until"),
        by=[parameters.choice("by", word, Group) for word in words] or (Group.TENANT,),
        every=parameters.parsed("every", Period, f"one of {', '.join(Period)}"),
    )
    return json_answer(found)


async def head_code(request: web.Request) -> web.Response:
    """Say whether an archive is here, so that a client need not send it."""
    known = operations.has_code(context_of(request), request.match_info["digest"])
    return web.Response(status=HTTPStatus.OK if known else HTTPStatus.NOT_FOUND)


async def head_packages(request: web.Request) -> web.Response:
    """Say whether a list of packages is here."""
    known = operations.has_packages(context_of(request), request.match_info["digest"])
    return web.Response(status=HTTPStatus.OK if known else HTTPStatus.NOT_FOUND)


async def put_packages(request: web.Request) -> web.Response:
    """Keep a list of packages."""
    await operations.put_packages(context_of(request), request.match_info["digest"], body_chunks(request))
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def put_code(request: web.Request) -> web.Response:
    """Keep a code archive."""
    digest = request.match_info["digest"]
    await operations.put_code(context_of(request), digest, body_chunks(request), limits=request.app[CODE_LIMITS])
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def put_object(request: web.Request) -> web.Response:
    """Bring an object to where the jobs that refer to it will run, in place of one that was brought before."""
    found = await body_of(request, dict[str, object])
    await operations.bring_object(context_of(request), tenant_of(request), found)
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def version(request: web.Request) -> web.Response:
    """Return the version of the service."""
    context_of(request)
    return json_answer({"version": __version__})


async def health(request: web.Request) -> web.Response:
    """Answer if the service can answer at all; reads a record to prove it."""
    await operations.list_records(context_of(request), QUEUE, None, limit=1)
    return json_answer({"status": "ok"})


def operations_here() -> list[Operation]:
    """Every operation of this module."""
    nothing = HTTPStatus.NO_CONTENT
    asked = {"since": Timestamp, "until": Timestamp, "by": list[str], "every": str}
    reported = {"query": asked, "answer": UsageReport}
    whose = ((Right.READ, "/tenants/{tenant}"), (Right.OPERATE, ""))
    return [
        get(Right.READ, "/nodes", nodes, answer=list[Node]),
        get(Right.READ, "/usage", usage, answer=Usage),
        *(get(right, f"{path}/usage-report", usage_report, **reported) for right, path in whose),
        head(Right.WRITE, "/code/{digest}", head_code),
        put(Right.WRITE, "/code/{digest}", put_code, body=bytes, status=nothing),
        head(Right.WRITE, "/packages/{digest}", head_packages),
        put(Right.WRITE, "/packages/{digest}", put_packages, body=bytes, status=nothing),
        put(Right.WRITE, "/tenants/{tenant}/objects", put_object, body=dict[str, object], status=nothing),
        get(Right.ASK, "/version", version, answer=dict[str, str]),
        get(Right.ASK, "/health", health, answer=dict[str, str]),
    ]
