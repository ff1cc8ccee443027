"""Handlers for what a job left behind: events, logs, metrics, and the scheduler's explanation."""

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get
from gangline.api.rest.answers import json_answer, last_event_of, stream_answer
from gangline.api.rest.context import context_of, reference_of, tenant_of
from gangline.api.rest.parameters import Parameters
from gangline.model import Explanation, JournalRecord, LogLine, MetricPage, RoleName, Timestamp
from gangline.model.team.access import Right

_MOST_RECORDS = 10_000


async def events(request: web.Request) -> web.Response:
    """Return a job's journal."""
    parameters = Parameters(request)
    records = await operations.journal(
        context_of(request),
        tenant_of(request),
        reference_of(request),
        after=parameters.number("after") or 0,
        limit=parameters.number("limit", least=1, most=_MOST_RECORDS) or 1000,
    )
    return json_answer(records)


async def logs(request: web.Request) -> web.StreamResponse:
    """Stream a job's output."""
    parameters = Parameters(request)
    role = parameters.text("role")
    wanted = operations.LogFilter(
        attempt=parameters.number("attempt", least=1),
        role=None if role is None else RoleName(role),
        index=parameters.number("index"),
        since=parameters.time("since") or _last_seen(request),
        tail=parameters.number("tail"),
    )
    context, tenant = context_of(request), tenant_of(request)
    job = await operations.get_job(context, tenant, reference_of(request))
    lines = operations.logs(context, tenant, job.id, wanted, follow=parameters.truth("follow"))
    return await stream_answer(request, lines, id_of=lambda line: repr(line.at))


def _last_seen(request: web.Request) -> Timestamp | None:
    """Return the time of the last line that a client has, if it was cut off: what was written then comes again."""
    try:
        return Timestamp(float(last_event_of(request) or ""))
    except ValueError:
        return None


async def metrics(request: web.Request) -> web.Response:
    """Return what the job reported, page by page.

    ``latest`` asks for the newest value of each metric alone, ``points`` for so few of each that they draw its curve.
    """
    parameters = Parameters(request)
    context, tenant, reference = context_of(request), tenant_of(request), reference_of(request)
    name, since = parameters.text("name"), parameters.time("since")
    if parameters.truth("latest"):
        found = await operations.latest_metrics(context, tenant, reference)
    elif points := parameters.number("points", least=1, most=operations.MOST_METRICS):
        found = await operations.thinned_metrics(context, tenant, reference, name=name, since=since, points=points)
    else:
        found = await operations.metrics(
            context,
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
    found = await operations.explain(context_of(request), tenant_of(request), reference_of(request))
    return json_answer(found)


def operations_here() -> list[Operation]:
    """Every operation of this module."""
    one = "/tenants/{tenant}/jobs/{job}"
    lines = {"attempt": int, "role": str, "index": int, "since": Timestamp, "tail": int, "follow": bool}
    numbers = {"name": str, "since": Timestamp, "latest": bool, "points": int, "after": str, "limit": int}
    return [
        get(Right.READ, f"{one}/events", events, query={"after": int, "limit": int}, answer=list[JournalRecord]),
        get(Right.READ, f"{one}/logs", logs, query=lines, items=LogLine),
        get(Right.READ, f"{one}/metrics", metrics, query=numbers, answer=MetricPage),
        get(Right.READ, f"{one}/explanation", explanation, answer=Explanation),
    ]
