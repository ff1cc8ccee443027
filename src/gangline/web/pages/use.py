"""Use by tenant: what each holds and waits for now, and what this one's jobs used in the last days."""

from collections import Counter
from collections.abc import Iterable

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get
from gangline.api.rest.context import context_of
from gangline.model import Job, Timestamp
from gangline.model.team.access import Right
from gangline.model.wording import cpu
from gangline.storage.interface import JobQuery
from gangline.web.frame import Entry, Frame, show, tenant_here
from gangline.web.html import Element, Node
from gangline.web.parts import commands, section, table
from gangline.web.unfinished import unfinished_jobs

_DAYS = 7
_MOST = 1000


async def page(request: web.Request) -> web.Response:
    """Show who uses what."""
    context, tenant = context_of(request), tenant_here(request)
    now = context.clock.now()
    since = Timestamp(now - _DAYS * 86400)
    recent = await operations.list_jobs(context, tenant, JobQuery(created_since=since, limit=_MOST))
    unfinished = await unfinished_jobs(request)
    heading = f"Jobs of the last {_DAYS} days" + (f", the newest {_MOST}" if recent.next else "")
    headings = ("Queue", "Jobs", "GPU hours", "CPU hours")
    return show(
        request,
        Frame(
            title="Usage",
            live=(
                section("Now", _now(unfinished), name="now"),
                section(heading, table(headings, _past(recent.jobs, now), caption=heading), name="past"),
            ),
            after=commands(("top", "job", "--tenant", tenant)),
        ),
    )


def _now(jobs: Iterable[Job]) -> Element:
    gpus, cores, running, waiting = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for job in jobs:
        tenant = job.spec.tenant
        if job.holding:
            running[tenant] += 1
            roles = {role.name: role.resources for role in job.spec.roles}
            gpus[tenant] += sum(roles[each.id.role].gpu_millis for each in job.replicas if each.id.role in roles)
            cores[tenant] += sum(roles[each.id.role].cpu_millis for each in job.replicas if each.id.role in roles)
        elif job.placeable:
            waiting[tenant] += 1
    rows = [
        (tenant, f"{gpus[tenant] / 1000:g}", cpu(cores[tenant]), running[tenant], waiting[tenant])
        for tenant in sorted({*running, *waiting})
    ]
    headings = ("Tenant", "GPUs held", "CPU held", "Jobs that run", "Jobs that wait")
    return table(headings, rows, caption="Use now, by tenant", empty="Nothing runs and nothing waits.")


def _past(jobs: Iterable[Job], now: Timestamp) -> list[tuple[Node, ...]]:
    gpus, cores, count = Counter[str](), Counter[str](), Counter[str]()
    for job in jobs:
        if job.started_at is None:
            continue
        hours = max((job.finished_at or now) - job.started_at, 0) / 3600
        count[job.spec.queue] += 1
        for role in job.spec.roles:
            gpus[job.spec.queue] += round(role.replicas * role.resources.gpu_millis * hours)
            cores[job.spec.queue] += round(role.replicas * role.resources.cpu_millis * hours)
    return [(queue, count[queue], f"{gpus[queue] / 1000:.1f}", f"{cores[queue] / 1000:.1f}") for queue in sorted(count)]


entries = (Entry("Machines", "Usage", "use"),)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    return [get(Right.READ, "/tenants/{tenant}/use", page)]
