"""The machines: what each has, who holds what of it, what is free, and which of them take nothing new."""

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get
from gangline.api.rest.context import context_of
from gangline.model import Job, NodeName, Resources
from gangline.model import Node as Machine
from gangline.model.team.access import Right
from gangline.model.wording import cpu, memory
from gangline.web.frame import Entry, Frame, address, show, tenant_here
from gangline.web.html import Element, Node, Rendered, h, render
from gangline.web.parts import badge, bar, commands, facts, section, table
from gangline.web.unfinished import unfinished_jobs

_MOST_SLOTS = 16
_MOST_CORES, _CORES_ACROSS = 256, 32
_MOST_NODES = 400


async def page(request: web.Request) -> web.Response:
    """Show the nodes."""
    context = context_of(request)
    found = await operations.nodes(context)
    jobs = [job for job in await unfinished_jobs(request) if job.holding]
    usage = {each.node: each.used for each in (await operations.usage(context)).nodes}
    tenant, held = tenant_here(request), _held(jobs)
    shown = [_row(tenant, node, held[node.name], usage.get(node.name)) for node in found[:_MOST_NODES]]
    hidden = len(found) - len(shown)
    return show(
        request,
        Frame(
            title="Nodes",
            live=(
                section("All together", _total(found, held), name="total"),
                table(("Node", "State", "GPUs", "CPU", "Memory", "Held by"), shown, caption="Nodes"),
                h.p(f"{hidden} more are not shown.") if hidden else None,
            ),
            after=commands(("top", "node"), ("top", "job")),
        ),
    )


Held = list[tuple[Job, Resources]]


def _held(jobs: Sequence[Job]) -> "defaultdict[NodeName, Held]":
    found: defaultdict[NodeName, Held] = defaultdict(list)
    for job in jobs:
        roles = {role.name: role.resources for role in job.spec.roles}
        for replica in job.replicas:
            found[replica.node].append((job, roles.get(replica.id.role, Resources())))
    return found


def _total(nodes: Sequence[Machine], held: "defaultdict[NodeName, Held]") -> Element:
    gpus = sum(node.capacity.gpu_millis for node in nodes) / 1000
    taken = sum(each.gpu_millis for node in nodes for _, each in held[node.name]) / 1000
    cores = sum(node.capacity.cpu_millis for node in nodes)
    used = sum(each.cpu_millis for node in nodes for _, each in held[node.name])
    return facts(
        (
            ("Nodes", f"{len(nodes)}, {sum(node.ready and not node.cordoned for node in nodes)} take new replicas"),
            ("GPUs", f"{taken:g} of {gpus:g} held" if gpus else "none"),
            ("CPU", f"{cpu(used)} of {cpu(cores)} held"),
        )
    )


def _row(tenant: str, node: Machine, held: Held, used: Resources | None) -> tuple[Node, ...]:
    capacity = node.capacity
    cores = sum(each.cpu_millis for _, each in held)
    mib = sum(each.memory_mib for _, each in held)
    names = sorted({(job.spec.tenant, job.name) for job, _ in held})
    holders = [
        (h.a(name, href=address(owner, "jobs", name)) if owner == tenant else f"{owner}/{name}", " ")
        for owner, name in names[:8]
    ]
    more = f"and {len(names) - 8} more" if len(names) > 8 else None
    now = "" if used is None else f", {cpu(used.cpu_millis)} used now"
    return (
        h.span(node.name, cls="name"),
        _state(node),
        _slots(node, held),
        (_cores(cores, capacity.cpu_millis), f"{cpu(cores)} of {cpu(capacity.cpu_millis)}{now}"),
        (bar(mib, capacity.memory_mib, "memory"), f"{memory(mib)} of {memory(capacity.memory_mib)}"),
        (holders, more) if names else "nobody",
    )


def _state(node: Machine) -> Element:
    if not node.ready:
        return badge("not ready", "bad")
    if node.closed_gpus:
        return badge(", ".join(f"GPU {gpu} closed: {why}" for gpu, why in node.closed_gpus.items()), "bad")
    return badge("cordoned", "wait") if node.cordoned else badge("ready", "good")


def _slots(node: Machine, held: Held) -> Node:
    """One square for each GPU, filled as far as it is held."""
    count = node.capacity.gpu_millis // 1000
    if not count:
        return "–"
    taken = sum(each.gpu_millis for _, each in held)
    words = f"{taken / 1000:g} of {count} GPUs held"
    if count > _MOST_SLOTS:
        return words
    return _squares(count, taken, words), h.span(node.gpu_type or "", cls="faint")


@lru_cache(maxsize=1024)
def _squares(count: int, taken: int, words: str) -> Rendered:
    """Written once for all nodes that look the same: there may be a thousand."""
    squares = [
        h.rect(
            x=18 * index + 1,
            y=1,
            width=15,
            height=15,
            rx=3,
            cls="held" if taken >= 1000 * (index + 1) else "part" if taken > 1000 * index else None,
        )
        for index in range(count)
    ]
    return Rendered(render(h.svg(squares, width=18 * count, height=18, cls="slots", role="img", aria_label=words)))


@lru_cache(maxsize=1024)
def _cores(taken: int, capacity: int) -> Rendered:
    """One small square for each core, in rows; those that are held are full, and the last of them perhaps in part.

    A row is one line that is dashed by the style sheet: a square each would be a hundred elements for every node.
    """
    count = capacity // 1000
    if not 0 < count <= _MOST_CORES:
        return Rendered(render(bar(taken, capacity, "CPU")))
    rows: list[Node] = []
    for row, first in enumerate(range(0, count, _CORES_ACROSS)):
        across = min(_CORES_ACROSS, count - first)
        held = min(max(taken / 1000 - first, 0), across)
        width = 6 * int(held) + 5 * (held % 1)
        rows.append(h.line(x2=6 * across, y1=6 * row + 3, y2=6 * row + 3, cls="cores"))
        rows.append(h.line(x2=f"{width:g}", y1=6 * row + 3, y2=6 * row + 3, cls="cores held") if width else None)
    size = {"width": 6 * min(count, _CORES_ACROSS), "height": 6 * (len(rows) // 2)}
    words = f"{taken / 1000:g} of {count} cores held"
    return Rendered(render(h.svg(rows, cls="slots", role="img", aria_label=words, **size)))


entries = (Entry("Machines", "Nodes", "nodes"),)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    return [get(Right.READ, "/tenants/{tenant}/nodes", page)]
