"""Which HTTP status each error of Gangline has: the one table, and the body that lets a client raise it again.

The body names the class and carries its attributes as ``facts``; they are the class's own constructor arguments,
so that the SDK raises the very same error. Nothing else looks at error classes on the way out.
"""

from http import HTTPStatus

import msgspec

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


class ErrorDetail(msgspec.Struct, kw_only=True, frozen=True):
    """One error on the wire."""

    type: str
    message: str
    facts: dict[str, str | int | None]


class ErrorBody(msgspec.Struct, frozen=True):
    """What every answer that is no success carries."""

    error: ErrorDetail


def status_of(error: GanglineError) -> HTTPStatus:
    """Return the status of the nearest listed class."""
    return next(STATUSES[cls] for cls in type(error).__mro__ if cls in STATUSES)


def error_to_body(error: GanglineError) -> ErrorBody:
    """Describe an error so that a client can raise it again."""
    facts = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    return ErrorBody(ErrorDetail(type=type(error).__name__, message=str(error), facts=facts))
