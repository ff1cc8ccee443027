"""Which exit code each error has, and how it is told: the one table of the command line."""

import sys

from gangline.errors import (
    ConflictError,
    GanglineError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    UnreachableError,
    WaitTimeoutError,
)

EXIT_CODES: dict[type[GanglineError], int] = {
    InvalidInputError: 2,
    NotFoundError: 3,
    ConflictError: 4,
    PermissionDeniedError: 5,
    UnreachableError: 6,
    WaitTimeoutError: 124,
    GanglineError: 1,
}
"""A class that is not listed has the code of its nearest listed ancestor."""

HINTS: dict[type[GanglineError], str] = {
    UnreachableError: "'gangline doctor' looks for the reason; 'gangline server start' starts the local service",
}


def report(error: Exception) -> int:
    """Tell an error on standard error and return the exit code."""
    if not isinstance(error, GanglineError):
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        print("hint: this is a defect of Gangline; GANGLINE_DEBUG=1 shows where it happened", file=sys.stderr)
        return 1
    print(f"error: {error}", file=sys.stderr)
    for hint in getattr(error, "__notes__", None) or filter(None, [HINTS.get(type(error))]):
        print(f"hint: {hint}", file=sys.stderr)
    return exit_code_of(error)


def exit_code_of(error: GanglineError) -> int:
    """Return the code of the nearest listed class."""
    return next(EXIT_CODES[cls] for cls in type(error).__mro__ if cls in EXIT_CODES)
