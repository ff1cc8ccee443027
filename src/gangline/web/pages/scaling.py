"""Another number of replicas for an elastic job, with a preview of what that would displace."""

from collections.abc import Mapping

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, post
from gangline.api.rest.context import context_of, reference_of
from gangline.errors import InvalidInputError
from gangline.model import Job, RoleName
from gangline.model.team.access import Right
from gangline.web.forecasts import FORECASTER, effects_of
from gangline.web.frame import Frame, address, form, show, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.parts import command, section

_PREVIEW = "preview"


def scale_form(request: web.Request, job: Job, wanted: Mapping[RoleName, int], *, previewed: bool = False) -> Element:
    """The form: how many of each elastic role, to be looked at first or done at once."""
    inputs = [
        h.p(
            h.label(f"{role.name} ({role.least} to {role.most}) ", for_=f"scale-{role.name}"),
            h.input(
                type="number",
                id=f"scale-{role.name}",
                name=role.name,
                min=role.least,
                max=role.most,
                value=wanted.get(role.name, role.replicas),
            ),
        )
        for role in job.spec.roles
        if role.elastic
    ]
    return form(
        request,
        f"{address(job.spec.tenant, 'jobs', job.name)}/scale",
        inputs,
        h.p(command(*_words(job, wanted))),
        h.button("Preview", name="as", value=_PREVIEW, cls=None if previewed else "primary"),
        " ",
        h.button("Scale", cls="primary" if previewed else None),
        cls=None if previewed else "sheet",
    )


def scale_sheet(request: web.Request, job: Job) -> Element:
    """The button of a job's page, which shows the form."""
    return h.details(
        h.summary("Scale…", cls="button"), scale_form(request, job, dict(job.scale)), cls="asking", name="asking"
    )


def _words(job: Job, wanted: Mapping[RoleName, int]) -> tuple[str, ...]:
    sizes = (f"{role.name}={wanted.get(role.name, role.replicas)}" for role in job.spec.roles if role.elastic)
    return ("scale", job.name, *sizes, "--tenant", job.spec.tenant)


async def scale(request: web.Request) -> web.StreamResponse:
    """Ask for the replica counts of the form, or show what they would displace."""
    tenant, context = tenant_here(request), context_of(request)
    job = await operations.get_job(context, tenant, reference_of(request))
    given = await request.post()
    wanted = {role.name: _count(role.name, given[role.name]) for role in job.spec.roles if role.name in given}
    if given.get("as") == _PREVIEW:
        return await _preview(request, job, wanted)
    await operations.scale(context, tenant, job.id, wanted)
    raise web.HTTPSeeOther(address(tenant, "jobs", job.name))


async def _preview(request: web.Request, job: Job, wanted: Mapping[RoleName, int]) -> web.Response:
    tenant, context = tenant_here(request), context_of(request)
    state = await operations.state_now(context)
    after = await operations.scale(operations.rehearsing(context), tenant, job.id, wanted)
    answer = await request.app[FORECASTER].what_if(context, state, jobs=[after])
    effects = effects_of(context, tenant, state, answer)
    told: Node = h.ul([h.li(each) for each in effects]) if effects else h.p("No job would be displaced or delayed.")
    return show(
        request,
        Frame(
            title=f"Scale {job.name}",
            crumbs=(("Jobs", address(tenant, "jobs")), (job.name, address(tenant, "jobs", job.name))),
            before=(
                section("What it would displace", told, name="displaced"),
                section("Scale", scale_form(request, job, wanted, previewed=True), name="scale"),
            ),
            still=True,
        ),
    )


def _count(role: RoleName, text: object) -> int:
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 7:
        return int(text)
    raise InvalidInputError(f"'{text}' is not a number of replicas", field=role, expected="a whole number")


def operations_here() -> list[Operation]:
    """The routes of this module."""
    return [post(Right.WRITE, "/tenants/{tenant}/jobs/{job}/scale", scale)]
