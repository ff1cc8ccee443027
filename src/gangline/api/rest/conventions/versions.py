"""``If-Match``: a change is made only if what it changes still is what its sender has read."""

import re
from dataclasses import replace

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation
from gangline.api.rest.answers import entity_tag
from gangline.api.rest.context import CONTEXT, context_of, reference_of, tenant_of
from gangline.errors import InvalidInputError, NotFoundError
from gangline.storage.guarded import changed_meanwhile, guarded

_TAG = re.compile(r'\s*(?:W/)?"([^"]*)"\s*(?:,|$)')


async def check_version(request: web.Request, operation: Operation) -> None:
    """Refuse a change of another version than the one in the header; see to it that none comes between."""
    header = request.headers.get("If-Match")
    if header is None:
        return
    try:
        found = await target_of(request, operation)
    except NotFoundError:
        return  # the handler says so
    tag = None if found is None else entity_tag(found)
    if found is None or tag is None:
        raise InvalidInputError("what this changes has no version", field="If-Match", expected="no such header")
    if header.strip() == "*":
        return
    if f'"{tag}"' not in [f'"{each}"' for each in _TAG.findall(header)]:
        raise changed_meanwhile(found.version)  # type: ignore[attr-defined]  # whatever has a tag has one
    context = context_of(request)
    store = guarded(context.store, found.id, found.version)  # type: ignore[attr-defined]  # the same
    request[CONTEXT] = replace(context, store=store)


async def target_of(request: web.Request, operation: Operation) -> object | None:
    """Return the job or record that a path leads to, as the interface shows it; None if it leads to none."""
    match, context = request.match_info, context_of(request)
    if "job" in match:
        return await operations.get_job(context, tenant_of(request), reference_of(request))
    if operation.kind is not None and "name" in match:
        tenant = tenant_of(request) if operation.kind.namespaced else None
        found: object = await operations.get_record(context, operation.kind, tenant, match["name"])
        return found
    return None
