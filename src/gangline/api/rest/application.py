"""The aiohttp application: every route, and the one place where errors become answers."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from weakref import WeakSet

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline import __version__
from gangline.api import measuring
from gangline.api.errors import status_of
from gangline.api.measuring import NUMBERS
from gangline.api.operation import Handler, Operation, add_operations, get, operation_of
from gangline.api.request_ids import REQUEST_ID, numbering, tell_request_id
from gangline.api.rest import cluster, dashboard, files, jobs, observation, records, team
from gangline.api.rest.answers import STREAMS, end_streams, json_answer
from gangline.api.rest.change_log import CHANGES, ChangeLogs
from gangline.api.rest.context import CONTEXT_FOR, ContextFor
from gangline.api.rest.conventions import conventions
from gangline.api.rest.conventions.former_state import looking_before
from gangline.api.rest.manual import HEADERS, manual
from gangline.api.rest.openapi import openapi
from gangline.api.rest.parameters import Parameters
from gangline.errors import GanglineError, InvalidInputError, NotFoundError, RequestUnderWayError, StorageError
from gangline.kinds import all_kinds
from gangline.model import CodeLimits
from gangline.model.team.access import Right
from gangline.storage.answers import MemoryAnswers
from gangline.telemetry import Numbers
from gangline.wire import LoginWays, error_to_body, plain

VERSION_HEADER = "Gangline-Version"
_MOST_BODY_BYTES = 8 * 2**20
"""A job file is text; one of more than this is a mistake."""

_HEADERS = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    HTTPStatus.TOO_MANY_REQUESTS: {"Retry-After": "1"},
}
_log = logging.getLogger(__name__)


PREFIX = "/api/v1"


def all_operations() -> list[Operation]:
    """Return the whole table, by paths below ``PREFIX``."""
    return [
        *jobs.operations_here(),
        *observation.operations_here(),
        *files.operations_here(),
        *dashboard.operations_here(),
        *records.operations_of(all_kinds()),
        *cluster.operations_here(),
        *team.operations_here(),
        get(Right.ANYONE, "/openapi.json", described, answer=dict[str, object]),
    ]


async def shown(request: web.Request) -> web.Response:
    """Return the same as a page for people."""
    return web.Response(text=_manual(), content_type="text/html", headers=HEADERS)


@cache
def _manual() -> str:
    """Written once: nobody needs to log in to ask for it."""
    return manual(openapi(all_operations(), PREFIX))


async def described(request: web.Request) -> web.Response:
    """Return the OpenAPI document of this interface."""
    return json_answer(openapi(all_operations(), PREFIX))


def make_app(
    context_for: ContextFor,
    *,
    code_limits: CodeLimits | None = None,
    check: Middleware | None = None,
    around: Sequence[Middleware] = (),
    behind: Sequence[Middleware] = (),
    login: LoginWays | None = None,
    open_dashboard: dashboard.OpenDashboard | None = None,
    open_workspace: dashboard.OpenWorkspace | None = None,
    numbers: Numbers | None = None,
) -> web.Application:
    """Build the application. ``context_for`` makes the context of a request; the composition root supplies it.

    ``around`` and ``behind`` stand around and behind the ``check`` of who may. Without one, it is ``context_for``
    that finds out who asks, and whoever it lets in may do everything.
    """
    within = (*around, *(() if check is None else (check, *behind, looking_before)))
    first = (numbering, _answer_errors)
    usual = conventions(MemoryAnswers())
    app = web.Application(middlewares=[*first, *within, _check_query, usual], client_max_size=_MOST_BODY_BYTES)
    app.on_response_prepare.append(tell_request_id)
    app[CONTEXT_FOR] = context_for
    app[STREAMS] = WeakSet()
    app[CHANGES] = ChangeLogs()
    app[team.LOGIN] = login or LoginWays()
    app[dashboard.DASHBOARD] = open_dashboard
    app[dashboard.WORKSPACES] = open_workspace
    app[NUMBERS] = numbers
    app[cluster.CODE_LIMITS] = code_limits or CodeLimits()
    below = [replace(each, path=f"{PREFIX}{each.path}") for each in all_operations()]
    page = get(Right.ANYONE, f"{PREFIX}/manual", shown)  # for people, so not in the description itself
    add_operations(app, [*below, page, *measuring.operations_here()])
    app.on_response_prepare.append(_add_version)
    app.on_shutdown.append(end_streams)
    app.on_cleanup.append(_close_changes)
    return app


async def _close_changes(app: web.Application) -> None:
    await app[CHANGES].close()


async def _add_version(request: web.Request, response: web.StreamResponse) -> None:
    response.headers[VERSION_HEADER] = __version__


@web.middleware
async def _check_query(request: web.Request, handler: Handler) -> web.StreamResponse:
    if operation_of(request) is not None:
        Parameters(request)  # refuses what the operation does not know
    return await handler(request)


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except GanglineError as error:
        return problem_answer(request, error)
    except web.HTTPRequestEntityTooLarge as error:
        refusal = InvalidInputError("the body is too large", field="body", expected=f"at most {_MOST_BODY_BYTES} bytes")
        return problem_answer(request, refusal, HTTPStatus(error.status))
    except web.HTTPException as error:
        return problem_answer(request, _refused_by_router(request, error), HTTPStatus(error.status))
    except Exception:  # noqa: BLE001  # the top of a request: logged, answered, and the service goes on
        _log.exception("%s %s failed", request.method, request.path)
        defect = GanglineError("internal error; see the service log")
        return problem_answer(request, defect)


def problem_answer(request: web.Request, error: GanglineError, status: HTTPStatus | None = None) -> web.Response:
    """Answer with a problem document (RFC 9457), whose member ``error`` has what our own clients raise again."""
    status = status or status_of(error)
    found = plain(error_to_body(error))
    hints = {name: found["error"]["facts"].get(name) for name in ("field", "expected", "suggestion")}
    document = {
        "title": status.phrase,
        "status": status.value,
        "detail": str(error),
        "request_id": request.get(REQUEST_ID, ""),
        **{name: hint for name, hint in hints.items() if hint is not None},
        **found,
    }
    response = web.Response(body=msgspec.json.encode(document), status=status, content_type="application/problem+json")
    response.headers.update(_HEADERS.get(status, {}))
    if isinstance(error, RequestUnderWayError | StorageError):
        response.headers["Retry-After"] = "1"
    return response


def _refused_by_router(request: web.Request, error: web.HTTPException) -> GanglineError:
    if error.status == HTTPStatus.NOT_FOUND:
        return NotFoundError("path", request.path)
    return InvalidInputError(f"{request.method} {request.path}: {error.reason}")
