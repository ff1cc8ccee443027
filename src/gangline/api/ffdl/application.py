"""The aiohttp application: every route, who asks, and the one place where errors become answers in FfDL's form."""

import base64
import logging
from collections.abc import Sequence
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api import operation as row
from gangline.api.errors import status_of
from gangline.api.ffdl import logs, models
from gangline.api.ffdl.requests import HOME
from gangline.api.identity import NOT_VALID, Recognize
from gangline.api.operation import Handler, Identify, Operation
from gangline.api.rest.cluster import CODE_LIMITS
from gangline.api.rest.context import CONTEXT_FOR, ContextFor
from gangline.errors import GanglineError, UnauthenticatedError
from gangline.model import CodeLimits, Tenant
from gangline.model.team.access import Identity, Right

PREFIX = "/v1"
_TOKEN_HEADER = "X-Watson-Authorization-Token"  # noqa: S105  # the name of a header
_MOST_BODY_BYTES = 2**20
_VERSION = {"version": str}
_log = logging.getLogger(__name__)


def make_ffdl_app(
    context_for: ContextFor, *, home: Tenant, code_limits: CodeLimits, within: Sequence[Middleware] = ()
) -> web.Application:
    """Build the application, to be served below ``PREFIX``; ``within`` finds out who asks.

    ``home`` is the tenant of operators, who have none of their own: FfDL knows no tenants.
    """
    app = web.Application(middlewares=[_answer_errors, *within], client_max_size=_MOST_BODY_BYTES)
    app[CONTEXT_FOR] = context_for
    app[HOME] = home
    app[CODE_LIMITS] = code_limits
    row.add_operations(app, operations_here())
    return app


def operations_here() -> list[Operation]:
    """Every operation of the interface."""
    one = "/models/{model}"
    read, write, new = Right.READ, Right.WRITE, HTTPStatus.CREATED
    followed = {**_VERSION, "follow": bool, "since_time": str}
    paged = {**_VERSION, "searchType": str, "since_time": str, "pagesize": int, "pos": int}
    return [
        row.post(write, "/models", models.create, query=_VERSION, body=bytes, answer=dict[str, object], status=new),
        row.get(read, "/models", models.listing, query=_VERSION, answer=dict[str, object]),
        row.get(read, one, models.get, query=_VERSION, answer=dict[str, object]),
        row.patch(write, one, models.change, query=_VERSION, body=dict[str, object], answer=dict[str, object]),
        row.delete(write, one, models.delete, query=_VERSION, answer=dict[str, object]),
        row.get(read, f"{one}/definition", models.definition, query=_VERSION, answer=bytes),
        row.get(read, f"{one}/trained_model", models.trained_model, query=_VERSION, answer=bytes),
        row.get(read, f"{one}/logs", logs.follow_lines, query=followed, answer=bytes),
        row.get(read, f"{one}/metrics", logs.follow_metrics, query=followed, answer=bytes),
        row.get(read, "/logs/{model}/loglines", logs.lines, query=paged, answer=dict[str, object]),
        row.get(read, "/logs/{model}/emetrics", logs.metrics, query=paged, answer=dict[str, object]),
    ]


def ffdl_identify(identify: Identify, recognize: Recognize) -> Identify:
    """Believe a token also where FfDL's clients can put one: as the password of Basic, or in Watson's header.

    What they say of themselves in other headers (``X-Watson-Userinfo``) is worth nothing here.
    """

    async def found(request: web.Request) -> Identity:
        given = presented_token(request)
        if given is None:
            return await identify(request)
        identity = await recognize(given) if given.isascii() else None
        if identity is None:
            raise UnauthenticatedError(NOT_VALID)
        return identity

    return found


def presented_token(request: web.Request) -> str | None:
    """Return the token that a request brings in a way of FfDL's clients; None if it brings none so."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(given, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return None if given else request.headers.get(_TOKEN_HEADER)


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except GanglineError as error:
        return _refusal(status_of(error), str(error))
    except web.HTTPException as error:
        return _refusal(HTTPStatus(error.status), error.reason)
    except Exception:  # noqa: BLE001  # the top of a request: logged, answered, and the service goes on
        _log.exception("%s %s failed", request.method, request.path)
        return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the service log")


def _refusal(status: HTTPStatus, description: str) -> web.Response:
    headers = {"WWW-Authenticate": 'Basic realm="gangline"'} if status is HTTPStatus.UNAUTHORIZED else None
    body = {"code": status.value, "error": status.phrase, "description": description}
    return web.json_response(body, status=status, headers=headers)
