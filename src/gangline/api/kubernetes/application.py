"""The aiohttp application: who may ask, every route, and the one place where errors become Status objects."""

import hmac
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from weakref import WeakSet

from aiohttp import web

from gangline.api.kubernetes import discovery, jobs, kept, pods
from gangline.api.kubernetes.answers import error_answer, object_answer, refusal_object
from gangline.api.rest.answers import STREAMS, end_streams
from gangline.api.rest.context import DESK_FOR, DeskFor
from gangline.dialects.kubeflow import GROUP
from gangline.errors import GanglineError

_MOST_BODY_BYTES = 3 * 2**20
"""What a cluster takes; a larger object is a mistake."""
_OPEN = frozenset({"/healthz", "/livez", "/readyz"})
_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_kubernetes_app(desk_for: DeskFor, *, token: str) -> web.Application:
    """Build the application; whoever presents the token is the service's owner, and nobody else is answered."""

    @web.middleware
    async def check_token(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if request.path not in _OPEN and not hmac.compare_digest(
            given.encode(errors="surrogateescape"), token.encode()
        ):
            status = HTTPStatus.UNAUTHORIZED
            return object_answer(refusal_object(status, "present the token of 'gangline config kubeconfig'"), status)
        return await handler(request)

    app = web.Application(middlewares=[_answer_errors, check_token], client_max_size=_MOST_BODY_BYTES)
    app[DESK_FOR] = desk_for
    app[STREAMS] = WeakSet()
    app.add_routes(_routes())
    app.on_shutdown.append(end_streams)
    return app


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except GanglineError as error:
        return error_answer(error, creating=request.method == "POST")
    except web.HTTPException as error:
        status = HTTPStatus(error.status)
        detail = error.text if error.text and not error.text.startswith(str(error.status)) else error.reason
        return object_answer(refusal_object(status, f"{request.method} {request.path}: {detail}"), status)
    except Exception:  # noqa: BLE001  # the top of a request: logged, answered, and the service goes on
        _log.exception("%s %s failed", request.method, request.path)
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        return object_answer(
            refusal_object(status, "the service met a defect of its own; its log has the details"), status
        )


def _routes() -> list[web.RouteDef]:
    group = f"/apis/{GROUP}"
    many = f"{group}/{{version}}/namespaces/{{namespace}}/{{plural}}"
    one = f"{many}/{{name}}"
    core = "/api/v1/namespaces/{namespace}"
    return [
        *(web.get(path, discovery.health) for path in sorted(_OPEN)),
        web.get("/version", discovery.version),
        web.get("/api", discovery.core_versions),
        web.get("/api/v1", discovery.core_resources),
        web.get("/apis", discovery.groups),
        web.get(group, discovery.group),
        web.get(f"{group}/{{version}}", discovery.job_resources),
        web.get("/api/v1/namespaces", discovery.namespaces),
        web.get(core, discovery.namespace),
        web.post(many, jobs.create),
        web.get(many, jobs.listing),
        web.get(one, jobs.get),
        web.get(f"{one}/status", jobs.get),
        web.patch(one, jobs.patch),
        web.put(one, jobs.put),
        web.delete(one, jobs.delete),
        web.get(f"{core}/pods", pods.listing),
        web.get(f"{core}/pods/{{name}}", pods.get),
        web.get(f"{core}/pods/{{name}}/log", pods.log),
        web.get(f"{core}/events", pods.events),
        *kept.routes(core),
    ]
