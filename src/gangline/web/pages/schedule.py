"""The schedule as a Gantt chart: when each job waited, ran and rested, and when those that wait should start."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get
from gangline.api.rest.context import context_of
from gangline.model import FINAL_PHASES, Job, Phase, Tenant, Timestamp
from gangline.model.team.access import Right
from gangline.model.wording import duration
from gangline.storage.interface import JobQuery
from gangline.web.forecasts import FORECASTER, Planned
from gangline.web.frame import Entry, Frame, address, show, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.parts import commands, moment, phase_badge, table
from gangline.web.unfinished import unfinished_jobs

_HOURS = (1, 6, 24, 168)
_MOST = 60


@dataclass(frozen=True, slots=True)
class _Axis:
    """The stretch of time that the chart shows."""

    since: Timestamp
    now: Timestamp
    ahead: Timestamp


async def page(request: web.Request) -> web.Response:
    """Show the jobs of the last hours on one line of time."""
    context, tenant = context_of(request), tenant_here(request)
    asked = request.query.get("hours", "")
    hours = int(asked) if asked in map(str, _HOURS) else 6
    grain = hours * 3600 / 200
    now = Timestamp((context.clock.now() // grain + 1) * grain)  # a page that looks the same is not sent again
    since = Timestamp(now - hours * 3600)
    recent = await operations.list_jobs(context, tenant, JobQuery(created_since=since, limit=_MOST))
    older = [job for job in await unfinished_jobs(request) if job.spec.tenant == tenant and job.created_at < since]
    jobs = sorted((*recent.jobs, *older), key=lambda job: job.created_at)[-_MOST:]
    choices = [
        (
            h.a(
                f"{each} h",
                href=address(tenant, "schedule", hours=each),
                aria_current="true" if each == hours else None,
            ),
            " ",
        )
        for each in _HOURS
    ]
    planned = await request.app[FORECASTER].planned(context)
    ahead = _ahead(jobs, planned, now, hours)
    axis = _Axis(since, now, ahead)
    rows = [_row(tenant, job, axis, planned.launches.get(job.id)) for job in jobs]
    beyond = "So much waits that not all of it was looked ahead for." if planned.beyond else None
    span = f"From {hours} h ago until now" + (f", and {duration(ahead - now)} ahead" if ahead > now else "")
    return show(
        request,
        Frame(
            title="Schedule",
            before=h.p("Show the last ", choices),
            live=(
                table(("Job", "Phase", span, "Submitted", "Should start"), rows, caption="Jobs over time"),
                h.p(beyond, cls="faint") if beyond else None,
                _legend(),
            ),
            after=commands(("list", "--tenant", tenant), ("what-if", "-f", "FILE")),
        ),
    )


def _ahead(jobs: Sequence[Job], planned: Planned, now: Timestamp, hours: int) -> Timestamp:
    """Until when the chart goes on: as far as a job of it is planned, and not further than it goes back."""
    starts = [planned.launches[job.id] for job in jobs if job.id in planned.launches]
    if not starts:
        return now
    whole = hours * 3600
    grain = whole / 200
    wanted = max(max(starts) + whole / 10, now + whole / 5)
    return Timestamp(min(now + whole, math.ceil(wanted / grain) * grain))


def _legend() -> Element:
    words = ("queued", "starting", "processing", "storing", "halted", "planned")
    marks = [
        (h.svg(h.rect(width=12, height=12, cls=f"phase {word}"), width=12, height=12, aria_hidden="true"), f" {word} ")
        for word in words
    ]
    return h.p(marks, cls="legend faint")


def _row(tenant: Tenant, job: Job, axis: _Axis, start: Timestamp | None) -> tuple[Node, ...]:
    return (
        h.a(job.name, href=address(tenant, "jobs", job.name), cls="name"),
        phase_badge(job.phase),
        bars(job, axis, start),
        moment(job.created_at),
        _start(job, axis.now, start),
    )


def _start(job: Job, now: Timestamp, start: Timestamp | None) -> Node:
    if not job.placeable:
        return "–"
    return "not in sight" if start is None else moment(max(start, now))


def bars(job: Job, axis: _Axis, start: Timestamp | None) -> Element:
    """The phases of a job within a stretch of time and, behind now, from when it should run."""
    since, now, ahead = axis.since, axis.now, axis.ahead
    span = ahead - since
    ends = [*(each.at for each in job.history[1:]), job.finished_at or now]
    found: list[Node] = []
    for entry, until in zip(job.history, ends, strict=True):
        if entry.phase in FINAL_PHASES or until < since:
            continue
        left, right = (100 * max(each - since, 0) / span for each in (entry.at, until))
        tone = "halted" if entry.phase in (Phase.HALTED, Phase.HALTING) else entry.phase.value.lower()
        found.append(
            h.rect(x=f"{left:.2f}%", y=2, width=f"{max(right - left, 0.3):.2f}%", height=14, cls=f"phase {tone}")
        )
    if start is not None and job.placeable and start < ahead:
        left = 100 * (max(start, now) - since) / span
        found.append(h.rect(x=f"{left:.2f}%", y=2, width=f"{100 - left:.2f}%", height=14, cls="phase planned"))
    if ahead > now:
        line = f"{100 * (now - since) / span:.2f}%"
        found.append(h.line(x1=line, x2=line, y1=0, y2=18, cls="now"))
    words = f"{job.name}: {', '.join(each.phase.value for each in job.history[-8:])}"
    return h.svg(found, width="100%", height=18, role="img", aria_label=words, cls="timeline gantt")


entries = (Entry("Machines", "Schedule", "schedule"),)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    return [get(Right.READ, "/tenants/{tenant}/schedule", page)]
