"""Who changed what of a team's service."""

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get
from gangline.api.rest.context import context_of
from gangline.model.team.access import Right
from gangline.model.team.audit import AuditEntry
from gangline.web.frame import Entry, Frame, address, show, tenant_here
from gangline.web.html import Node, h
from gangline.web.parts import commands, moment, table

_PAGE = 50


async def page(request: web.Request) -> web.Response:
    """Show a page of the record."""
    tenant = tenant_here(request)
    found = await operations.read_audit(
        context_of(request), tenant, limit=_PAGE, after=request.query.get("after") or None
    )
    rows = [
        (moment(each.at), each.who, each.origin, each.status, f"{each.method} {each.path}", _changes(each))
        for each in found.entries
    ]
    older = None if found.next is None else h.p(h.a("Older", href=address(tenant, "audit", after=found.next)))
    headings = ("When", "Who", "From", "Status", "What", "Changed")
    nothing = "Nothing was asked for over the network."
    return show(
        request,
        Frame(
            title="Audit",
            live=(table(headings, rows, caption="Changes, newest first", empty=nothing), older),
            after=commands(("audit", "--tenant", tenant)),
        ),
    )


def _changes(entry: AuditEntry) -> Node:
    paths = sorted({*entry.before, *entry.after})[:12]
    if not paths:
        return None
    lines = [h.li(f"{path}: {entry.before.get(path, '–')} → {entry.after.get(path, '–')}") for path in paths]
    return h.details(h.summary(f"{len(paths)} fields"), h.ul(lines, cls="plain"))


entries = (Entry("Service", "Audit", "audit", Right.ADMINISTER),)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    return [get(Right.ADMINISTER, "/tenants/{tenant}/audit", page)]
