"""Errors on the wire: the class, its message and its attributes, so that a client raises the very same error.

The attributes are the class's own constructor arguments. Nothing else looks at error classes on the way.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gangline import errors
from gangline.errors import GanglineError, UnreachableError


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetail:
    """One error."""

    type: str
    message: str
    facts: Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What every answer that is not a success carries."""

    error: ErrorDetail


_decode = msgspec.json.Decoder(ErrorBody).decode


def error_to_body(error: GanglineError) -> ErrorBody:
    """Describe an error so that a client can raise it again.

    A client knows the classes of ``gangline.errors`` alone: what an engine or a store derives from them for its own use
    travels as the nearest one of those, with the facts that this one takes.
    """
    known = next(cls for cls in type(error).__mro__ if cls.__module__ == errors.__name__)
    taken = inspect.signature(known.__init__).parameters  # type: ignore[misc]  # of this very class
    facts = {name: value for name, value in vars(error).items() if name in taken}
    return ErrorBody(ErrorDetail(type=known.__name__, message=str(error), facts=facts))


def error_from_body(body: bytes, status: int) -> GanglineError:
    """Rebuild the error that an answer describes; an answer that is none of ours becomes an UnreachableError."""
    try:
        detail = _decode(body).error
    except msgspec.DecodeError:
        return UnreachableError(f"what answers there is not a Gangline service (HTTP status {status})")
    cls = getattr(errors, detail.type, GanglineError)
    if not (isinstance(cls, type) and issubclass(cls, GanglineError)):
        return GanglineError(detail.message)
    return cls(**detail.facts) if detail.facts else cls(detail.message)
