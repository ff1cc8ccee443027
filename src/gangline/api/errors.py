"""Which HTTP status each error of Gangline has: the one table. ``wire.errors`` is the body that goes with it."""

from http import HTTPStatus

from gangline.errors import (
    ConflictError,
    EngineError,
    GanglineError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    StorageError,
    UnreachableError,
    WaitTimeoutError,
)

STATUSES: dict[type[GanglineError], HTTPStatus] = {
    InvalidInputError: HTTPStatus.BAD_REQUEST,
    NotFoundError: HTTPStatus.NOT_FOUND,
    ConflictError: HTTPStatus.CONFLICT,
    PermissionDeniedError: HTTPStatus.FORBIDDEN,
    WaitTimeoutError: HTTPStatus.GATEWAY_TIMEOUT,
    UnreachableError: HTTPStatus.SERVICE_UNAVAILABLE,
    StorageError: HTTPStatus.SERVICE_UNAVAILABLE,
    EngineError: HTTPStatus.BAD_GATEWAY,
    GanglineError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""A class that is not listed has the status of its nearest listed ancestor."""


def status_of(error: GanglineError) -> HTTPStatus:
    """Return the status of the nearest listed class."""
    return next(STATUSES[cls] for cls in type(error).__mro__ if cls in STATUSES)
