"""The pages of every kind, made from its registration: a list, one record, its verbs. A kind needs no line here.

What a kind shows besides is in a module of ``gangline.web.sections`` that has its name; without one, its columns, its
jobs and its file are what there is.
"""

from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import yaml
from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get, post
from gangline.api.rest.context import context_of
from gangline.dialects.native import pairs
from gangline.errors import GanglineError
from gangline.kinds import AnyKind, Column, Verb, all_kinds
from gangline.model import Resources, Tenant
from gangline.model.team.access import Right
from gangline.model.wording import amount, number
from gangline.storage.interface import JobQuery
from gangline.web.frame import Entry, Frame, address, may, show, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.kind_words import command_of, many_of, one_of, title_of
from gangline.web.pages.jobs import job_rows
from gangline.web.parts import act, ask_first, commands, facts, moment, section, state_badge, table

_PAGE = 100
_JOBS = 50

Sections = Callable[[web.Request, Any], Awaitable[Node]]
"""What a kind shows of a record besides: the request, and the record as the service answers with it."""


class RecordPages:
    """The pages of one kind."""

    def __init__(self, kind: AnyKind) -> None:
        self._kind = kind
        self._write = Right.WRITE if kind.namespaced else Right.OPERATE
        module = f"gangline.web.sections.{kind.name}"
        self._own = import_module(module) if find_spec(module) else None

    async def listing(self, request: web.Request) -> web.Response:
        """Show a page of records."""
        kind, tenant = self._kind, tenant_here(request)
        owner = tenant if kind.namespaced else None
        after = request.query.get("after") or None
        page = await operations.list_records(context_of(request), kind, owner, limit=_PAGE, after=after)
        older = None if page.next is None else h.p(h.a("More", href=address(tenant, kind.plural, after=page.next)))
        make = None
        if may(request, self._write) and not kind.foreign:
            make = h.p(h.a(f"New {one_of(kind)}", href=address(tenant, "submit", kind=kind.name), cls="button primary"))
        before = await self._sections(request, "above_list", page.items)
        return show(
            request,
            Frame(
                title=title_of(kind),
                before=(h.p(kind.description, cls="faint"), make),
                live=(before, self._rows(tenant, page.items), older),
                after=commands((*command_of(kind), "list", *self._of(tenant))),
            ),
        )

    def _rows(self, tenant: Tenant, found: tuple[Any, ...]) -> Element:
        columns = [column for column in self._kind.columns if not column.wide]
        first, last = ([each for each in columns if each.last is late] for late in (False, True))
        return table(
            ("Name", *(_heading(each) for each in first), "Made", *(_heading(each) for each in last)),
            [
                (
                    h.a(each.name, href=address(tenant, self._kind.plural, each.name), cls="name"),
                    *(cell_of(column, each) for column in first),
                    moment(each.created_at or None),
                    *(cell_of(column, each) for column in last),
                )
                for each in found
            ],
            caption=title_of(self._kind),
            empty=f"There are no {many_of(self._kind)}.",
        )

    async def one(self, request: web.Request) -> web.Response:
        """Show one record."""
        kind, tenant, name = self._kind, tenant_here(request), request.match_info["name"]
        context = context_of(request)
        found = await operations.get_record(context, kind, tenant if kind.namespaced else None, name)
        jobs: Node = None
        if kind.owns_jobs:
            query = JobQuery(labels=((kind.label, name),), limit=_JOBS)
            page = await operations.list_jobs(context, tenant, query)
            jobs = section("Jobs", job_rows(tenant, page.jobs), name="jobs")
        shown = [(_heading(each), cell_of(each, found)) for each in kind.columns]
        text = yaml.safe_dump(kind.format.write(found.spec), sort_keys=False, allow_unicode=True)
        return show(
            request,
            Frame(
                title=name,
                crumbs=((title_of(kind), address(tenant, kind.plural)),),
                live=(
                    self._actions(request, tenant, found) if may(request, self._write) else None,
                    section("Facts", facts([*shown, ("Made", moment(found.created_at or None))]), name="facts"),
                    await self._sections(request, "sections", found),
                    jobs,
                ),
                after=(
                    section("File", h.details(h.summary("As a file"), h.pre(text, tabindex="0")), name="file"),
                    await self._sections(request, "below", found),
                    commands((*command_of(kind), "get", name, *self._of(tenant))),
                ),
                scripts=("uPlot.iife.min.js", "charts.js"),
            ),
        )

    def _actions(self, request: web.Request, tenant: Tenant, record: Any) -> Element:
        kind, name = self._kind, record.name
        where = address(tenant, kind.plural, name)
        found: list[Node] = []
        for verb in kind.verbs:
            if not self._does_something(verb, record):
                continue
            words = (*command_of(kind), verb.name, name, *self._of(tenant))
            if verb.takes:
                field = h.label(f"{verb.takes} ", h.input(name="values", placeholder=verb.takes, required=True))
                label = verb.name.capitalize()
                found.append(ask_first(request, label, verb.summary, f"{where}/{verb.name}", words, field))
            else:
                found.append(act(request, verb.name.capitalize(), f"{where}/{verb.name}", words))
        also = " Its jobs are stopped and deleted with it." if kind.owns_jobs else ""
        words = (*command_of(kind), "delete", name, *self._of(tenant))
        if name not in {each.name for each in kind.always}:
            found.append(
                ask_first(request, "Delete", f"The {one_of(kind)} is gone for good.{also}", f"{where}/delete", words)
            )
        return h.div(found, cls="actions")

    def _does_something(self, verb: Verb[Any, Any], record: Any) -> bool:
        """Whether a verb would change the record as it is; where it takes values or sees more, only doing it shows."""
        if verb.takes or self._kind.view is not None:
            return True
        try:
            return bool(verb.change(record) != record)
        except GanglineError:
            return False

    async def verb(self, request: web.Request) -> web.StreamResponse:
        """Do what only this kind has a word for."""
        kind, tenant, name = self._kind, tenant_here(request), request.match_info["name"]
        verb = next(each for each in kind.verbs if each.name == request.path.rpartition("/")[2])
        given = (await request.post()).get("values", "")
        values = pairs(tuple(str(given).split()), verb.takes) if verb.takes else None
        owner = tenant if kind.namespaced else None
        await operations.do_verb(context_of(request), kind, owner, name, verb.name, values=values)
        raise web.HTTPSeeOther(address(tenant, kind.plural, name))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Make a record disappear."""
        kind, tenant = self._kind, tenant_here(request)
        owner = tenant if kind.namespaced else None
        await operations.delete_record(context_of(request), kind, owner, request.match_info["name"])
        raise web.HTTPSeeOther(address(tenant, kind.plural))

    def _of(self, tenant: Tenant) -> tuple[str, ...]:
        return ("--tenant", tenant) if self._kind.namespaced else ()

    async def _sections(self, request: web.Request, name: str, found: Any) -> Node:
        """Ask the kind's own module, if there is one, for what it shows besides."""
        shown: Sections | None = getattr(self._own, name, None)
        return None if shown is None else await shown(request, found)

    def entry(self) -> Entry:
        """The kind's line of the navigation: among what runs, what is kept, what everybody shares, or others' kinds."""
        group = "Work" if self._kind.plan is not None else "Data" if self._kind.namespaced else "Machines"
        group = "Kubeflow" if self._kind.foreign else group
        return Entry(group, title_of(self._kind), self._kind.plural)

    def operations_here(self) -> list[Operation]:
        """The routes of this kind."""
        many = f"/tenants/{{tenant}}/{self._kind.plural}"
        one = f"{many}/{{name}}"
        return [
            get(Right.READ, many, self.listing),
            get(Right.READ, one, self.one),
            post(self._write, f"{one}/delete", self.delete),
            *(post(self._write, f"{one}/{verb.name}", self.verb) for verb in self._kind.verbs),
            *(get(Right.READ, f"{one}/{name}", page) for name, page in getattr(self._own, "views", {}).items()),
            *(post(self._write, f"{one}/{name}", form) for name, form in getattr(self._own, "forms", {}).items()),
        ]


def cell_of(column: Column[Any], found: Any) -> Node:
    """What a column shows of a record."""
    value = column.cell(found)
    if value is None:
        return "–"
    if column.heading == "STATE":
        return state_badge(str(value))
    if isinstance(value, Resources):
        return amount(value)
    return number(value) if isinstance(value, float) else str(value)


def _heading(column: Column[Any]) -> str:
    return column.heading.capitalize()


def entries_of_kinds() -> list[Entry]:
    """A line of the navigation for every kind."""
    return [RecordPages(kind).entry() for kind in all_kinds()]


def operations_of_kinds() -> list[Operation]:
    """The routes of every kind."""
    return [operation for kind in all_kinds() for operation in RecordPages(kind).operations_here()]
