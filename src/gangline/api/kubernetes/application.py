"""The aiohttp application: who may ask, every route, and the one place where errors become Status objects."""

import base64
import hmac
import logging
from collections.abc import Sequence
from http import HTTPStatus
from weakref import WeakSet

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api import kfp
from gangline.api import operation as row
from gangline.api.errors import STATUS_OF
from gangline.api.kubernetes import config_objects, discovery, jobs, pods
from gangline.api.kubernetes.answers import error_answer, kubernetes_status, object_answer, refusal_object
from gangline.api.operation import Handler
from gangline.api.rest.answers import STREAMS, end_streams
from gangline.api.rest.context import CONTEXT_FOR, ContextFor
from gangline.dialects.kubeflow import GROUP
from gangline.errors import GanglineError
from gangline.model.team.access import Right

_MOST_BODY_BYTES = 3 * 2**20
"""What a cluster takes; a larger object is a mistake."""
_OPEN = frozenset({"/healthz", "/livez", "/readyz"})
_log = logging.getLogger(__name__)


def make_kubernetes_app(
    context_for: ContextFor,
    *,
    token: str = "",
    check: Middleware | None = None,
    around: Sequence[Middleware] = (),
    behind: Sequence[Middleware] = (),
) -> web.Application:
    """Build the application; whoever presents the token is the service's owner, and nobody else is answered.

    With ``check`` it is that which finds out who asks, and what they may do.
    """

    @web.middleware
    async def check_token(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _OPEN or kfp.presents(request, token):
            return await handler(request)
        if hmac.compare_digest(_presented(request), token.encode()):
            return await handler(request)
        if kfp.PREFIX in request.path:
            return kfp.refuse_without_token()
        status = HTTPStatus.UNAUTHORIZED
        return object_answer(refusal_object(status, "present the token of 'gangline config kubeconfig'"), status)

    checks = (check_token, *around) if check is None else (*around, check, *behind)
    app = web.Application(middlewares=[_answer_errors, *checks], client_max_size=_MOST_BODY_BYTES)
    app[CONTEXT_FOR] = context_for
    app[STATUS_OF] = kubernetes_status
    app[STREAMS] = WeakSet()
    row.add_operations(app, _operations())
    kfp.mount(app, context_for, token=token, within=around if check is None else checks)
    app.on_shutdown.append(end_streams)
    return app


def _presented(request: web.Request) -> bytes:
    """Return the token that a client presents, as a bearer or as the password in the address it was given.

    kubectl sends a bearer's token over TLS alone, which nobody needs on a loopback address.
    """
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme != "Basic":
        return given.encode(errors="surrogateescape")
    try:
        return base64.b64decode(given, validate=True).partition(b":")[2]
    except ValueError:
        return b""


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
        return object_answer(refusal_object(status, "internal error; see the service log"), status)


def _operations() -> list[row.Operation]:
    group = f"/apis/{GROUP}"
    many = f"{group}/{{version}}/namespaces/{{namespace}}/{{plural}}"
    one = f"{many}/{{name}}"
    core = "/api/v1/namespaces/{namespace}"
    return [
        *(row.get(Right.ANYONE, path, discovery.health) for path in sorted(_OPEN)),
        row.get(Right.ASK, "/version", discovery.version),
        row.get(Right.ASK, "/openapi/v3", discovery.open_api),
        row.get(Right.ASK, "/openapi/v3/apis/{group}/{version}", discovery.open_api_of_version),
        row.get(Right.ASK, "/api", discovery.core_versions),
        row.get(Right.ASK, "/api/v1", discovery.core_resources),
        row.get(Right.ASK, "/apis", discovery.groups),
        *(row.get(Right.ASK, f"/apis/{name}", discovery.group) for name in discovery.GROUPS),
        *(row.get(Right.ASK, f"/apis/{name}/{{version}}", discovery.group_resources) for name in discovery.GROUPS),
        row.get(Right.ASK, "/api/v1/namespaces", discovery.namespaces),
        row.get(Right.READ, core, discovery.namespace),
        *(each for kind in discovery.FOREIGN for each in kind.routes()),
        row.post(Right.WRITE, many, jobs.create),
        row.get(Right.READ, many, jobs.listing),
        row.get(Right.READ, one, jobs.get),
        row.get(Right.READ, f"{one}/status", jobs.get),
        row.patch(Right.WRITE, one, jobs.patch),
        row.put(Right.WRITE, one, jobs.put),
        row.delete(Right.WRITE, one, jobs.delete),
        row.get(Right.READ, f"{core}/pods", pods.listing),
        row.get(Right.READ, f"{core}/pods/{{name}}", pods.get),
        row.get(Right.READ, f"{core}/pods/{{name}}/log", pods.log),
        row.get(Right.READ, f"{core}/events", pods.events),
        *config_objects.routes(core),
    ]
