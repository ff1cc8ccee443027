"""Several jobs at once, as they were selected in the list: compared, shown in TensorBoard, halted or ended.

What destroys asks first. A job for which an act makes no sense is told of and does not keep the others from it.
"""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, post
from gangline.api.rest.context import context_of
from gangline.errors import GanglineError, InvalidInputError, NotFoundError
from gangline.kinds.workspace import WORKSPACE
from gangline.model import Job, Tenant
from gangline.model.kinds.workspace import tensorboard_of
from gangline.model.record import RecordId
from gangline.model.team.access import Right
from gangline.model.wording import counted
from gangline.operations import OperationContext
from gangline.web.frame import Frame, address, form, may, show, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.parts import command

_MOST = 200
_SURE = "sure"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Act:
    """Something that can be done with several jobs; ``warning`` is shown before what destroys."""

    word: str
    do: Callable[[OperationContext, Tenant, str], Awaitable[Job]]
    warning: str = ""


_ACTS = (
    _Act(word="halt", do=operations.halt),
    _Act(word="resume", do=operations.resume),
    _Act(
        word="cancel",
        do=operations.cancel,
        warning="They end for good and cannot be resumed. Their records, output and metrics stay.",
    ),
    _Act(
        word="delete", do=operations.delete, warning="They end, and their records, output, metrics and files are gone."
    ),
)


def buttons(request: web.Request) -> Element:
    """What can be done with the selected ones, for the form around the list."""
    tenant = tenant_here(request)
    words = {"compare": "Compare selected"}
    if may(request, Right.WRITE):
        words |= {act.word: f"{act.word.capitalize()} selected" + "…" * bool(act.warning) for act in _ACTS}
        words["tensorboard"] = "TensorBoard of selected"
    found = [
        h.button(
            text,
            formaction=address(tenant, "selected", word),
            cls="quiet",
        )
        for word, text in words.items()
    ]
    return h.div(found, cls="actions")


async def compare(request: web.Request) -> web.StreamResponse:
    """Lead to the page that compares them."""
    names = await _names(request)
    raise web.HTTPSeeOther(f"{address(tenant_here(request), 'compare')}?{'&'.join(f'job={name}' for name in names)}")


async def tensorboard(request: web.Request) -> web.StreamResponse:
    """Start the TensorBoard of the selected jobs, or go on with it, and lead to it."""
    context, tenant, names = context_of(request), tenant_here(request), await _names(request)
    if not names:
        raise InvalidInputError("no job is selected", field="job", expected="one job or more")
    for name in names:
        await operations.get_job(context, tenant, name)
    spec = tensorboard_of(tenant, names)
    try:
        await operations.get_record(context, WORKSPACE, tenant, spec.name)
        await operations.do_verb(context, WORKSPACE, tenant, spec.name, "start")
    except NotFoundError:
        await operations.create_record(context, WORKSPACE, RecordId(f"workspace-{secrets.token_hex(8)}"), spec)
    raise web.HTTPSeeOther(address(tenant, WORKSPACE.plural, spec.name))


async def _names(request: web.Request) -> list[str]:
    given = (await request.post()).getall("job", [])
    names = dict.fromkeys(str(each) for each in given)
    return [name for name in names if name.replace("-", "").isalnum() and name.isascii()][:_MOST]


def acting(act: _Act) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Make the handler of one act."""

    async def handler(request: web.Request) -> web.StreamResponse:
        tenant, names = tenant_here(request), await _names(request)
        if act.warning and _SURE not in await request.post():
            return _asked(request, act, names)
        refused = []
        for name in names:
            try:
                await act.do(context_of(request), tenant, name)
            except GanglineError as error:
                refused.append(f"{name}: {error}")
        if refused:
            return _told(request, act, names, refused)
        raise web.HTTPSeeOther(address(tenant, "jobs"))

    handler.__doc__ = act.do.__doc__
    return handler


def _asked(request: web.Request, act: _Act, names: list[str]) -> web.Response:
    tenant = tenant_here(request)
    what = f"{act.word.capitalize()} {counted(len(names), 'job')}"
    ask: Node = h.p("No job is selected.")
    if names:
        ask = form(
            request,
            address(tenant, "selected", act.word),
            h.p(f"{what}? {act.warning}"),
            h.ul([h.li(name, h.input(type="hidden", name="job", value=name)) for name in names]),
            h.p(command(act.word, *names, "--tenant", tenant)),
            h.button(what, cls="danger", name=_SURE, value="yes"),
        )
    return show(request, Frame(title=what, crumbs=(("Jobs", address(tenant, "jobs")),), before=ask, still=True))


def _told(request: web.Request, act: _Act, names: list[str], refused: list[str]) -> web.Response:
    tenant = tenant_here(request)
    done = len(names) - len(refused)
    shown = h.div(
        h.p(f"{counted(done, 'job')} done; this was refused:"),
        h.ul([h.li(each) for each in refused]),
        cls="error",
        role="alert",
    )
    frame = Frame(title=act.word.capitalize(), crumbs=(("Jobs", address(tenant, "jobs")),), before=shown, still=True)
    return show(request, frame)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    where = "/tenants/{tenant}/selected"
    return [
        post(Right.READ, f"{where}/compare", compare),
        post(Right.WRITE, f"{where}/tensorboard", tensorboard),
        *(post(Right.WRITE, f"{where}/{act.word}", acting(act)) for act in _ACTS),
    ]
