"""The service's errors, raised again here as the very same classes with the same attributes."""

import msgspec

from gangline import errors
from gangline.errors import GanglineError


class _Detail(msgspec.Struct):
    type: str
    message: str
    facts: dict[str, str | int | None]


class _Body(msgspec.Struct):
    error: _Detail


def error_from_body(body: bytes, status: int) -> GanglineError:
    """Rebuild the error that an answer describes; an answer that is none of ours becomes an UnreachableError."""
    try:
        detail = msgspec.json.decode(body, type=_Body).error
    except msgspec.DecodeError:
        return errors.UnreachableError(f"what answers there is no Gangline service (HTTP status {status})")
    cls = getattr(errors, detail.type, GanglineError)
    if not (isinstance(cls, type) and issubclass(cls, GanglineError)):
        return GanglineError(detail.message)
    return cls(**detail.facts) if detail.facts else cls(detail.message)
