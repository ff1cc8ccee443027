"""Which HTTP status each error of Gangline has: the one table. ``wire.errors`` is the body that goes with it."""

from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web

from gangline.api.bodies import StalledError, TooLargeError
from gangline.errors import (
    ConflictError,
    EngineError,
    GanglineError,
    InvalidInputError,
    KeyReusedError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    StorageError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnreachableError,
    WaitTimeoutError,
)

STATUSES: dict[type[GanglineError], HTTPStatus] = {
    InvalidInputError: HTTPStatus.BAD_REQUEST,
    TooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    StalledError: HTTPStatus.REQUEST_TIMEOUT,
    NotFoundError: HTTPStatus.NOT_FOUND,
    ConflictError: HTTPStatus.CONFLICT,
    PreconditionFailedError: HTTPStatus.PRECONDITION_FAILED,
    KeyReusedError: HTTPStatus.UNPROCESSABLE_ENTITY,
    PermissionDeniedError: HTTPStatus.FORBIDDEN,
    UnauthenticatedError: HTTPStatus.UNAUTHORIZED,
    TooManyRequestsError: HTTPStatus.TOO_MANY_REQUESTS,
    WaitTimeoutError: HTTPStatus.GATEWAY_TIMEOUT,
    UnreachableError: HTTPStatus.SERVICE_UNAVAILABLE,
    StorageError: HTTPStatus.SERVICE_UNAVAILABLE,
    EngineError: HTTPStatus.BAD_GATEWAY,
    GanglineError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""A class that is not listed has the status of its nearest listed ancestor."""


STATUS_OF: web.AppKey[Callable[[GanglineError], HTTPStatus]] = web.AppKey("status_of", object)  # type: ignore[arg-type]
"""How an interface whose statuses are another's answers errors, if not by ``status_of``."""


def status_of(error: GanglineError) -> HTTPStatus:
    """Return the status of the nearest listed class."""
    return next(STATUSES[cls] for cls in type(error).__mro__ if cls in STATUSES)
