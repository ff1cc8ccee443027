"""Handlers for a kind of somebody else whose objects are kept as records: create, get, list, watch, change, delete.

A module per kind says how its objects are read and written (``ForeignKind``) and adds ``routes`` of it.
"""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Generic

from aiohttp import web

from gangline import operations
from gangline.api import operation as row
from gangline.api.bodies import whole_body
from gangline.api.kubernetes.answers import list_object, object_answer, stream_answer, success_object
from gangline.api.kubernetes.job_objects import named
from gangline.api.kubernetes.plain import Plain, decode_object, merged, part, text
from gangline.api.kubernetes.requests import (
    check_version,
    context_of,
    deletion_is_trial,
    is_trial,
    name_of,
    number_in,
    switched_on,
    tenant_of,
)
from gangline.api.kubernetes.watched_objects import chosen_objects, object_changes
from gangline.errors import InvalidInputError, NotFoundError
from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status, View
from gangline.model import Tenant
from gangline.model.record import DELETING, Record, RecordId
from gangline.model.team.access import Right

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Followers(Generic[View]):
    """Objects that follow from one record and can only be looked at."""

    word: str
    """Their ``kind``."""
    objects: Callable[[View], list[Plain]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKind(Generic[Spec, Status, View]):
    """How the objects of one kind are read and written."""

    kind: Kind[Spec, Status, View]
    show: Callable[[View], Plain]
    """Writes the whole object."""
    read: Callable[[Plain], Spec]
    """Reads a new object, which has its name and namespace."""
    changed: Callable[[View, Plain, Plain], Spec]
    """Reads an object that is to take the place of another: the record, its object, and the new object."""
    drafted: Callable[[Record[Spec, Status]], View]
    """What is answered for a record that is only tried (``dryRun``)."""
    notes: Callable[[Spec], tuple[str, ...]] = field(default=lambda spec: ())
    """Says what of a new or changed object is accepted and has no effect."""
    beside: "Callable[[web.Request, str | None], Awaitable[list[Plain]]] | None" = None
    """Objects of this kind that follow from records of another: the one of a name, or all."""
    followers: Mapping[str, Followers[View]] = field(default_factory=dict)
    """By plural, the kinds of which others can only be looked at."""

    def kinds(self) -> dict[str, str]:
        """Every ``kind`` that is served, by its plural."""
        others = {plural: each.word for plural, each in self.followers.items()}
        return {self.kind.plural: self.kind.object_kind, **others}

    def routes(self) -> list[row.Operation]:
        """Every path of the kind, and of those that follow from it."""
        kind = self.kind
        within = "namespaces/{namespace}/" if kind.namespaced else ""
        base = f"/apis/{kind.api_version}/{within}"
        many, one = f"{base}{kind.plural}", f"{base}{kind.plural}/{{name}}"
        writing = Right.WRITE if kind.namespaced else Right.OPERATE
        rows = [
            row.post(writing, many, self._create),
            row.patch(writing, one, self._change),
            row.put(writing, one, self._change),
            row.delete(writing, one, self._delete),
        ]
        for plural in self.kinds():
            each = f"{base}{plural}"
            get = partial(self._get, plural)
            rows += [
                row.get(Right.READ, each, partial(self._listing, plural)),
                row.get(Right.READ, f"{each}/{{name}}", get),
                row.get(Right.READ, f"{each}/{{name}}/status", get),
            ]
        for plural in self.followers:
            refuse = partial(self._refuse, plural)
            paths = (f"{base}{plural}", f"{base}{plural}/{{name}}")
            methods = (row.post, row.patch, row.put, row.delete)
            rows += [method(Right.WRITE, path, refuse) for method in methods for path in paths]
        return rows

    async def _create(self, request: web.Request) -> web.Response:
        """Make a record of the object in the body."""
        tenant, context = self._tenant(request), context_of(request)
        sent = decode_object(await whole_body(request))
        identity = RecordId(str(uuid.uuid4()))
        name = named(sent, suffix=identity[:5])
        spec = self.read(self._placed(sent, tenant, name))
        if is_trial(request):
            draft = Record(id=identity, spec=spec, status=self.kind.status(), created_at=context.clock.now())
            found = self.drafted(draft)
        else:
            found = await operations.create_record(context, self.kind, identity, spec)
        return object_answer(self.show(found), HTTPStatus.CREATED, warnings=self.notes(spec))

    async def _get(self, plural: str, request: web.Request) -> web.Response:
        """Return one object."""
        if plural == self.kind.plural:
            try:
                return object_answer(self.show(await self._find(request)))
            except NotFoundError:
                for found in await self.beside(request, name_of(request)) if self.beside is not None else ():
                    return object_answer(found)
                raise
        for found in await self._all(plural, request):
            if text(found, "metadata", "name") == name_of(request):
                return object_answer(found)
        raise NotFoundError(plural, name_of(request))

    async def _listing(self, plural: str, request: web.Request) -> web.StreamResponse:
        """Return the objects of one kind, or watch them."""
        if switched_on(request, "watch"):
            changes = object_changes(request, lambda: self._all(plural, request))
            seconds = number_in(request, "timeoutSeconds") or None
            return await stream_answer(request, changes, content_type="application/json", seconds=seconds)
        found = chosen_objects(request, await self._all(plural, request))
        return object_answer(list_object(self.kinds()[plural], self.kind.api_version, found))

    async def _change(self, request: web.Request) -> web.Response:
        """Merge the body into an object, or put it in its place."""
        if is_trial(request):
            raise web.HTTPBadRequest(text="a change cannot be tried here (dryRun); nothing was changed")
        sent = decode_object(await whole_body(request))
        known = await self._find(request)
        before = self.show(known)
        check_version(part(sent, "metadata"), str(part(before, "metadata")["resourceVersion"]))
        wanted = merged(before, sent) if request.method == "PATCH" else sent
        name = name_of(request)
        if not isinstance(wanted, dict) or part(wanted, "metadata").get("name") != name:
            raise InvalidInputError("the name cannot change", field="metadata.name", expected=f"'{name}'")
        wanted = {key: value for key, value in wanted.items() if key != "status"}
        spec = self.changed(known, before, self._placed(wanted, self._tenant(request), name))
        found = await operations.edit_record(context_of(request), self.kind, spec)
        return object_answer(self.show(found), warnings=self.notes(spec))

    async def _delete(self, request: web.Request) -> web.Response:
        """Delete one, with all that belongs to it."""
        metadata = part(self.show(await self._find(request)), "metadata")
        uid, version = str(metadata["uid"]), str(metadata["resourceVersion"])
        if not await deletion_is_trial(request, uid=uid, version=version):
            await operations.delete_record(context_of(request), self.kind, self._tenant(request), name_of(request))
        return object_answer(success_object(name_of(request), self.kind.plural, uid))

    async def _refuse(self, plural: str, request: web.Request) -> web.Response:
        """Refuse to change what follows from another object."""
        message = f"{plural} follow from their {self.kind.object_kind}; change that"
        raise web.HTTPMethodNotAllowed(request.method, ["GET"], text=message)

    def _tenant(self, request: web.Request) -> Tenant | None:
        return tenant_of(request) if self.kind.namespaced else None

    def _placed(self, sent: Plain, tenant: Tenant | None, name: str | None) -> Plain:
        """Put the name and the namespace of the path into an object; another one is refused."""
        metadata = dict(part(sent, "metadata"))
        if tenant is not None:
            given = text(sent, "metadata", "namespace")
            if given not in (None, tenant):
                problem = f"'{given}' is not the one in the path"
                raise InvalidInputError(problem, field="metadata.namespace", expected=tenant)
            metadata["namespace"] = tenant
        if name:
            metadata["name"] = name
        known = {"apiVersion": self.kind.api_version, "kind": self.kind.object_kind}
        for key, value in known.items():
            if sent.get(key, value) != value:
                raise InvalidInputError(f"'{sent[key]}' does not belong here", field=key, expected=value)
        return {**known, **sent, "metadata": metadata}

    async def _find(self, request: web.Request) -> View:
        """Return the one of the path; one that is being deleted is gone for clients, as on a cluster."""
        found = await operations.get_record(context_of(request), self.kind, self._tenant(request), name_of(request))
        if _is_going(found):
            raise NotFoundError(self.kind.plural, name_of(request))
        return found

    async def views(self, request: web.Request) -> list[View]:
        """Return every record of the namespace, if the kind has one, but those that are being deleted."""
        context, tenant = context_of(request), self._tenant(request)
        found, after = list[View](), None
        while True:
            page = await operations.list_records(context, self.kind, tenant, limit=_PAGE, after=after)
            found += [each for each in page.items if not _is_going(each)]
            after = page.next
            if after is None:
                return found

    async def _all(self, plural: str, request: web.Request) -> list[Plain]:
        found = await self.views(request)
        if plural == self.kind.plural:
            others = await self.beside(request, None) if self.beside is not None else []
            return [*(self.show(each) for each in found), *others]
        return [each for record in found for each in self.followers[plural].objects(record)]


def _is_going(found: object) -> bool:
    """Whether a record, or the view of one, is on its way out."""
    return getattr(found, "state", None) == DELETING
