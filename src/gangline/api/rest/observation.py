"""Handlers for what a job left behind: events, logs, metrics, and the scheduler's explanation."""

from aiohttp import web

from gangline import operations
from gangline.api.rest.answers import json_answer, stream_answer
from gangline.api.rest.context import desk_of, reference_of, tenant_of
from gangline.api.rest.parameters import Parameters
from gangline.model import RoleName

_LOGS = ("attempt", "role", "index", "since", "tail", "follow")
_MOST_RECORDS = 10_000


async def events(request: web.Request) -> web.Response:
    """Return a job's journal."""
    parameters = Parameters(request, ("after", "limit"))
    records = await operations.journal(
        desk_of(request),
        tenant_of(request),
        reference_of(request),
        after=parameters.number("after") or 0,
        limit=parameters.number("limit", least=1, most=_MOST_RECORDS) or 1000,
    )
    return json_answer(records)


async def logs(request: web.Request) -> web.StreamResponse:
    """Stream a job's output."""
    parameters = Parameters(request, _LOGS)
    role = parameters.text("role")
    wanted = operations.LogFilter(
        attempt=parameters.number("attempt", least=1),
        role=None if role is None else RoleName(role),
        index=parameters.number("index"),
        since=parameters.time("since"),
        tail=parameters.number("tail"),
    )
    desk, tenant = desk_of(request), tenant_of(request)
    job = await operations.get_job(desk, tenant, reference_of(request))
    lines = operations.logs(desk, tenant, job.id, wanted, follow=parameters.truth("follow"))
    return await stream_answer(request, lines)


async def metrics(request: web.Request) -> web.Response:
    """Return what the job reported, page by page.

    ``latest`` asks for the newest value of each metric alone, ``points`` for so few of each that they draw its curve.
    """
    parameters = Parameters(request, ("name", "since", "latest", "points", "after", "limit"))
    desk, tenant, reference = desk_of(request), tenant_of(request), reference_of(request)
    name, since = parameters.text("name"), parameters.time("since")
    if parameters.truth("latest"):
        found = await operations.latest_metrics(desk, tenant, reference)
    elif points := parameters.number("points", least=1, most=operations.MOST_METRICS):
        found = await operations.thinned_metrics(desk, tenant, reference, name=name, since=since, points=points)
    else:
        found = await operations.metrics(
            desk,
            tenant,
            reference,
            name=name,
            since=since,
            after=parameters.text("after"),
            limit=parameters.number("limit", least=1, most=operations.MOST_METRICS) or operations.MOST_METRICS,
        )
    return json_answer(found)


async def explanation(request: web.Request) -> web.Response:
    """Say why a job waits."""
    Parameters(request, ())
    found = await operations.explain(desk_of(request), tenant_of(request), reference_of(request))
    return json_answer(found)


def routes() -> list[web.RouteDef]:
    """Every path of this module."""
    one = "/v1/tenants/{tenant}/jobs/{job}"
    return [
        web.get(f"{one}/events", events),
        web.get(f"{one}/logs", logs),
        web.get(f"{one}/metrics", metrics),
        web.get(f"{one}/explanation", explanation),
    ]
