"""Handlers for sweeps: submit, list, get, watch, stop and delete."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from gangline import operations
from gangline.api.rest.answers import json_answer, stream_answer
from gangline.api.rest.context import body_of, desk_of, tenant_of
from gangline.api.rest.parameters import Parameters
from gangline.dialects.native import sweep_from_plain
from gangline.errors import InvalidInputError
from gangline.model import Tenant
from gangline.model.sweep import SweepId
from gangline.operations import Desk
from gangline.wire import SweepStatus

Verb = Callable[[Desk, Tenant, str], Awaitable[SweepStatus]]


async def submit(request: web.Request) -> web.Response:
    """Take in the sweep in the body under the id in the query; the same id, the same sweep."""
    sweep_id, tenant = Parameters(request, ("id",)).text("id"), tenant_of(request)
    if sweep_id is None:
        raise InvalidInputError("the sweep has no id", field="id", expected="an id of the client's choice")
    spec = sweep_from_plain(await body_of(request, dict[str, object]))
    if spec.tenant != tenant:
        raise InvalidInputError(
            f"the sweep belongs to tenant '{spec.tenant}'",
            field="metadata.tenant",
            expected=f"'{tenant}', as in the path",
        )
    report = await operations.submit_sweep(desk_of(request), SweepId(sweep_id), spec)
    return json_answer(report, HTTPStatus.CREATED)


async def listing(request: web.Request) -> web.Response:
    """Return every sweep of the tenant, newest first."""
    Parameters(request, ())
    reports = await operations.list_sweeps(desk_of(request), tenant_of(request))
    return json_answer(reports)


async def get(request: web.Request) -> web.StreamResponse:
    """Return one sweep, or stream it and every change to come until it is gone."""
    watched = Parameters(request, ("watch",)).truth("watch")
    desk, tenant, name = desk_of(request), tenant_of(request), request.match_info["sweep"]
    report = await operations.get_sweep(desk, tenant, name)
    if watched:
        return await stream_answer(request, operations.watch_sweep(desk, tenant, name))
    return json_answer(report)


def verb(operation: Verb) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Make the handler of a request that needs nothing but the sweep: stop, delete."""

    async def handler(request: web.Request) -> web.Response:
        Parameters(request, ())
        return json_answer(await operation(desk_of(request), tenant_of(request), request.match_info["sweep"]))

    return handler


def routes() -> list[web.RouteDef]:
    """Every path of this module."""
    sweeps = "/v1/tenants/{tenant}/sweeps"
    one = f"{sweeps}/{{sweep}}"
    return [
        web.post(sweeps, submit),
        web.get(sweeps, listing),
        web.get(one, get),
        web.delete(one, verb(operations.delete_sweep)),
        web.post(f"{one}/stop", verb(operations.stop_sweep)),
    ]
