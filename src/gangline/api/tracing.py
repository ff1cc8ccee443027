"""A span for each request, around whatever refuses it."""

from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.errors import STATUS_OF, status_of
from gangline.api.operation import Handler, operation_of
from gangline.api.request_ids import REQUEST_ID
from gangline.errors import GanglineError
from gangline.telemetry import Traces


def tracing(traces: Traces) -> Middleware:
    """Make the middleware."""

    @web.middleware
    async def trace(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.app is not request.match_info.apps[-1]:
            return await handler(request)  # an interface within this one, which has it, too
        with traces.request(request.method, request.get(REQUEST_ID, ""), request.headers) as served:
            code = HTTPStatus.INTERNAL_SERVER_ERROR.value
            try:
                response = await handler(request)
                code = response.status
                return response
            except GanglineError as error:
                code = request.app.get(STATUS_OF, status_of)(error).value
                raise
            except web.HTTPException as error:
                code = error.status
                raise
            finally:
                operation = operation_of(request)
                served.ends(f"{request.method} {'other' if operation is None else operation.path}", code)

    return trace
