"""Writing down every change that is asked for: who, from where, what, and what it was before and after.

It wraps the handlers of a team's service by the table of operations, so that no operation can forget it. What was
refused is written down, too. A change that cannot be written down is answered as an error of the store: its sender must
not take it for done and recorded.
"""

import json
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.errors import STATUS_OF, status_of
from gangline.api.limits import Limiter, Limits
from gangline.api.operation import CALLER, IDENTITY, Handler, Operation, operation_of
from gangline.api.request_ids import REQUEST_ID
from gangline.api.rest.conventions.former_state import BEFORE
from gangline.api.rest.conventions.repeated_requests import REPLAYED
from gangline.api.rest.parameters import DRY_RUN
from gangline.errors import GanglineError, TooManyRequestsError
from gangline.model import Clock, Tenant
from gangline.model.team.audit import AuditEntry, difference
from gangline.storage.audit import AuditLog

_MOST_BODY_BYTES = 1 << 18
_STRANGERS = Limits(per_second=1.0, burst=100)
_SECRETS = ("secrets", "objects", "tokens")
"""What a path ends in whose bodies are not written down."""


def auditing(log: AuditLog, clock: Clock) -> Middleware:
    """Make the wrapper; it stands outside of what decides who may.

    Of those whom nobody knows, it writes down a few a second: they must not fill the disk.
    """
    strangers = Limiter(_STRANGERS)

    @web.middleware
    async def audit(request: web.Request, handler: Handler) -> web.StreamResponse:
        operation = operation_of(request)
        if operation is None or not operation.changes:
            return await handler(request)
        status, after = HTTPStatus.INTERNAL_SERVER_ERROR.value, None
        try:
            response = await handler(request)
            status, after = response.status, _body_of(request, response)
            if REPLAYED in response.headers:
                request[BEFORE] = after  # nothing was changed by this one
            return response
        except GanglineError as error:
            status = request.app.get(STATUS_OF, status_of)(error).value
            raise
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            if IDENTITY in request or _may_enter(strangers, clock):
                await log.append(_entry(request, operation, clock, status, after))

    return audit


def _may_enter(limiter: Limiter, clock: Clock) -> bool:
    try:
        limiter.enter("", clock.now())
    except TooManyRequestsError:
        return False
    limiter.leave("")
    return True


def _body_of(request: web.Request, response: web.StreamResponse) -> object:
    """Return what was answered, where it is a document and no secret."""
    body = response.body if isinstance(response, web.Response) else None
    secret = any(part in _SECRETS for part in request.path.split("/"))
    if secret or not isinstance(body, bytes) or len(body) > _MOST_BODY_BYTES or response.status >= 300:
        return None
    try:
        return json.loads(body)
    except ValueError:
        return None


def _entry(request: web.Request, operation: Operation, clock: Clock, status: int, after: object) -> AuditEntry:
    found = request.match_info.get("tenant") or request.match_info.get("namespace")
    identity = request.get(IDENTITY)
    tenants = request[CALLER].tenants if CALLER in request else None
    known = identity is not None and (found is None or identity.may(operation.right, Tenant(found)))
    # What somebody without a role tries is no entry of the tenant that they name.
    tenant = Tenant(found) if found and known else next(iter(tenants)) if tenants and len(tenants) == 1 else None
    tried = f"?{DRY_RUN}={request.query[DRY_RUN]}" if DRY_RUN in request.query else ""
    was, became = difference(request.get(BEFORE), after) if status < 300 else ({}, {})
    return AuditEntry(
        at=clock.now(),
        who="nobody" if identity is None else identity.name,
        origin=request.remote or "socket",
        request=request.get(REQUEST_ID, ""),
        method=request.method,
        path=f"{request.path}{tried}",
        status=status,
        tenant=tenant,
        before=was,
        after=became,
    )
