"""Finding out who asks, where many may: by a token, or by whatever else the composition root knows of."""

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from gangline.api.operation import Identify
from gangline.errors import UnauthenticatedError
from gangline.model.team.access import Identity

Recognize = Callable[[str], Awaitable[Identity | None]]
"""Says whom a bearer's text stands for, None if it is not of its kind or not (any more) valid."""

_REFUSAL = "log in: 'gangline login ADDRESS'"
NOT_VALID = "the token is unknown, expired or revoked; log in again: 'gangline login ADDRESS'"
MOST_TOKEN_CHARACTERS = 16_384


def account_of(identity: Identity) -> str:
    """Return what somebody's requests are counted and kept under.

    Tenants name their tokens as they please, and must not meet another's of that name.
    """
    return " ".join((identity.name, *sorted(identity.roles)))


def bearer_identify(ways: Sequence[Recognize]) -> Identify:
    """Ask each way in turn. Whatever is wrong with a token, the answer is the same."""

    async def identify(request: web.Request) -> Identity:
        text = bearer_of(request)
        for recognize in ways:
            if (found := await recognize(text)) is not None:
                return found
        raise UnauthenticatedError(NOT_VALID)

    return identify


def bearer_of(request: web.Request) -> str:
    """Return the token of a request; raises UnauthenticatedError if it has none that could be one."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if not text:
        raise UnauthenticatedError(_REFUSAL)
    if scheme.lower() != "bearer" or len(text) > MOST_TOKEN_CHARACTERS:
        raise UnauthenticatedError(NOT_VALID)
    return text.strip()
