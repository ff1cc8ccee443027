"""Which exit code each error has, and how it is told: the one table of the command line."""

import os
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
    if isinstance(error, OSError) and error.strerror:
        return _report_machine(error)
    if isinstance(error, UnicodeEncodeError):
        shown = error.object.encode(errors="surrogateescape")
        print(f"error: not UTF-8: {shown!r}; expected text in arguments, variables and file names", file=sys.stderr)
        return EXIT_CODES[InvalidInputError]
    if not isinstance(error, GanglineError):
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        print("hint: this is a bug in Gangline; GANGLINE_DEBUG=1 shows where it happened", file=sys.stderr)
        return 1
    print(f"error: {error}", file=sys.stderr)
    for hint in getattr(error, "__notes__", None) or filter(None, [HINTS.get(type(error))]):
        print(f"hint: {hint}", file=sys.stderr)
    return exit_code_of(error)


def _report_machine(error: OSError) -> int:
    """Tell what the system refused: a full disk, a file of somebody else. No defect of ours, and not ours to mend."""
    where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    print(f"error: {where}{error.strerror}", file=sys.stderr)
    print(
        "hint: 'gangline doctor' checks disk and directories; GANGLINE_DEBUG=1 shows where it happened", file=sys.stderr
    )
    return EXIT_CODES[PermissionDeniedError if isinstance(error, PermissionError) else GanglineError]


def exit_code_of(error: GanglineError) -> int:
    """Return the code of the nearest listed class."""
    return next(EXIT_CODES[cls] for cls in type(error).__mro__ if cls in EXIT_CODES)
