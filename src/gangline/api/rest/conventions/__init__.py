"""What every operation of the REST interface understands, whatever it does: one middleware for the whole table.

``dryRun`` tries a change, ``If-Match`` makes it only in the version that was read, and ``Idempotency-Key`` makes it
once however often it is sent. No handler knows of any of them: they change the context that it works with, or answer
in its place.
"""

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.operation import Handler, operation_of
from gangline.api.rest.context import context_of
from gangline.api.rest.conventions.dry_run import try_only
from gangline.api.rest.conventions.repeated_requests import answer_once
from gangline.api.rest.conventions.versions import check_version
from gangline.storage.answers import KeptAnswers


def conventions(memory: KeptAnswers) -> Middleware:
    """Make the middleware; it stands directly around the handlers. ``memory`` is for who has no place for answers."""

    @web.middleware
    async def follow_conventions(request: web.Request, handler: Handler) -> web.StreamResponse:
        operation = operation_of(request)
        if operation is None or not operation.changes:
            return await handler(request)
        try_only(request, operation)

        async def checked() -> web.StreamResponse:
            await check_version(request, operation)
            return await handler(request)

        return await answer_once(request, operation, checked, context_of(request).answers or memory)

    return follow_conventions
