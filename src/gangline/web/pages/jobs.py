"""The jobs of a tenant: filtered, sorted, live; several can be selected, to be compared or acted on."""

from collections.abc import Callable

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get
from gangline.api.rest.context import context_of
from gangline.dialects.native import pairs
from gangline.errors import InvalidInputError
from gangline.model import ACTIVE_PHASES, FINAL_PHASES, WAITING_PHASES, Job, Phase, QueueName
from gangline.model.team.access import Right
from gangline.model.wording import reason_text, replicas_text
from gangline.storage.interface import JobQuery
from gangline.web.frame import Entry, Frame, address, form, may, show, sorted_query, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.pages.selected import buttons
from gangline.web.parts import commands, lasting, moment, phase_badge, table

_PAGE = 50
_GROUPS = {
    "waiting": WAITING_PHASES,
    "running": ACTIVE_PHASES,
    "halted": frozenset({Phase.HALTED, Phase.HALTING}),
    "finished": FINAL_PHASES,
}
"""Words for several phases at once, besides the phases themselves."""
_SORTS = {
    "newest": None,
    "name": lambda job: job.name,
    "phase": lambda job: (job.phase.value, job.name),
    "queue": lambda job: (job.spec.queue, job.name),
    "priority": lambda job: (-job.spec.priority, job.name),
}


_COLUMNS: dict[str, Callable[[Job], Node]] = {
    "priority": lambda job: job.spec.priority,
    "GPUs": lambda job: f"{sum(each.replicas * each.resources.gpu_millis for each in job.spec.roles) / 1000:g}",
    "framework": lambda job: job.spec.framework.value,
    "attempt": lambda job: job.attempt,
    "labels": lambda job: ", ".join(f"{key}={value}" for key, value in job.spec.labels.items()),
    "id": lambda job: h.code(job.id),
}
"""Columns that are shown when they are asked for."""


async def listing(request: web.Request) -> web.Response:
    """Show a page of jobs."""
    tenant, query = tenant_here(request), request.query
    problem: Node = None
    found: tuple[Job, ...] = ()
    following: str | None = None
    try:
        page = await operations.list_jobs(context_of(request), tenant, _query(request))
        found, following = page.jobs, page.next
    except InvalidInputError as error:
        problem = h.p(str(error), cls="error", role="alert")
    order = _SORTS.get(query.get("sort", "newest"))
    jobs = found if order is None else tuple(sorted(found, key=order))
    older = None
    if following is not None:
        older = h.p(h.a("Older jobs", href=address(tenant, "jobs", **sorted_query(query, after=following))))
    return show(
        request,
        Frame(
            title="Jobs",
            before=_toolbar(request),
            live=(
                problem,
                form(
                    request,
                    address(tenant, "selected", "compare"),
                    job_rows(tenant, jobs, more=columns_asked(request), chosen=True),
                    buttons(request) if jobs else None,
                ),
                older,
            ),
            after=commands(("list", "--tenant", tenant), ("list", "-w", "--tenant", tenant)),
        ),
    )


def _query(request: web.Request) -> JobQuery:
    query = request.query
    word = query.get("phase", "")
    phases = _GROUPS.get(word)
    if phases is None and word:
        try:
            phases = frozenset({Phase(word.upper())})
        except ValueError as error:
            expected = ", ".join((*_GROUPS, *Phase))
            raise InvalidInputError(f"'{word}' is not a phase", field="phase", expected=expected) from error
    labels = tuple(text for text in query.get("label", "").split(",") if text)
    return JobQuery(
        queue=QueueName(query["queue"]) if query.get("queue") else None,
        phases=phases,
        labels=tuple(pairs(labels, "label").items()),
        text=query.get("text") or None,
        after=query.get("after") or None,
        limit=_PAGE,
    )


def _toolbar(request: web.Request) -> Element:
    query, tenant, asked = request.query, tenant_here(request), columns_asked(request)

    def chosen(name: str, words: tuple[str, ...], empty: str) -> Element:
        options = [h.option(empty, value="")] if empty else []
        options += [h.option(word, value=word, selected=query.get(name) == word) for word in words]
        return h.select(options, id=name, name=name)

    def field(label: str, name: str, control: Element) -> Element:
        return h.span(h.label(label, for_=name), control, cls="field")

    return h.div(
        h.form(
            field("Name", "text", h.input(id="text", name="text", type="search", value=query.get("text", ""))),
            field("Phase", "phase", chosen("phase", (*_GROUPS, *(each.lower() for each in Phase)), "any")),
            field("Queue", "queue", h.input(id="queue", name="queue", value=query.get("queue", ""), size=10)),
            field(
                "Label",
                "label",
                h.input(id="label", name="label", value=query.get("label", ""), placeholder="key=value"),
            ),
            field("Sort this page", "sort", chosen("sort", tuple(_SORTS), "")),
            h.details(
                h.summary("Columns"),
                [
                    h.label(h.input(type="checkbox", name="column", value=word, checked=word in asked), f" {word} ")
                    for word in _COLUMNS
                ],
            ),
            h.button("Show"),
            method="get",
            cls="toolbar",
            role="search",
        ),
        h.a("Submit a job", href=address(tenant, "submit"), cls="button primary")
        if may(request, Right.WRITE)
        else None,
        cls="toolbars",
    )


def columns_asked(request: web.Request) -> tuple[str, ...]:
    """The columns that somebody wants besides."""
    asked = request.query.getall("column", [])
    return tuple(word for word in _COLUMNS if word in asked)


def job_rows(tenant: str, jobs: tuple[Job, ...], *, more: tuple[str, ...] = (), chosen: bool = False) -> Element:
    """Jobs as a table, with ``more`` columns; ``chosen`` lets several be selected."""
    headings = (
        "Name",
        "Phase",
        "Replicas",
        "Queue",
        "Submitted",
        "Ran",
        *(word[:1].upper() + word[1:] for word in more),
        "Why",
    )
    rows = [_cells(tenant, job, more) for job in jobs]
    return table(
        ("Select", *headings) if chosen else headings,
        [(_choice(job), *row) for job, row in zip(jobs, rows, strict=True)] if chosen else rows,
        caption="Jobs",
        empty="There are no such jobs.",
    )


def _choice(job: Job) -> Node:
    return h.input(type="checkbox", name="job", value=job.name, aria_label=f"Select {job.name}", id=f"pick-{job.id}")


def _cells(tenant: str, job: Job, more: tuple[str, ...]) -> tuple[Node, ...]:
    return (
        h.a(job.name, href=address(tenant, "jobs", job.name), cls="name"),
        phase_badge(job.phase),
        replicas_text(job),
        job.spec.queue,
        moment(job.created_at),
        lasting(job.started_at, job.finished_at),
        *(_COLUMNS[word](job) for word in more),
        h.span(reason_text(job), cls="reason"),
    )


entries = (Entry("Work", "Jobs", "jobs"),)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    return [get(Right.READ, "/tenants/{tenant}/jobs", listing)]
