"""The table of operations: each has a method, a path, a handler and the right that it needs.

Every interface adds its routes by ``add_operations``; an application with a route that came another way does not start.
``authorizing`` is the one place where a request meets the table: it finds out who asks, and refuses whoever lacks the
right. Within the handler, the caller's tenants are those in which they have that right and no others, so that
operations whose tenant is told by a body or an id are held by the same table.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.errors import GanglineError, PermissionDeniedError, UnauthenticatedError
from gangline.kinds import AnyKind, all_kinds
from gangline.model import Tenant
from gangline.model.team.access import Identity, Right
from gangline.operations import Caller

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Identify = Callable[[web.Request], Awaitable[Identity]]
"""Finds out who asks; raises UnauthenticatedError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that can be asked for."""

    method: str
    path: str
    handler: Handler
    right: Right
    query: Mapping[str, Any] = field(default_factory=dict)
    """The parameters in the query, and the type of each."""
    body: Any = None
    """The type of the body, if it has one; ``bytes`` for a stream."""
    body_schema: Mapping[str, Any] | None = None
    """The schema of the body, where no type says it: the file of a kind."""
    answer: Any = None
    """The type of the answer; None if it has no body, ``bytes`` for a stream."""
    status: HTTPStatus = HTTPStatus.OK
    rehearsable: bool = True
    """Whether the change can be tried (``dryRun``)."""
    items: Any = None
    """The type of the lines, where the answer may also be a stream of them."""

    @property
    def kind(self) -> AnyKind | None:
        """The kind whose record ``{name}`` it speaks of; None if it speaks of none."""
        parts = self.path.split("/")
        return next((kind for kind in all_kinds() if kind.plural in parts), None) if "{name}" in parts else None

    @property
    def changes(self) -> bool:
        """Whether it may change something."""
        return self.method not in ("GET", "HEAD")


def _maker(method: str) -> Callable[..., Operation]:
    def make(right: Right, path: str, handler: Handler, **described: Any) -> Operation:
        return Operation(method=method, path=path, handler=handler, right=right, **described)

    return make


get, head, post = _maker("GET"), _maker("HEAD"), _maker("POST")
put, patch, delete = _maker("PUT"), _maker("PATCH"), _maker("DELETE")

OPERATIONS: web.AppKey[dict[web.AbstractRoute, Operation]] = web.AppKey("operations", dict)
CALLER: web.RequestKey[Caller] = web.RequestKey("caller", Caller)
IDENTITY: web.RequestKey[Identity] = web.RequestKey("identity", Identity)
_TENANT_FIELDS = ("tenant", "namespace")
_MOST_NAMED = 5


def add_operations(app: web.Application, operations: Iterable[Operation]) -> None:
    """Serve operations, and refuse to start if anything else is served as well."""
    rows = app[OPERATIONS] = {}
    for operation in operations:
        rows[app.router.add_route(operation.method, operation.path, operation.handler)] = operation
    taken = {(row.method, row.path) for row in rows.values()}
    for operation in list(rows.values()):
        if operation.method == "GET" and ("HEAD", operation.path) not in taken:
            rows[app.router.add_route("HEAD", operation.path, operation.handler)] = operation
    app.on_startup.append(_check_rows)


async def _check_rows(app: web.Application) -> None:
    for resource in app.router.resources():
        if resource.canonical and isinstance(resource, web.PrefixedSubAppResource):
            continue  # checks itself
        for route in resource:
            if route not in app[OPERATIONS]:
                raise RuntimeError(f"{route.method} {resource.canonical} has no row in the table of operations")


def operation_of(request: web.Request) -> Operation | None:
    """Return the row of a request; None where no operation of the application has its path."""
    return request.app[OPERATIONS].get(request.match_info.route)


def authorizing(identify: Identify, *, again_seconds: float = 5.0) -> Middleware:
    """Make the check that every request passes before its handler, and again and again while it lasts."""

    @web.middleware
    async def authorize(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.app is not request.match_info.apps[-1]:
            return await handler(request)  # an interface within this one, which has a table of its own
        operation = operation_of(request)
        right = Right.ASK if operation is None else operation.right
        if right is Right.ANYONE:
            return await handler(request)

        async def check() -> None:
            caller_with(await identify(request), right, tenant_in(request))

        identity = request[IDENTITY] = await identify(request)
        request[CALLER] = caller_with(identity, right, tenant_in(request))
        async with repeatedly_checked(request, check, again_seconds=again_seconds):
            return await handler(request)

    return authorize


@asynccontextmanager
async def repeatedly_checked(
    request: web.Request, check: Callable[[], Awaitable[None]], *, again_seconds: float = 5.0
) -> AsyncIterator[None]:
    """End the connection of whoever loses the right while a request lasts, by a token that was revoked or has expired.

    ``check`` raises PermissionDeniedError or UnauthenticatedError; most requests are over before it is called.
    """
    loop, checks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    async def hang_up() -> None:
        while True:
            try:
                await check()
            except (PermissionDeniedError, UnauthenticatedError):
                break
            except GanglineError:
                pass  # the store does not answer: that says nothing about a token
            await asyncio.sleep(again_seconds)
        if request.transport is not None:
            request.transport.abort()

    later = loop.call_later(again_seconds, lambda: checks.add(loop.create_task(hang_up())))
    try:
        yield
    finally:
        later.cancel()
        for each in checks:
            each.cancel()


def caller_with(identity: Identity, right: Right, tenant: Tenant | None) -> Caller:
    """Return who asks, for one operation: somebody of the tenants in which they have its right, or a refusal.

    The refusal is the same whether or not there is such a tenant, and names those where they may.
    """
    if not identity.may(right, tenant):
        where = "" if tenant is None else f" in tenant '{tenant}'"
        others = sorted(identity.tenants_with(right) or ())[:_MOST_NAMED]
        besides = f"; it may in {', '.join(map(repr, map(str, others)))}" if others else ""
        raise PermissionDeniedError(f"{identity.name} may not {right}{where}{besides}")
    return Caller(name=identity.name, tenants=identity.tenants_with(right))


def tenant_in(request: web.Request) -> Tenant | None:
    """Return the tenant that a path names, if any."""
    found = next((request.match_info[name] for name in _TENANT_FIELDS if name in request.match_info), None)
    return None if found is None else Tenant(found)
