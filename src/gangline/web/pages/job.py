"""One job: what it does, why it waits, its replicas, curves, output and events, and what can be done about it."""

from collections.abc import Awaitable, Callable, Sequence

import yaml
from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get, post
from gangline.api.rest.context import context_of, reference_of
from gangline.dialects.native import job_to_plain
from gangline.errors import ConflictError
from gangline.model import Job, JournalRecord, Phase, ReplicaState, ReplicaStatus, Tenant
from gangline.model.team.access import Right
from gangline.model.wording import amount, reason_text, state_counts
from gangline.operations import OperationContext
from gangline.web.frame import Frame, address, may, show, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.pages.job_files import files_section
from gangline.web.pages.scaling import scale_sheet
from gangline.web.parts import (
    act,
    ask_first,
    commands,
    facts,
    lasting,
    moment,
    phase_badge,
    section,
    state_badge,
    table,
    timeline,
)

_MOST_EVENTS, _SHOWN_EVENTS = 50, 6

Verb = Callable[[OperationContext, Tenant, str], Awaitable[Job]]


async def page(request: web.Request) -> web.Response:
    """Show a job."""
    context, tenant = context_of(request), tenant_here(request)
    job = await operations.get_job(context, tenant, reference_of(request))
    why = await _why(context, tenant, job)
    journal = await operations.journal(context, tenant, job.id, limit=_MOST_EVENTS, newest=True)
    return show(
        request,
        Frame(
            title=job.name,
            crumbs=(("Jobs", address(tenant, "jobs")),),
            live=_live(request, context, job, why, journal),
            after=(_curves(job), _output(job), files_section(request, job), _file(job), _commands(job)),
            scripts=("uPlot.iife.min.js", "charts.js", "logs.js"),
        ),
    )


async def _why(context: OperationContext, tenant: Tenant, job: Job) -> tuple[str, ...]:
    if not job.placeable:
        return ()
    try:
        return (await operations.explain(context, tenant, job.id)).sentences
    except ConflictError:  # it has started since we read it
        return ()


def _live(
    request: web.Request,
    context: OperationContext,
    job: Job,
    why: tuple[str, ...],
    journal: Sequence[JournalRecord],
) -> Node:
    return (
        h.div(phase_badge(job.phase), " ", reason_text(job), cls="headline"),
        _actions(request, job) if may(request, Right.WRITE) else None,
        section("Why it waits", h.ul([h.li(each) for each in why]), name="why") if why else None,
        section("Phases", timeline(job, context.clock.now()), name="phases"),
        section("Facts", _facts(job), name="facts"),
        section("Roles", _roles(job), name="roles"),
        section("Replicas", _replicas(request, job), name="replicas"),
        section("Events", _events(journal), name="events"),
    )


def _facts(job: Job) -> Element:
    spec = job.spec
    return facts(
        (
            ("Id", job.id),
            ("Queue", h.a(spec.queue, href=address(spec.tenant, "queues", spec.queue))),
            ("Priority", spec.priority),
            ("Labels", ", ".join(f"{key}={value}" for key, value in spec.labels.items())),
            ("Framework", "" if spec.framework == "none" else spec.framework.value),
            ("Submitted", moment(job.created_at)),
            ("Ran", lasting(job.started_at, job.finished_at)),
            ("Last checkpoint", None if job.checkpoint_at is None else moment(job.checkpoint_at)),
            ("Attempt", f"{job.attempt} ({job.failures} of at most {spec.policy.max_attempts} failed)"),
            ("Exit code", job.exit_code),
            ("Code", spec.code),
            ("Origin", spec.origin),
        )
    )


def _roles(job: Job) -> Element:
    states = state_counts(job)
    return table(
        ("Role", "Replicas", "Each", "State", "Command"),
        [
            (
                role.name,
                f"{role.replicas} ({role.least} to {role.most})" if role.elastic else role.replicas,
                amount(role.resources),
                states[role.name],
                h.code(" ".join(role.command)),
            )
            for role in job.spec.roles
        ],
        caption="Roles",
    )


def _replicas(request: web.Request, job: Job) -> Element:
    return table(
        ("Replica", "Node", "State", "Exit", "Started", "Message", "Terminal"),
        [
            (
                str(status.id),
                status.node,
                state_badge(status.state.value),
                "–" if status.exit_code is None else status.exit_code,
                moment(status.started_at),
                status.message,
                _terminal(request, job, status),
            )
            for status in job.replicas
        ],
        caption="Replicas",
        empty="It has not started yet.",
    )


def _terminal(request: web.Request, job: Job, status: ReplicaStatus) -> Node:
    if status.state is not ReplicaState.RUNNING or not may(request, Right.WRITE):
        return "–"
    words = ("shell", job.name, "-i", str(status.id), "--tenant", job.spec.tenant)
    where = address(job.spec.tenant, "jobs", job.name, "terminal")
    return act(request, "Open", where, words, h.input(type="hidden", name="replica", value=str(status.id)))


def _events(journal: Sequence[JournalRecord]) -> Node:
    """The newest at once, and those before them when somebody wants them: curves and output are not far below."""
    newest = [(moment(each.at), each.reason, str(each.replica or "–"), each.message) for each in reversed(journal)]
    headings = ("When", "What", "Replica", "Message")
    shown, older = newest[:_SHOWN_EVENTS], newest[_SHOWN_EVENTS:]
    return (
        table(headings, shown, caption="Events, newest first"),
        h.details(h.summary(f"{len(older)} older"), table(headings, older, caption="Older events")) if older else None,
    )


def _curves(job: Job) -> Element:
    where = f"/api/v1/tenants/{job.spec.tenant}/jobs/{job.id}/metrics"
    chart = h.div(h.p("No numbers have been reported.", cls="faint"), data_charts=where, data_name=job.name)
    return section("Metrics", chart, name="metrics")


def _output(job: Job) -> Element:
    where = f"/api/v1/tenants/{job.spec.tenant}/jobs/{job.id}/logs"
    choices = [h.option("all replicas", value="")]
    choices += [
        h.option(f"{role.name}-{index}", value=f"{role.name} {index}")
        for role in job.spec.roles
        for index in range(min(role.most, 64))
    ]
    return section(
        "Output",
        h.div(
            h.div(
                h.span(h.label("Replica", for_="log-replica"), h.select(choices, id="log-replica"), cls="field"),
                h.span(h.label("Search", for_="log-search"), h.input(type="search", id="log-search"), cls="field"),
                h.button("Search the whole log", type="button", id="log-whole", cls="quiet"),
                h.span("", id="log-state", role="status", cls="faint"),
                cls="toolbar",
            ),
            h.div(id="log-lines", cls="log", tabindex="0", role="log", aria_label="Output of the job"),
            data_logs=where,
        ),
        name="output",
    )


def _file(job: Job) -> Element:
    text = yaml.safe_dump(job_to_plain(job.spec), sort_keys=False, allow_unicode=True)
    return section("File", h.details(h.summary("The job as a file"), h.pre(text, tabindex="0")), name="file")


def _commands(job: Job) -> Element:
    of = ("--tenant", job.spec.tenant)
    return commands(
        ("describe", job.name, *of),
        ("logs", "-f", job.name, *of),
        ("metrics", job.name, *of),
        ("events", job.name, *of),
    )


def _actions(request: web.Request, job: Job) -> Element:
    """What can be done now, each with the command that does the same."""
    where = address(job.spec.tenant, "jobs", job.name)
    of = (job.name, "--tenant", job.spec.tenant)
    found: list[Node] = []
    if not job.finished and job.phase not in (Phase.HALTED, Phase.HALTING):
        found.append(act(request, "Halt", f"{where}/halt", ("halt", *of)))
    if job.phase is Phase.HALTED:
        found.append(act(request, "Resume", f"{where}/resume", ("resume", *of)))
    if not job.finished and any(role.elastic for role in job.spec.roles):
        found.append(scale_sheet(request, job))
    board = address(job.spec.tenant, "selected", "tensorboard")
    this = h.input(type="hidden", name="job", value=job.name)
    found.append(act(request, "TensorBoard", board, ("tensorboard", *of), this))
    found.append(h.a("Rerun…", href=address(job.spec.tenant, "submit", like=job.name), cls="button"))
    if not job.finished:
        warning = "It ends for good and cannot be resumed. Its record, output and metrics stay."
        found.append(ask_first(request, "Cancel", warning, f"{where}/cancel", ("cancel", *of)))
    warning = "It ends, and its record, output, metrics and files are gone."
    found.append(ask_first(request, "Delete", warning, f"{where}/delete", ("delete", *of)))
    return h.div(found, cls="actions")


def acting(operation: Verb, *, leaves: bool = False) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Make the handler of a form that needs nothing but the job."""

    async def handler(request: web.Request) -> web.StreamResponse:
        tenant = tenant_here(request)
        job = await operation(context_of(request), tenant, reference_of(request))
        raise web.HTTPSeeOther(address(tenant, "jobs") if leaves else address(tenant, "jobs", job.name))

    handler.__doc__ = operation.__doc__
    return handler


def operations_here() -> list[Operation]:
    """The routes of this module."""
    one = "/tenants/{tenant}/jobs/{job}"
    return [
        get(Right.READ, one, page),
        post(Right.WRITE, f"{one}/halt", acting(operations.halt)),
        post(Right.WRITE, f"{one}/resume", acting(operations.resume)),
        post(Right.WRITE, f"{one}/cancel", acting(operations.cancel)),
        post(Right.WRITE, f"{one}/delete", acting(operations.delete, leaves=True)),
    ]
