"""The aiohttp application: every route, and the one place where errors become answers in their form."""

import hmac
import logging
from collections.abc import Sequence
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api import operation as row
from gangline.api.kfp import experiments, recurring, runs, templates
from gangline.api.kfp.answers import answer, error_answer, refusal
from gangline.api.kfp.records import deleting, doing, getting
from gangline.api.kfp.requests import MOST_BODY_BYTES, ROOT, TENANT
from gangline.api.operation import Handler
from gangline.api.rest.context import CONTEXT_FOR, ContextFor
from gangline.errors import GanglineError
from gangline.kinds.pipeline import PIPELINE
from gangline.kinds.schedule import SCHEDULE
from gangline.kinds.template import RUN_EXPERIMENT, TEMPLATE
from gangline.model import DEFAULT_TENANT, Tenant
from gangline.model.team.access import Right

PREFIX = "/apis/v2beta1"
_log = logging.getLogger(__name__)


def make_kfp_app(
    context_for: ContextFor,
    *,
    tenant: Tenant = DEFAULT_TENANT,
    root: str | None = None,
    within: Sequence[Middleware] = (),
) -> web.Application:
    """Build the application, to be served below ``PREFIX``; ``tenant`` is meant where no namespace is named.

    Artefacts are stored below ``root`` where a run does not say; without one, None lets them stay where they are made
    and an empty one refuses runs that make any. ``within`` are called within the one that writes errors down.
    """
    app = web.Application(middlewares=[_answer_errors, *within])
    app[CONTEXT_FOR] = context_for
    app[TENANT] = tenant
    app[ROOT] = root
    row.add_operations(app, _operations())
    return app


def make_kfp_server(
    context_for: ContextFor, *, token: str, tenant: Tenant, root: str | None, within: Sequence[Middleware] = ()
) -> web.Application:
    """Build an application that serves nothing else, to whoever presents the token."""

    @web.middleware
    async def check_token(request: web.Request, handler: Handler) -> web.StreamResponse:
        if presents(request, token):
            return await handler(request)
        return refuse_without_token()

    app = web.Application(middlewares=[check_token])
    mount(app, context_for, token=token, tenant=tenant, root=root, within=within)
    return app


def mount(
    app: web.Application,
    context_for: ContextFor,
    *,
    token: str,
    tenant: Tenant = DEFAULT_TENANT,
    root: str | None = None,
    within: Sequence[Middleware] = (),
) -> None:
    """Serve the interface below its usual path, and, if there is one, below the same with the token in front."""
    for place in (PREFIX, f"/{token}{PREFIX}") if token else (PREFIX,):
        app.add_subapp(place, make_kfp_app(context_for, tenant=tenant, root=root, within=within))


def presents(request: web.Request, token: str) -> bool:
    """Whether a request has the token; clients that know nothing but an address have it in front of the path."""
    header = request.headers.get("Authorization", "").removeprefix("Bearer ")
    given = (header, request.path.split("/")[1])
    return any(hmac.compare_digest(each.encode(errors="surrogateescape"), token.encode()) for each in given)


def refuse_without_token() -> web.Response:
    """Answer whoever has no token."""
    return refusal(HTTPStatus.UNAUTHORIZED, "present the token of 'gangline pipeline api'")


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except GanglineError as error:
        return error_answer(error)
    except web.HTTPRequestEntityTooLarge:
        return refusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is too large: at most {MOST_BODY_BYTES} bytes are taken"
        )
    except web.HTTPException as error:
        return refusal(HTTPStatus(error.status), f"{request.method} {_without_token(request.path)}: {error.reason}")
    except Exception:  # noqa: BLE001  # the top of a request: logged, answered, and the service goes on
        _log.exception("%s %s failed", request.method, _without_token(request.path))
        return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the service log")


def _without_token(path: str) -> str:
    """Return a path as it may be shown: what is in front of the interface's own part may be the token."""
    return path[max(0, path.find(PREFIX)) :]


async def _health(request: web.Request) -> web.Response:
    return answer({"multi_user": False, "pipeline_store": "database"})


async def _yes(request: web.Request) -> web.Response:
    return answer()


def _operations() -> list[row.Operation]:
    one, version = "/pipelines/{id}", "/pipelines/{id}/versions/{version}"
    return [
        row.get(Right.ASK, "/healthz", _health),
        row.get(Right.ASK, "/auth", _yes),
        row.post(Right.WRITE, "/pipelines/upload", templates.upload),
        row.post(Right.WRITE, "/pipelines/upload_version", templates.upload_version),
        row.post(Right.WRITE, "/pipelines/create", templates.create_with_version),
        row.get(Right.READ, "/pipelines/names/{name}", templates.get_by_name),
        row.post(Right.WRITE, "/pipelines", templates.create),
        row.get(Right.READ, "/pipelines", templates.listing),
        row.get(Right.READ, one, getting(TEMPLATE, templates.plain)),
        row.patch(Right.WRITE, one, templates.change),
        row.delete(Right.WRITE, one, templates.delete),
        row.post(Right.WRITE, f"{one}/versions", templates.create_version),
        row.get(Right.READ, f"{one}/versions", templates.list_versions),
        row.get(Right.READ, version, templates.get_version),
        row.delete(Right.WRITE, version, templates.delete_version),
        row.post(Right.WRITE, "/experiments", experiments.create),
        row.get(Right.READ, "/experiments", experiments.listing),
        row.post(Right.WRITE, "/experiments/{id}:archive", experiments.archive),
        row.post(Right.WRITE, "/experiments/{id}:unarchive", doing(RUN_EXPERIMENT, "unarchive")),
        row.get(Right.READ, "/experiments/{id}", getting(RUN_EXPERIMENT, experiments.plain)),
        row.delete(Right.WRITE, "/experiments/{id}", deleting(RUN_EXPERIMENT)),
        row.post(Right.WRITE, "/runs", runs.create),
        row.get(Right.READ, "/runs", runs.listing),
        row.post(Right.WRITE, "/runs/{id}:terminate", doing(PIPELINE, "stop")),
        row.post(Right.WRITE, "/runs/{id}:retry", runs.retry),
        row.post(Right.WRITE, "/runs/{id}:archive", doing(PIPELINE, "archive")),
        row.post(Right.WRITE, "/runs/{id}:unarchive", doing(PIPELINE, "unarchive")),
        row.get(Right.READ, "/runs/{id}", getting(PIPELINE, runs.detailed)),
        row.delete(Right.WRITE, "/runs/{id}", deleting(PIPELINE)),
        row.post(Right.WRITE, "/recurringruns", recurring.create),
        row.get(Right.READ, "/recurringruns", recurring.listing),
        row.post(Right.WRITE, "/recurringruns/{id}:enable", doing(SCHEDULE, "resume")),
        row.post(Right.WRITE, "/recurringruns/{id}:disable", doing(SCHEDULE, "pause")),
        row.get(Right.READ, "/recurringruns/{id}", getting(SCHEDULE, recurring.plain)),
        row.delete(Right.WRITE, "/recurringruns/{id}", deleting(SCHEDULE)),
        row.post(Right.WRITE, "/visualizations/{namespace}", templates.refuse),
        row.post(Right.WRITE, "/workflows", templates.refuse),
        row.post(Right.WRITE, "/scheduledworkflows", templates.refuse),
    ]
