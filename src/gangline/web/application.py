"""The pages as one application, which the services mount beside their REST interface."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from types import ModuleType

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.errors import status_of
from gangline.api.identity import Recognize
from gangline.api.operation import Handler, Identify, Operation, add_operations, authorizing
from gangline.api.rest.context import CONTEXT_FOR, ContextFor
from gangline.errors import GanglineError, NotFoundError, UnauthenticatedError
from gangline.model import Tenant
from gangline.web.assets import Assets
from gangline.web.forecasts import FORECASTER, Forecaster
from gangline.web.frame import ANY_TENANT, ASSETS, GATEWAY, HOME, LIVE, NAVIGATION, PREFIX, PRIVATE, Entry, Frame, show
from gangline.web.gateway import Gateway
from gangline.web.guards import add_headers, check_form
from gangline.web.html import h
from gangline.web.pages import (
    audit,
    compare,
    entrance,
    fields,
    job,
    job_files,
    jobs,
    nodes,
    scaling,
    schedule,
    selected,
    settings,
    submit,
    terminal,
    tokens,
    use,
    what_if,
)
from gangline.web.pages.records import entries_of_kinds, operations_of_kinds
from gangline.web.sessions import Sessions
from gangline.web.unfinished import UNFINISHED, UnfinishedJobs

_GROUPS = ("Work", "Data", "Machines", "Kubeflow", "Service")
_MOST_FORM_BYTES = 2 * 2**20
_log = logging.getLogger(__name__)

PAGES: tuple[ModuleType, ...] = (
    jobs,
    selected,
    job,
    job_files,
    scaling,
    terminal,
    submit,
    fields,
    compare,
    nodes,
    schedule,
    what_if,
    use,
    audit,
    tokens,
    settings,
)
"""Every page that is not made from a kind."""


def make_pages(
    context_for: ContextFor,
    *,
    identify: Identify,
    sessions: Sessions,
    home: Tenant,
    recognize: Recognize | None = None,
    around: Sequence[Middleware] = (),
    behind: Sequence[Middleware] = (),
    assets: Assets | None = None,
    gateway: Gateway | None = None,
    told: Sequence[settings.Setting] = (),
    any_tenant: bool = False,
) -> web.Application:
    """Build the application that is served below ``PREFIX``.

    ``recognize`` reads the token of a log-in form; without it, links are the only way in. ``around`` and ``behind``
    stand around and behind the check of who may. ``told`` are the settings of the service. ``any_tenant``: in which
    tenants somebody has rights is not known before they are asked about.
    """
    within = [_answer_errors, *around, authorizing(identify), check_form, *behind]
    app = web.Application(middlewares=within, client_max_size=_MOST_FORM_BYTES)
    app[CONTEXT_FOR] = context_for
    app[ASSETS] = assets or Assets()
    app[HOME] = home
    app[PRIVATE] = recognize is None
    app[GATEWAY] = gateway
    app[ANY_TENANT] = any_tenant
    app[settings.SETTINGS] = told
    app[entrance.SESSIONS] = sessions
    app[entrance.RECOGNIZE] = recognize
    app[NAVIGATION] = all_entries()
    app[FORECASTER] = Forecaster()
    app[terminal.TICKETS] = {}
    app[UNFINISHED] = UnfinishedJobs()
    app.on_response_prepare.append(add_headers)
    add_operations(app, all_operations())
    return app


def all_entries() -> tuple[Entry, ...]:
    """Every line of the navigation."""
    found = [entry for page in PAGES for entry in getattr(page, "entries", ())]
    return tuple(sorted((*found, *entries_of_kinds()), key=lambda entry: _GROUPS.index(entry.group)))


def all_operations() -> list[Operation]:
    """Every route, by its path below ``PREFIX``."""
    pages = (each for page in PAGES for each in page.operations_here())
    return [*entrance.operations_here(), *pages, *operations_of_kinds()]


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer an error with a page that says what is wrong."""
    try:
        return await handler(request)
    except UnauthenticatedError as error:
        if LIVE in request.query:
            return web.Response(status=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": f"{PREFIX}/login"})
        return entrance.login_page(request, str(error), HTTPStatus.UNAUTHORIZED)
    except GanglineError as error:
        return _problem(request, str(error), status_of(error))
    except web.HTTPRedirection as elsewhere:
        return web.Response(status=elsewhere.status, headers={"Location": elsewhere.headers["Location"]})
    except web.HTTPRequestEntityTooLarge as error:
        return _problem(request, "the form is too large", HTTPStatus(error.status))
    except web.HTTPException as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return _problem(request, str(NotFoundError("page", request.path)), HTTPStatus.NOT_FOUND)
        return _problem(request, error.reason, HTTPStatus(error.status))
    except Exception:  # noqa: BLE001  # the top of a request: logged, answered, and the service goes on
        _log.exception("%s %s failed", request.method, request.path)
        return _problem(request, "internal error; see the service log", HTTPStatus.INTERNAL_SERVER_ERROR)


def _problem(request: web.Request, text: str, status: HTTPStatus) -> web.Response:
    frame = Frame(title=status.phrase, live=h.p(text, cls="error", role="alert"), status=status.value)
    return show(request, frame if LIVE in request.query else replace(frame, still=True))
