"""What a workspace shows: the way in, what happened, and the warning before it is stopped."""

from aiohttp import web

from gangline import operations
from gangline.api.rest.context import context_of
from gangline.api.rest.dashboard import check_may_open
from gangline.errors import NotFoundError, UnauthenticatedError
from gangline.kinds.workspace import WORKSPACE
from gangline.model.kinds.workspace import Workspace
from gangline.model.team.access import Identity
from gangline.web.frame import GATEWAY, address, may, tenant_here
from gangline.web.guards import SESSION, cookie_name
from gangline.web.html import Node, h
from gangline.web.pages.entrance import SESSIONS
from gangline.web.parts import command, moment, section, table


async def sections(request: web.Request, workspace: Workspace) -> Node:
    """Show the way in and the events."""
    status = workspace.status
    events = [(moment(each.at), each.reason, each.message) for each in reversed(status.events)]
    return (
        h.p(status.problem, role="alert", cls="error") if status.problem else None,
        h.p(status.notice, role="status", cls="note") if status.notice else None,
        _door(request, workspace),
        section("Events", table(("When", "What", "Message"), events, caption="Events, newest first"), name="events"),
    )


def _door(request: web.Request, workspace: Workspace) -> Node:
    if not may(request, workspace.spec.right_to_open):
        return h.p("Members of the tenant may open it.", cls="faint")
    if workspace.state != "ready":
        return h.p(f"It can be opened when it is ready; it is {workspace.state}.", cls="faint")
    where = address(tenant_here(request), WORKSPACE.plural, workspace.name, "open")
    words = command("workspace", "open", workspace.name, "--tenant", workspace.spec.tenant)
    return h.p(h.a("Open", href=where, cls="button primary", target="_blank", rel="noreferrer"), " ", words)


async def enter(request: web.Request) -> web.StreamResponse:
    """Lead to the workspace, by a link that is good for this browser and once."""
    tenant, name = tenant_here(request), request.match_info["name"]
    found: Workspace = await operations.get_record(context_of(request), WORKSPACE, tenant, name)
    check_may_open(request, found)
    gateway, session = request.app[GATEWAY], request.get(SESSION)
    if gateway is None:
        raise NotFoundError("gateway", "of this service")
    if session is None:
        raise UnauthenticatedError("a workspace is opened by a browser that is logged in")
    cookie, sessions = request.cookies.get(cookie_name(request), ""), request.app[SESSIONS]

    async def holder() -> Identity | None:
        return None if sessions.find(cookie) is None else await session.holder()

    raise web.HTTPSeeOther(gateway.link(found, holder, base=f"{request.scheme}://{request.host}"))


views = {"open": enter}
