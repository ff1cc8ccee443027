"""What would happen: a form for jobs, machines and queues that are not as they are; nothing is changed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get, post
from gangline.api.rest.context import context_of
from gangline.dialects import read
from gangline.errors import GanglineError, InvalidInputError
from gangline.forecast.changes import ChangedJobs, changed_queues, removed_nodes
from gangline.forecast.course import State
from gangline.forecast.machines import parse_nodes
from gangline.forecast.whatif import Answer, Prospect
from gangline.kinds.queue import QUEUE
from gangline.model import DEFAULT_TENANT, JobId, JobSpec, Queue, Tenant
from gangline.model.team.access import Right
from gangline.operations import OperationContext
from gangline.web.forecasts import FORECASTER, effects_of, until
from gangline.web.frame import Entry, Frame, address, form, show, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.parts import command, section

_FIELDS = {
    "add-nodes": "Machines not yet bought, such as 8x8xh200: eight of eight H200",
    "remove-nodes": "Nodes to do without, by name",
    "quota": "Queues with other numbers, such as research=guarantee:gpu=8",
    "priority": "Jobs with another priority, such as train=high",
    "replicas": "Waiting jobs with another size, such as train=4",
}
"""Each as the option of ``gangline what-if``; several values stand apart by spaces."""


_MOST_QUEUES = 10_000


async def page(request: web.Request) -> web.Response:
    """Show the form."""
    return _shown(request, {}, None, None)


async def ask(request: web.Request) -> web.Response:
    """Show what would happen, or what is wrong with the question."""
    posted = await request.post()
    given = {name: str(posted.get(name, "")).strip() for name in ("file", *_FIELDS)}
    try:
        return _shown(request, given, await _answer(request, given), None)
    except GanglineError as error:
        return _shown(request, given, None, error)


async def _answer(request: web.Request, given: Mapping[str, str]) -> Node:
    context, tenant = context_of(request), tenant_here(request)
    if not any(given.values()):
        raise InvalidInputError("nothing would be different", expected="a job, or one change at least")
    state = await operations.state_now(context)
    own = [job for job in state.jobs if context.caller.tenants is None or job.spec.tenant in context.caller.tenants]
    changed = ChangedJobs(_specs(given["file"], tenant), own)
    changed.prioritise(given["priority"].split())
    changed.resize(given["replicas"].split())
    answer = await request.app[FORECASTER].what_if(
        context,
        state,
        specs=list(changed.specs.values()),
        more_nodes=parse_nodes(*given["add-nodes"].split()),
        fewer_nodes=removed_nodes(state.nodes, given["remove-nodes"].split()),
        queues=changed_queues(await _queues(context, state), given["quota"].split()),
        jobs=list(changed.jobs.values()),
    )
    return _told(context, tenant, state, answer)


async def _queues(context: OperationContext, state: State) -> list[Queue]:
    """The queues that whoever asks may know of, as they are."""
    known = {record.name for record in (await operations.list_records(context, QUEUE, None, limit=_MOST_QUEUES)).items}
    return [queue for queue in state.queues if queue.name in known]


def _specs(text: str, tenant: Tenant) -> list[JobSpec]:
    found = [job.spec for job in read(text)] if text else []
    return [replace(spec, tenant=tenant) if spec.tenant == DEFAULT_TENANT else spec for spec in found]


def _told(context: OperationContext, tenant: Tenant, state: State, answer: Answer) -> Node:
    names = operations.names_for(context, tenant, state.jobs)
    effects = effects_of(context, tenant, state, answer)
    beyond = "Many jobs wait; what lies further ahead was not looked at."
    return section(
        "What would happen",
        [_prospect(each, state, names) for each in answer.prospects],
        h.ul([h.li(each) for each in effects]) if effects else h.p("No other job would notice."),
        h.p(beyond, cls="faint") if answer.exhausted else None,
        name="answer",
    )


def _prospect(prospect: Prospect, state: State, names: Mapping[JobId, str]) -> Node:
    name, launch = prospect.job.name, prospect.launch
    if launch is None:
        said = f"{name} would not start."
    else:
        places = Counter(launch.placement.values())
        nodes = ", ".join(f"{node} ({count})" if count > 1 else node for node, count in sorted(places.items()))
        said = f"{name} would start {until(launch.at, state.now)} on {nodes}."
    why = () if prospect.explanation is None else prospect.explanation.naming(names).words()
    return h.p(h.strong(said)), h.ul([h.li(each) for each in why]) if why else None


def _shown(request: web.Request, given: Mapping[str, str], answer: Node, error: GanglineError | None) -> web.Response:
    problem = None if error is None else h.p(str(error), cls="error", role="alert", id="problem")
    wrong = (error.field or "").removeprefix("--") if isinstance(error, InvalidInputError) else ""
    return show(
        request,
        Frame(
            title="What if",
            status=200 if error is None else 422,
            still=True,
            scripts=("editor.js",),
            before=(
                h.p("What would happen to jobs, machines and queues that are not as they are. Nothing is changed."),
                problem,
                h.div(answer, role="status"),
                _form(request, given, wrong),
            ),
        ),
    )


def _form(request: web.Request, given: Mapping[str, str], wrong: str) -> Element:
    tenant = tenant_here(request)
    inputs = [_input(name, text, given.get(name, ""), wrong=wrong == name) for name, text in _FIELDS.items()]
    return form(
        request,
        address(tenant, "what-if"),
        h.label("A job that would be submitted, as a file; or nothing", for_="file"),
        h.div(
            h.textarea("\n" + given.get("file", ""), id="file", name="file", rows=10, spellcheck="false", wrap="off"),
            cls="editor",
        ),
        inputs,
        h.p(h.button("Ask", cls="primary"), " ", command("what-if", "-f", "FILE")),
        cls="fields",
    )


def _input(name: str, text: str, value: str, *, wrong: bool) -> Element:
    marked: dict[str, str | None] = {"aria_invalid": "true", "aria_describedby": "problem"} if wrong else {}
    return h.p(
        h.label(text, for_=f"field-{name}"),
        h.br(),
        h.input(id=f"field-{name}", name=name, value=value, size=40, autocomplete="off", **marked),
    )


entries = (Entry("Machines", "What if", "what-if"),)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    where = "/tenants/{tenant}/what-if"
    return [get(Right.READ, where, page), post(Right.READ, where, ask)]
