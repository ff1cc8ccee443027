"""What handlers read from their requests: bodies, whose records are meant, and the records themselves."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from gangline import operations
from gangline.api.kfp.answers import Plain
from gangline.api.kfp.listing import Fields, read_request
from gangline.api.rest.context import CONTEXT_FOR
from gangline.dialects.document import compact_json
from gangline.errors import InvalidInputError, NotFoundError
from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status
from gangline.kinds.pipeline import graph_of
from gangline.model import DEFAULT_TENANT, Tenant
from gangline.model.identity import check_name
from gangline.model.record import Record
from gangline.operations import OperationContext

MOST_BODY_BYTES = 8 * 2**20
_PAGE = 1000
ROOT: web.AppKey[str | None] = web.AppKey("root")
"""Where artefacts are stored if a run does not say; None: they may stay where the steps made them."""
TENANT: web.AppKey[Tenant] = web.AppKey("tenant", str)  # type: ignore[arg-type]  # a NewType is not a class


def context_of(request: web.Request) -> OperationContext:
    """Return the context for whoever asks."""
    return request.app[CONTEXT_FOR](request)


async def body_of(request: web.Request) -> bytes:
    """Return the body; one that is too large is refused before all of it is read."""
    found = bytearray()
    async for chunk in request.content.iter_any():
        found += chunk
        if len(found) > MOST_BODY_BYTES:
            raise web.HTTPRequestEntityTooLarge(MOST_BODY_BYTES, len(found))
    return bytes(found)


async def object_of(request: web.Request) -> Plain:
    """Read the body as one JSON object."""
    try:
        found = json.loads(await body_of(request), parse_constant=_refuse_constant)
    except (ValueError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the body is not JSON: {error}", field="body") from error
    except RecursionError as error:
        raise InvalidInputError("the body is nested too deeply", field="body") from error
    if not isinstance(found, dict):
        raise InvalidInputError("the body is not an object", field="body", expected="a JSON object")
    return found


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not a number of JSON")


def text_in(document: Mapping[str, Any], name: str, where: str = "") -> str:
    """Return a text of the body, empty if there is none."""
    found = document.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise InvalidInputError(f"{found!r} is not text", field=f"{where}{name}", expected="text")
    return found


def part_in(document: Mapping[str, Any], name: str, where: str = "") -> Plain:
    """Return an object of the body, empty if there is none."""
    found = document.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidInputError("wrong shape", field=f"{where}{name}", expected="an object")
    return found


def usual_tenant(request: web.Request) -> Tenant:
    """Return who is meant where no namespace is named: the caller's only tenant, else that of the interface."""
    tenants = context_of(request).caller.tenants or ()
    return next(iter(tenants)) if len(tenants) == 1 else request.app[TENANT]


def tenant_of(request: web.Request, namespace: str = "") -> Tenant:
    """Return whose records are meant: the namespace that is named, else that of the interface."""
    name = namespace or request.query.get("namespace", "") or usual_tenant(request)
    check_name(name, "namespace")
    return Tenant(name)


def id_of(request: web.Request, record: Record[Any, Any]) -> str:
    """Return the id by which clients know a record: its name, with the tenant's in front unless it is the usual one."""
    return public_id(request, record.tenant or DEFAULT_TENANT, record.name)


def public_id(request: web.Request, tenant: Tenant, name: str) -> str:
    """Return the id of a record that has this name."""
    return name if tenant == usual_tenant(request) or not name else f"{tenant}.{name}"


def place_of(request: web.Request, found_id: str, kind: str) -> tuple[Tenant, str]:
    """Return the tenant and the name that an id means."""
    tenant, dot, name = found_id.rpartition(".")
    try:
        check_name(name, "id")
        check_name(tenant or "default", "id")
    except InvalidInputError:
        raise NotFoundError(kind, found_id[:100]) from None
    return Tenant(tenant) if dot else usual_tenant(request), name


def group_of(request: web.Request) -> tuple[Tenant, str]:
    """Return whose records a list is of, and the name of the experiment that they must belong to, if it says one."""
    named = request.query.get("experiment_id", "")
    return place_of(request, named, "experiment") if named else (tenant_of(request), "")


async def find(
    request: web.Request, kind: Kind[Spec, Status, Record[Spec, Status]], found_id: str
) -> Record[Spec, Status]:
    """Return the record that an id means; one that is being deleted is gone for clients."""
    tenant, name = place_of(request, found_id, kind.name)
    found = await operations.get_record(context_of(request), kind, tenant, name)
    if found.deleting:
        raise NotFoundError(kind.name, found_id)
    return found


async def every(
    request: web.Request, kind: Kind[Spec, Status, Record[Spec, Status]], tenant: Tenant
) -> list[Record[Spec, Status]]:
    """Return all records of a tenant."""
    context, found, after = context_of(request), list[Record[Spec, Status]](), None
    while True:
        page = await operations.list_records(context, kind, tenant, limit=_PAGE, after=after)
        found += [each for each in page.items if not each.deleting]
        after = page.next
        if after is None:
            return found


async def listed(
    request: web.Request,
    kind: Kind[Spec, Status, Record[Spec, Status]],
    fields: Fields[Record[Spec, Status]],
    tenant: Tenant,
) -> tuple[list[Record[Spec, Status]], Plain]:
    """Return the page that is asked for, and what goes with it in the answer."""
    wanted = read_request(request.query, fields)
    page, token, total = wanted.page(await every(request, kind, tenant), lambda found: found.name)
    return page, {"total_size": total, **({"next_page_token": token} if token else {})}


def documents_of(spec: object) -> str:
    """Read a pipeline as clients send it: the compiled one itself, or with its settings for Kubernetes beside it."""
    if not isinstance(spec, dict):
        raise InvalidInputError("wrong shape", field="pipeline_spec", expected="a compiled pipeline")
    inner = spec.get("pipeline_spec")
    platform = spec.get("platform_spec")
    documents = [inner if isinstance(inner, dict) else spec, *([platform] if isinstance(platform, dict) else [])]
    with readable("pipeline_spec"):
        text = compact_json(documents)
        graph_of(text)
    return text


@contextmanager
def readable(field: str) -> Iterator[None]:
    """Refuse what is built in such a wrong way that not even the reader has a word for it."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        problem = f"it is not a compiled pipeline: {type(error).__name__}: {error}"
        raise InvalidInputError(problem, field=field, expected="what the kfp package compiles") from error
