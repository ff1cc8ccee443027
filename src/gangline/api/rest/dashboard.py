"""The handlers that open the way to the pages and to workspaces."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from gangline import operations
from gangline.api.operation import IDENTITY, Operation, caller_with, post
from gangline.api.rest.answers import json_answer
from gangline.api.rest.context import context_of, tenant_of
from gangline.api.rest.parameters import Parameters
from gangline.errors import NotFoundError
from gangline.kinds.workspace import WORKSPACE
from gangline.model.kinds.workspace import Workspace
from gangline.model.team.access import Right
from gangline.wire import DashboardLink

OpenDashboard = Callable[[web.Request, int], Awaitable[DashboardLink]]
"""Returns a link for whoever asks; a private service opens the port for it, 0 being any."""

DASHBOARD: web.AppKey[OpenDashboard | None] = web.AppKey("dashboard", object)  # type: ignore[arg-type]  # a callable

OpenWorkspace = Callable[[web.Request, Workspace, int], Awaitable[DashboardLink]]
"""The same for one workspace, which whoever asks may use."""

WORKSPACES: web.AppKey[OpenWorkspace | None] = web.AppKey("workspaces", object)  # type: ignore[arg-type]  # a callable


async def open_dashboard(request: web.Request) -> web.Response:
    """Return a link that lets its bearer in to the pages, once."""
    port = Parameters(request).number("port", least=1, most=65535)
    opening = request.app[DASHBOARD]
    if opening is None:
        raise NotFoundError("dashboard", "of this service")
    return json_answer(await opening(request, port or 0))


async def open_workspace(request: web.Request) -> web.Response:
    """Return a link that lets its bearer in to a workspace, once."""
    port = Parameters(request).number("port", least=1, most=65535)
    opening, tenant = request.app[WORKSPACES], tenant_of(request)
    found: Workspace = await operations.get_record(context_of(request), WORKSPACE, tenant, request.match_info["name"])
    check_may_open(request, found)
    if opening is None:
        raise NotFoundError("gateway", "of this service")
    return json_answer(await opening(request, found, port or 0))


def check_may_open(request: web.Request, workspace: Workspace) -> None:
    """Refuse whoever may see that a workspace is there, but not use it."""
    identity = request.get(IDENTITY)  # the owner of a private service has none, and may do everything
    if identity is not None:
        caller_with(identity, workspace.spec.right_to_open, workspace.spec.tenant)


def operations_here() -> list[Operation]:
    """Every operation of this module. What opens a workspace stands before the verbs of records, among which it is."""
    described = {"query": {"port": int}, "answer": DashboardLink, "rehearsable": False}
    opened = "/tenants/{tenant}/workspaces/{name}/open"
    return [
        post(Right.ASK, "/dashboard", open_dashboard, **described),
        post(Right.READ, opened, open_workspace, **described),
    ]
