"""What a handler needs from its request: the context of its operations, the tenant, the job it speaks of."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec
from aiohttp import web

from gangline.api.bodies import whole_body
from gangline.errors import InvalidInputError
from gangline.model import Tenant
from gangline.model.identity import check_name
from gangline.operations import OperationContext

T = TypeVar("T")

ContextFor = Callable[[web.Request], OperationContext]
"""Finds out who asks and makes the context for them, or refuses them; the composition root supplies it."""

CONTEXT_FOR: web.AppKey[ContextFor] = web.AppKey("context_for", object)  # type: ignore[arg-type]  # a callable has no class


CONTEXT: web.RequestKey[OperationContext] = web.RequestKey("context", OperationContext)
"""A context that stands in for the usual one: of a change that is only tried, or tied to a version."""


def context_of(request: web.Request) -> OperationContext:
    """Return the context for whoever asks."""
    return request[CONTEXT] if CONTEXT in request else request.app[CONTEXT_FOR](request)


def tenant_of(request: web.Request) -> Tenant:
    """Return the tenant in the path."""
    tenant = request.match_info["tenant"]
    check_name(tenant, "tenant")
    return Tenant(tenant)


def names_tenant(body: Mapping[str, object]) -> bool:
    """Whether a document says whose it is; if not, the path does."""
    metadata = body.get("metadata")
    return isinstance(metadata, Mapping) and ("tenant" in metadata or "namespace" in metadata)


def reference_of(request: web.Request) -> str:
    """Return the name or id of the job in the path."""
    return request.match_info["job"]


async def body_of(request: web.Request, kind: type[T]) -> T:
    """Decode the body; a wrong one is refused with the place of the fault."""
    try:
        return msgspec.json.decode(await whole_body(request), type=kind)
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"the body is not understood: {error}", field="body") from error
    except RecursionError as error:
        raise InvalidInputError("the body is nested too deeply", field="body") from error
