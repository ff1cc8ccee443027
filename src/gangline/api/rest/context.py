"""What a handler needs from its request: the desk it may work at, the tenant, the job it speaks of."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from gangline.errors import InvalidInputError
from gangline.model import Tenant
from gangline.model.identity import check_name
from gangline.operations import Desk

T = TypeVar("T")

DeskFor = Callable[[web.Request], Desk]
"""Finds out who asks and gives them a desk, or refuses them; the composition root supplies it."""

DESK_FOR: web.AppKey[DeskFor] = web.AppKey("desk_for", object)  # type: ignore[arg-type]  # a callable has no class


def desk_of(request: web.Request) -> Desk:
    """Return the desk for whoever asks."""
    return request.app[DESK_FOR](request)


def tenant_of(request: web.Request) -> Tenant:
    """Return the tenant in the path."""
    tenant = request.match_info["tenant"]
    check_name(tenant, "tenant")
    return Tenant(tenant)


def reference_of(request: web.Request) -> str:
    """Return the name or id of the job in the path."""
    return request.match_info["job"]


async def body_of(request: web.Request, kind: type[T]) -> T:
    """Decode the body; a wrong one is refused with the place of the fault."""
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"the body is not understood: {error}", field="body") from error
    except RecursionError as error:
        raise InvalidInputError("the body is nested too deeply", field="body") from error
