"""Handlers for ConfigMaps and Secrets: kept as they are sent, for jobs whose pod templates refer to them."""

import json
import uuid
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from gangline import operations
from gangline.api import operation as row
from gangline.api.bodies import whole_body
from gangline.api.kubernetes.answers import list_object, object_answer, success_object
from gangline.api.kubernetes.plain import Plain, decode_object, merged, part, text, texts
from gangline.api.kubernetes.requests import (
    check_version,
    context_of,
    deletion_is_trial,
    is_trial,
    name_of,
    refuse_watching,
    tenant_of,
)
from gangline.api.kubernetes.selectors import matches, parse_labels
from gangline.dialects.kubeflow import time_text
from gangline.errors import InvalidInputError
from gangline.model.team.access import Right
from gangline.operations import ObjectKind

_KINDS = {ObjectKind.CONFIG_MAP: "ConfigMap", ObjectKind.SECRET: "Secret"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
KindHandler = Callable[[web.Request, ObjectKind], Awaitable[web.StreamResponse]]


async def create(request: web.Request, kind: ObjectKind) -> web.Response:
    """Keep the object in the body."""
    document = decode_object(await whole_body(request))
    name = text(document, "metadata", "name")
    if name is None:
        raise InvalidInputError("the object has no name", field="metadata.name", expected="a name")
    now = time_text(context_of(request).clock.now())
    found = _complete(request, kind, document, name, {"uid": str(uuid.uuid4()), "creationTimestamp": now})
    if not is_trial(request):
        operations.put_object(context_of(request), tenant_of(request), kind, name, json.dumps(found), new=True)
    return object_answer(found, HTTPStatus.CREATED)


async def get(request: web.Request, kind: ObjectKind) -> web.Response:
    """Return one object."""
    return object_answer(_read(request, kind))


async def listing(request: web.Request, kind: ObjectKind) -> web.Response:
    """Return the objects of the namespace."""
    refuse_watching(request)
    wanted = parse_labels(request.query.get("labelSelector"))
    kept = operations.list_objects(context_of(request), tenant_of(request), kind)
    found = [decode_object(item.encode()) for item in kept]
    chosen = [item for item in found if matches(wanted, texts(item, "metadata", "labels"))]
    return object_answer(list_object(_KINDS[kind], "v1", chosen))


async def change(request: web.Request, kind: ObjectKind) -> web.Response:
    """Merge the body into an object, or put it in its place."""
    sent, known = decode_object(await whole_body(request)), _read(request, kind)
    wanted = merged(known, sent) if request.method == "PATCH" else sent
    metadata = part(known, "metadata")
    version = int(_version(known)) + 1
    check_version(part(sent, "metadata"), _version(known))
    found = _complete(request, kind, dict(wanted) if isinstance(wanted, dict) else {}, name_of(request), metadata)
    found["metadata"] = {**part(found, "metadata"), "resourceVersion": str(version)}
    if not is_trial(request):
        context, tenant = context_of(request), tenant_of(request)
        operations.put_object(context, tenant, kind, name_of(request), json.dumps(found), new=False)
    return object_answer(found)


async def delete(request: web.Request, kind: ObjectKind) -> web.Response:
    """Remove an object."""
    known = _read(request, kind)
    uid = text(known, "metadata", "uid") or ""
    if not await deletion_is_trial(request, uid=uid, version=_version(known)):
        operations.delete_object(context_of(request), tenant_of(request), kind, name_of(request))
    return object_answer(success_object(name_of(request), kind, uid))


def routes(core: str) -> list[row.Operation]:
    """Every path of this module, below the namespace's."""
    found = []
    for kind in ObjectKind:
        many, one = f"{core}/{kind}", f"{core}/{kind}/{{name}}"
        # Whoever may only look sees no Secrets: they open more than the tenant.
        read = Right.WRITE if kind is ObjectKind.SECRET else Right.READ
        found += [
            row.post(Right.WRITE, many, _of(kind, create)),
            row.get(read, many, _of(kind, listing)),
            row.get(read, one, _of(kind, get)),
            row.patch(Right.WRITE, one, _of(kind, change)),
            row.put(Right.WRITE, one, _of(kind, change)),
            row.delete(Right.WRITE, one, _of(kind, delete)),
        ]
    return found


def _of(kind: ObjectKind, handler: KindHandler) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await handler(request, kind)

    return handle


def _read(request: web.Request, kind: ObjectKind) -> Plain:
    return decode_object(
        operations.get_object(context_of(request), tenant_of(request), kind, name_of(request)).encode()
    )


def _version(known: Plain) -> str:
    return text(known, "metadata", "resourceVersion") or "1"


def _complete(request: web.Request, kind: ObjectKind, document: Plain, name: str, identity: Plain) -> Plain:
    """The object as it is kept: what the user wrote, with a server's part of the metadata."""
    kept = {"name": name, "namespace": tenant_of(request), "resourceVersion": "1"}
    lasting: Plain = {str(field): identity[field] for field in ("uid", "creationTimestamp") if field in identity}
    metadata: Plain = {**part(document, "metadata"), **kept, **lasting}
    return {**document, "apiVersion": "v1", "kind": _KINDS[kind], "metadata": metadata}
