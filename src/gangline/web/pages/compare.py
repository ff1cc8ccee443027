"""Several jobs beside each other: their curves laid over each other, and what they differ in."""

import shlex
from collections.abc import Mapping

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get
from gangline.api.rest.context import context_of
from gangline.dialects.native import job_to_plain
from gangline.model import Job
from gangline.model.team.access import Right
from gangline.model.wording import number
from gangline.web.frame import Frame, address, show, tenant_here
from gangline.web.html import Node, h
from gangline.web.parts import commands, lasting, phase_badge, section, table

_MOST = 12


async def page(request: web.Request) -> web.Response:
    """Show the jobs of the query."""
    context, tenant = context_of(request), tenant_here(request)
    names = list(dict.fromkeys(request.query.getall("job", [])))[:_MOST]
    jobs = [await operations.get_job(context, tenant, name) for name in names]
    if not jobs:
        nothing = h.p("Select jobs in ", h.a("the list", href=address(tenant, "jobs")), " to compare them.")
        return show(request, Frame(title="Compare", live=nothing, still=True))
    latest = [
        {each.name: each.value for each in (await operations.latest_metrics(context, tenant, job.id)).metrics}
        for job in jobs
    ]
    metrics = sorted({name for each in latest for name in each})
    heads: tuple[Node, ...] = ("Job", *(h.a(job.name, href=address(tenant, "jobs", job.name)) for job in jobs))
    figures: list[tuple[Node, ...]] = [
        ("Phase", *(phase_badge(job.phase) for job in jobs)),
        ("Ran", *(lasting(job.started_at, job.finished_at) for job in jobs)),
        *((name, *(number(each[name]) if name in each else "–" for each in latest)) for name in metrics),
    ]
    curves = h.div(
        h.p("No numbers have been reported.", cls="faint"),
        data_charts=" ".join(f"/api/v1/tenants/{tenant}/jobs/{job.id}/metrics" for job in jobs),
        data_name=" ".join(job.name for job in jobs),
    )
    return show(
        request,
        Frame(
            title="Compare",
            crumbs=(("Jobs", address(tenant, "jobs")),),
            live=section("Figures", table(heads, figures, caption="Figures"), name="figures"),
            after=(
                section("Curves", curves, name="curves"),
                section("What differs", _differences(heads, jobs), name="differences"),
                commands(("diff", *names[:2], "--tenant", tenant)) if len(names) > 1 else None,
            ),
            scripts=("uPlot.iife.min.js", "charts.js"),
        ),
    )


def _differences(heads: tuple[Node, ...], jobs: list[Job]) -> Node:
    leaves = [dict(_leaves("", job_to_plain(job.spec))) for job in jobs]
    paths = sorted({path for each in leaves for path in each})
    rows = [
        (path, *(each.get(path, "–") for each in leaves))
        for path in paths
        if path != "metadata.name" and len({each.get(path) for each in leaves}) > 1
    ]
    return table(heads, rows, caption="What differs in their files", empty="Their files say the same.")


def _leaves(path: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        below = (_leaves(f"{path}.{key}" if path else str(key), each) for key, each in value.items())
        return [leaf for leaves in below for leaf in leaves]
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [(path, shlex.join(value))]
    return [] if value is None else [(path, str(value))]


def operations_here() -> list[Operation]:
    """The routes of this module."""
    return [get(Right.READ, "/tenants/{tenant}/compare", page)]
