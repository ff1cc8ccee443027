"""What queues show: the tree with guarantee, limit and use, and who waits in each."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from gangline import operations
from gangline.api.rest.context import context_of
from gangline.model import Job, Resources
from gangline.model.wording import amount, cpu
from gangline.web.frame import address, tenant_here
from gangline.web.html import Node, h
from gangline.web.pages.jobs import job_rows
from gangline.web.parts import bar, section
from gangline.web.unfinished import unfinished_jobs

_WAITING = 20


async def above_list(request: web.Request, queues: Sequence[Any]) -> Node:
    """Draw the tree."""
    jobs = await unfinished_jobs(request)
    cores, gpus, waiting = Counter[str](), Counter[str](), Counter[str]()
    for job in jobs:
        for held in _held(job):
            cores[job.spec.queue] += held.cpu_millis
            gpus[job.spec.queue] += held.gpu_millis
        waiting[job.spec.queue] += job.placeable
    below: defaultdict[str | None, list[Any]] = defaultdict(list)
    names = {queue.name for queue in queues}
    for queue in queues:
        below[queue.spec.parent if queue.spec.parent in names else None].append(queue)
    tenant = tenant_here(request)

    def total(queue: Any, of: Counter[str]) -> int:
        return of[queue.name] + sum(total(child, of) for child in below[queue.name])

    def drawn(queue: Any) -> Node:
        spec, used = queue.spec, total(queue, cores)
        limit = spec.limit.amounts.get("cpu_millis", 0) if spec.limit else 0
        bound = limit or spec.guarantee.cpu_millis
        share = bar(used, bound, f"the CPU of {queue.name}") if bound else None
        held = f"holds {cpu(used)} CPU, {total(queue, gpus) / 1000:g} GPU"
        return h.li(
            h.a(queue.name, href=address(tenant, "queues", queue.name), cls="name"),
            f" weight {spec.weight:g}, {held}, {total(queue, waiting)} waiting",
            f", guarantee {amount(spec.guarantee)}" if spec.guarantee.cpu_millis or spec.guarantee.gpu_millis else "",
            share,
            h.ul([drawn(child) for child in below[queue.name]]) if below[queue.name] else None,
        )

    return section("Tree", h.div(h.ul([drawn(queue) for queue in below[None]]), cls="tree"), name="tree")


def _held(job: Job) -> list[Resources]:
    roles = {role.name: role.resources for role in job.spec.roles}
    return [roles[each.id.role] for each in job.replicas if each.id.role in roles] if job.holding else []


async def sections(request: web.Request, queue: Any) -> Node:
    """Show who runs and who waits, and why."""
    context, tenant = context_of(request), tenant_here(request)
    jobs = [job for job in await unfinished_jobs(request) if job.spec.queue == queue.name]
    running = tuple(job for job in jobs if job.holding)[:_WAITING]
    waiting = sorted((job for job in jobs if job.placeable), key=lambda job: (-job.spec.priority, job.created_at))
    reasons = []
    for job in waiting[:_WAITING]:
        why = (await operations.explain(context, job.spec.tenant, job.id)).sentences
        name = h.a(job.name, href=address(job.spec.tenant, "jobs", job.name))
        reasons.append(h.li(name, ": ", why[0] if why else "The scheduler has not looked at it yet."))
    return (
        section("Waiting", h.ul(reasons) if reasons else h.p("Nobody waits.", cls="faint"), name="waiting"),
        section("Running", job_rows(tenant, running), name="running"),
    )
