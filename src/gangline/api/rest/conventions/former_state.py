"""What a change is about to change, as it was before: the audit record tells it."""

from contextlib import suppress

from aiohttp import web

from gangline.api.operation import CALLER, Handler, operation_of
from gangline.api.rest.conventions.versions import target_of
from gangline.errors import GanglineError
from gangline.wire import plain

BEFORE: web.RequestKey[object] = web.RequestKey("before", object)


@web.middleware
async def looking_before(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Look at what will be changed, once it is known that its sender may."""
    operation = operation_of(request)
    if operation is not None and operation.changes and CALLER in request:
        with suppress(GanglineError):  # there is nothing
            found = await target_of(request, operation)
            request[BEFORE] = None if found is None else plain(found)
    return await handler(request)
