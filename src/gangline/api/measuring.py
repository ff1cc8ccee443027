"""Counting requests, and the page that a monitoring system reads. It stands around whatever refuses."""

from http import HTTPStatus
from time import perf_counter

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline import operations
from gangline.api.errors import STATUS_OF, status_of
from gangline.api.operation import Handler, Operation, get, operation_of
from gangline.api.rest.context import context_of
from gangline.errors import GanglineError, NotFoundError
from gangline.model.team.access import Right
from gangline.telemetry import Numbers

NUMBERS: web.AppKey[Numbers | None] = web.AppKey("numbers", object)  # type: ignore[arg-type]  # or None


def measuring(numbers: Numbers) -> Middleware:
    """Make the middleware that counts."""

    @web.middleware
    async def measure(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.app is not request.match_info.apps[-1]:
            return await handler(request)  # an interface within this one, which counts by itself
        began, code, streamed = perf_counter(), HTTPStatus.INTERNAL_SERVER_ERROR.value, False
        numbers.request_begins()
        try:
            response = await handler(request)
            code, streamed = response.status, not isinstance(response, web.Response)
            return response
        except GanglineError as error:
            code = request.app.get(STATUS_OF, status_of)(error).value
            numbers.note_error(error)
            raise
        except web.HTTPException as error:
            code = error.status
            raise
        except Exception:
            numbers.note_error(None)
            raise
        finally:
            operation = operation_of(request)
            path = "other" if operation is None else operation.path
            numbers.request_ends(request.method, path, code, None if streamed else perf_counter() - began)

    return measure


async def metrics(request: web.Request) -> web.Response:
    """Return what the service has counted, as Prometheus reads it."""
    numbers = request.app[NUMBERS]
    if numbers is None:
        raise NotFoundError("path", request.path, hint="the service counts nothing: pip install 'gangline[metrics]'")
    body = numbers.show(await operations.current_figures(context_of(request)))
    return web.Response(body=body, headers={"Content-Type": numbers.content_type})


def operations_here() -> list[Operation]:
    """The page, at the path that every monitoring system knows."""
    return [get(Right.MEASURE, "/metrics", metrics)]
