"""The aiohttp application: every route, and the one place where errors become answers."""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from weakref import WeakSet

from aiohttp import web

from gangline import __version__
from gangline.api.errors import status_of
from gangline.api.rest import cluster, jobs, observation, sweeps
from gangline.api.rest.answers import STREAMS, end_streams, json_answer
from gangline.api.rest.context import DESK_FOR, DeskFor
from gangline.errors import GanglineError, InvalidInputError, NotFoundError
from gangline.model import CodeLimits
from gangline.wire import error_to_body

VERSION_HEADER = "Gangline-Version"
_MOST_BODY_BYTES = 8 * 2**20
"""A job file is text; one of more than this is a mistake."""

_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(desk_for: DeskFor, *, code_limits: CodeLimits | None = None) -> web.Application:
    """Build the application. ``desk_for`` finds out who asks; the composition root supplies it."""
    app = web.Application(middlewares=[_answer_errors], client_max_size=_MOST_BODY_BYTES)
    app[DESK_FOR] = desk_for
    app[STREAMS] = WeakSet()
    app[cluster.CODE_LIMITS] = code_limits or CodeLimits()
    app.add_routes([*jobs.routes(), *observation.routes(), *sweeps.routes(), *cluster.routes()])
    app.on_response_prepare.append(_add_version)
    app.on_shutdown.append(end_streams)
    return app


async def _add_version(request: web.Request, response: web.StreamResponse) -> None:
    response.headers[VERSION_HEADER] = __version__


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except GanglineError as error:
        return json_answer(error_to_body(error), status_of(error))
    except web.HTTPRequestEntityTooLarge as error:
        refusal = InvalidInputError("the body is too large", field="body", expected=f"at most {_MOST_BODY_BYTES} bytes")
        return json_answer(error_to_body(refusal), HTTPStatus(error.status))
    except web.HTTPException as error:
        return json_answer(error_to_body(_refused_by_router(request, error)), HTTPStatus(error.status))
    except Exception:  # noqa: BLE001  # the top of a request: logged, answered, and the service goes on
        _log.exception("%s %s failed", request.method, request.path)
        defect = GanglineError("the service met a defect of its own; its log has the details")
        return json_answer(error_to_body(defect), status_of(defect))


def _refused_by_router(request: web.Request, error: web.HTTPException) -> GanglineError:
    if error.status == HTTPStatus.NOT_FOUND:
        return NotFoundError("path", request.path)
    return InvalidInputError(f"{request.method} {request.path}: {error.reason}")
