"""Handlers for the records of every kind: make, list, get, watch, edit, delete, and the verbs of the kind's own."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web

from gangline import operations
from gangline.api import operation as row
from gangline.api.operation import Operation
from gangline.api.rest.answers import json_answer, stream_answer
from gangline.api.rest.context import body_of, context_of, names_tenant, tenant_of
from gangline.api.rest.conventions.repeated_requests import id_of_key
from gangline.api.rest.parameters import Parameters
from gangline.dialects import document
from gangline.errors import InvalidInputError
from gangline.kinds import AnyKind
from gangline.model import Tenant
from gangline.model.record import Page, RecordId, RecordSpec
from gangline.model.team.access import Right

_PAGE = 100
_MOST = 1000


class RecordHandlers:
    """The handlers of one kind."""

    def __init__(self, kind: AnyKind) -> None:
        self._kind = kind

    async def create(self, request: web.Request) -> web.Response:
        """Make the record in the body under the id in the query; the same id, the same record."""
        record_id = Parameters(request).text("id") or id_of_key(request)
        if record_id is None:
            raise InvalidInputError(
                f"the {self._kind.name} has no id", field="id", expected="an id of your choice, or an Idempotency-Key"
            )
        spec = await self._spec(request)
        made = await operations.create_record(context_of(request), self._kind, RecordId(record_id), spec)
        return json_answer(made, HTTPStatus.CREATED)

    async def listing(self, request: web.Request) -> web.Response:
        """Return a page of records, newest first."""
        parameters = Parameters(request)
        limit = parameters.number("limit", least=1, most=_MOST) or _PAGE
        page = await operations.list_records(
            context_of(request), self._kind, self._tenant(request), limit=limit, after=parameters.text("after")
        )
        return json_answer(page)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Return one record, or stream it and every change to come until it is gone."""
        watched = Parameters(request).truth("watch")
        context, tenant, name = context_of(request), self._tenant(request), request.match_info["name"]
        found = await operations.get_record(context, self._kind, tenant, name)
        if watched:
            return await stream_answer(request, operations.watch_record(context, self._kind, tenant, name))
        return json_answer(found)

    async def edit(self, request: web.Request) -> web.Response:
        """Replace what the record's file says by the body; with ``version``, unless it has changed since then."""
        version = Parameters(request).number("version")
        spec = await self._spec(request)
        if spec.name != request.match_info["name"]:
            raise InvalidInputError(
                f"the body is about '{spec.name}'", field="metadata.name", expected=request.match_info["name"]
            )
        return json_answer(await operations.edit_record(context_of(request), self._kind, spec, version=version))

    async def delete(self, request: web.Request) -> web.Response:
        """Make a record disappear with all that belongs to it."""
        tenant, name = self._tenant(request), request.match_info["name"]
        return json_answer(await operations.delete_record(context_of(request), self._kind, tenant, name))

    async def verb(self, request: web.Request) -> web.Response:
        """Do something that only this kind has a word for."""
        tenant, name, verb = self._tenant(request), request.match_info["name"], request.match_info["verb"]
        values = await body_of(request, dict[str, str]) if request.can_read_body else None
        context = context_of(request)
        return json_answer(await operations.do_verb(context, self._kind, tenant, name, verb, values=values))

    def operations_here(self) -> list[Operation]:
        """Every operation of this kind; what belongs to the whole cluster is changed by those who run it."""
        tenants = "/tenants/{tenant}" if self._kind.namespaced else ""
        many = f"{tenants}/{self._kind.plural}"
        one = f"{many}/{{name}}"
        write = Right.WRITE if self._kind.namespaced else Right.OPERATE
        answer: Any = self._kind.answer
        page, new = Page[answer], HTTPStatus.CREATED
        file: Any = {"body": dict[str, object], "body_schema": _file_schema(self._kind)}
        return [
            row.post(write, many, self.create, query={"id": str}, **file, answer=answer, status=new),
            row.get(Right.READ, many, self.listing, query={"limit": int, "after": str}, answer=page),
            row.get(Right.READ, one, self.get, query={"watch": bool}, answer=answer, items=answer),
            row.put(write, one, self.edit, query={"version": int}, **file, answer=answer),
            row.delete(write, one, self.delete, answer=answer),
            row.post(write, f"{one}/{{verb}}", self.verb, body=dict[str, str] | None, answer=answer),
        ]

    def _tenant(self, request: web.Request) -> Tenant | None:
        return tenant_of(request) if self._kind.namespaced else None

    async def _spec(self, request: web.Request) -> RecordSpec:
        """Read the body as the kind's file; the path says whose it is."""
        body, tenant = await body_of(request, dict[str, object]), self._tenant(request)
        spec: RecordSpec = self._kind.format.read(document.plain(body), {})
        if tenant is not None and not names_tenant(body):
            spec = self._kind.owned_by(spec, tenant)
        if spec.tenant != tenant:
            raise InvalidInputError(
                f"the {self._kind.name} belongs to tenant '{spec.tenant}'",
                field="metadata.tenant",
                expected=f"'{tenant}', as in the path",
            )
        return spec


def _file_schema(kind: AnyKind) -> dict[str, Any]:
    """Return the schema of a kind's file."""
    text = {"type": "string"}
    metadata = {"type": "object", "required": ["name"], "properties": {"name": text}}
    properties = {"apiVersion": text, "kind": text, "metadata": metadata, "spec": _closed(kind.format.schema)}
    return {"type": "object", "required": ["metadata"], "properties": properties}


def _closed(schema: Any) -> Any:
    """Say of every object that unknown fields are refused: a cluster drops them, and this interface does not."""
    if isinstance(schema, Mapping):
        found = {key: _closed(value) for key, value in schema.items()}
        fields = schema.get("properties")
        whole = schema.get("type") == "object" and isinstance(fields, Mapping)
        if whole and not any(key in schema for key in ("additionalProperties", "x-kubernetes-preserve-unknown-fields")):
            found["additionalProperties"] = False
        return found
    return [_closed(each) for each in schema] if isinstance(schema, list) else schema


def operations_of(kinds: Iterable[AnyKind]) -> list[Operation]:
    """Every operation of every kind."""
    return [operation for kind in kinds for operation in RecordHandlers(kind).operations_here()]
