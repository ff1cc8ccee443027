"""The tokens of a tenant: made, shown once, revoked."""

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get, post
from gangline.api.rest.context import context_of
from gangline.errors import InvalidInputError
from gangline.model.team.access import Right, Role
from gangline.web.frame import Entry, Frame, address, form, show, tenant_here
from gangline.web.html import Node, h
from gangline.web.parts import ask_first, commands, moment, section, table

_DAY = 86400.0
_ROLES = (Role.VIEWER, Role.MEMBER, Role.ADMIN)


async def page(request: web.Request) -> web.Response:
    """Show the tokens."""
    return await _shown(request, None)


async def _shown(request: web.Request, made: Node) -> web.Response:
    tenant = tenant_here(request)
    found = await operations.list_tokens(context_of(request), tenant)
    where = address(tenant, "tokens")
    rows = [
        (
            each.name,
            str(each.role),
            moment(each.created_at),
            each.created_by,
            moment(each.expires_at),
            ask_first(
                request,
                "Revoke",
                "Whoever uses it is refused from now on.",
                f"{where}/{each.name}/revoke",
                ("token", "revoke", each.name, "--tenant", tenant),
            ),
        )
        for each in found
    ]
    new = form(
        request,
        where,
        h.span(h.label("Name", for_="name"), h.input(id="name", name="name", required=True), cls="field"),
        h.span(
            h.label("Role", for_="role"),
            h.select([h.option(role.value, value=role.value) for role in _ROLES], id="role", name="role"),
            cls="field",
        ),
        h.span(
            h.label("Days", for_="days"),
            h.input(id="days", name="days", type="number", min=1, max=366, value=30),
            cls="field",
        ),
        h.button("Create", cls="primary"),
        cls="toolbar",
    )
    return show(
        request,
        Frame(
            title="Tokens",
            before=(made, section("New token", new, name="new")),
            live=table(
                ("Name", "Role", "Made", "By", "Expires", "Revoke"), rows, caption="Tokens", empty="There are none."
            ),
            after=commands(("token", "list", "--tenant", tenant), ("token", "create", "NAME", "--tenant", tenant)),
        ),
    )


async def create(request: web.Request) -> web.Response:
    """Make a token and show it, this once."""
    given = await request.post()
    name, role, days = (str(given.get(each, "")) for each in ("name", "role", "days"))
    if role not in [each.value for each in _ROLES] or not (days.isascii() and days.isdigit()):
        raise InvalidInputError("role or days are not understood", field="role", expected="viewer, member or admin")
    made = await operations.create_token(
        context_of(request), name, role=Role(role), tenant=tenant_here(request), seconds=float(days) * _DAY
    )
    shown = h.div(
        h.p(f"The token {name} is shown this once:"), h.pre(made.text, tabindex="0"), cls="note", role="status"
    )
    return await _shown(request, shown)


async def revoke(request: web.Request) -> web.StreamResponse:
    """Make a token worthless."""
    tenant = tenant_here(request)
    await operations.revoke_token(context_of(request), tenant, request.match_info["token"])
    raise web.HTTPSeeOther(address(tenant, "tokens"))


entries = (Entry("Service", "Tokens", "tokens", Right.ADMINISTER),)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    where = "/tenants/{tenant}/tokens"
    return [
        get(Right.ADMINISTER, where, page),
        post(Right.ADMINISTER, where, create),
        post(Right.ADMINISTER, f"{where}/{{token}}/revoke", revoke),
    ]
