"""Handlers for who may use a team's service: how to log in, who one is, and tokens."""

from http import HTTPStatus

import msgspec
from aiohttp import web

from gangline import operations
from gangline.api.operation import IDENTITY, Operation, delete, get, post
from gangline.api.rest.answers import json_answer
from gangline.api.rest.context import body_of, context_of, tenant_of
from gangline.api.rest.parameters import Parameters
from gangline.model import Tenant
from gangline.model.team.access import Right, Role
from gangline.model.team.audit import AuditPage
from gangline.model.team.token import NewToken, Token
from gangline.wire import LoginWays, Myself

LOGIN: web.AppKey[LoginWays] = web.AppKey("login", LoginWays)

_PAGE = {"limit": int, "after": str}
_MOST_ENTRIES = 1000


class TokenRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a token is to be."""

    name: str
    role: Role
    seconds: float


async def login_ways(request: web.Request) -> web.Response:
    """Say how to log in."""
    return json_answer(request.app[LOGIN])


async def myself(request: web.Request) -> web.Response:
    """Say whom the service takes the caller for."""
    identity = request.get(IDENTITY)
    if identity is None:
        return json_answer(Myself(name=context_of(request).caller.name, operator=True))
    roles = {str(tenant): role for tenant, role in identity.roles.items()}
    return json_answer(Myself(name=identity.name, operator=identity.operator, roles=roles))


async def create_token(request: web.Request) -> web.Response:
    """Make a token; its text is shown this once."""
    wanted = await body_of(request, TokenRequest)
    made = await operations.create_token(
        context_of(request), wanted.name, role=wanted.role, tenant=_tenant(request), seconds=wanted.seconds
    )
    return json_answer(made, HTTPStatus.CREATED)


async def list_tokens(request: web.Request) -> web.Response:
    """List tokens, without their secrets."""
    return json_answer(await operations.list_tokens(context_of(request), _tenant(request)))


async def revoke_token(request: web.Request) -> web.Response:
    """Make a token worthless from now on."""
    found = await operations.revoke_token(context_of(request), _tenant(request), request.match_info["token"])
    return json_answer(found)


async def read_audit(request: web.Request) -> web.Response:
    """Return who changed what, newest first."""
    parameters = Parameters(request)
    limit = parameters.number("limit", least=1, most=_MOST_ENTRIES) or 100
    context, after = context_of(request), parameters.text("after")
    return json_answer(await operations.read_audit(context, _tenant(request), limit=limit, after=after))


def _tenant(request: web.Request) -> Tenant | None:
    return tenant_of(request) if "tenant" in request.match_info else None


def operations_here() -> list[Operation]:
    """Every operation of this module."""
    tokens, new = "/tenants/{tenant}/tokens", HTTPStatus.CREATED
    return [
        get(Right.ANYONE, "/login", login_ways, answer=LoginWays),
        get(Right.ASK, "/myself", myself, answer=Myself),
        get(Right.ADMINISTER, "/tenants/{tenant}/audit", read_audit, query=_PAGE, answer=AuditPage),
        get(Right.OPERATE, "/audit", read_audit, query=_PAGE, answer=AuditPage),
        *(
            operation
            for right, many in ((Right.ADMINISTER, tokens), (Right.OPERATE, "/tokens"))
            for operation in (
                post(right, many, create_token, body=TokenRequest, answer=NewToken, status=new),
                get(right, many, list_tokens, answer=list[Token]),
                delete(right, f"{many}/{{token}}", revoke_token, answer=Token),
            )
        ),
    ]
