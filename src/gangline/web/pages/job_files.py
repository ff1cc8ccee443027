"""What a job left and came from: its checkpoints and results, and its lineage.

Both are asked for apart from the job's own page: they are read from disks, or from all jobs on record, and the page is
brought up to date every second.
"""

from collections.abc import Mapping

from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get
from gangline.api.rest.context import context_of, reference_of
from gangline.engines.interface import RemoteFiles
from gangline.errors import GanglineError
from gangline.model import Job
from gangline.model.jobs.job_file import JobFile, checkpoints_of
from gangline.model.lineage import LineageNode
from gangline.model.team.access import Right
from gangline.model.wording import counted, size
from gangline.web.frame import Frame, address, show, tenant_here
from gangline.web.html import Element, Node, h, render
from gangline.web.parts import commands, moment, section, table

_MOST = 200
_PART = "part"


def files_section(request: web.Request, job: Job) -> Element:
    """The part of a job's page. Where looking costs a pod, it is only a link."""
    where = address(job.spec.tenant, "jobs", job.name, "files")
    links = h.p(
        h.a("Checkpoints and results", href=where),
        " · ",
        h.a("Where it came from", href=address(job.spec.tenant, "jobs", job.name, "lineage")),
    )
    if isinstance(context_of(request).engine, RemoteFiles):
        return section("Files", links, name="files")
    loaded = h.div(data_hx_get=f"{where}?{_PART}=1", data_hx_trigger="load", data_hx_swap="innerHTML")
    return section("Files", links, loaded, name="files")


async def files(request: web.Request) -> web.Response:
    """Show the files, as a page or as the part of one."""
    context, tenant = context_of(request), tenant_here(request)
    job = await operations.get_job(context, tenant, reference_of(request))
    if _PART in request.query:
        return web.Response(text=render(await _content(request, job)), content_type="text/html")
    return show(
        request,
        Frame(
            title=f"Files of {job.name}",
            crumbs=_crumbs(job),
            live=await _content(request, job),
            after=commands(
                ("checkpoints", job.name, "--tenant", tenant),
                ("results", job.name, "--tenant", tenant),
                ("cp", f"{job.name}:results", ".", "--tenant", tenant),
            ),
            still=True,
        ),
    )


async def _content(request: web.Request, job: Job) -> Node:
    saved = checkpoints_of(await _listed(request, job, "checkpoints"))
    left = await _listed(request, job, "results")
    steps = [(each.step, size(each.size_bytes), moment(each.saved_at), h.code(each.path)) for each in saved[:_MOST]]
    shown = [(h.code(each.path), size(each.size_bytes), moment(each.changed_at)) for each in left[:_MOST]]
    outputs = [h.li(h.code(move.target)) for move in job.spec.outputs]
    return (
        h.h3(counted(len(saved), "checkpoint")),
        table(("Step", "Size", "Saved", "Path"), steps, caption="Checkpoints, newest first"),
        h.h3(counted(len(left), "result")),
        table(("File", "Size", "Changed"), shown, caption="Results"),
        h.p(f"The first {_MOST} are shown.", cls="faint") if max(len(saved), len(left)) > _MOST else None,
        (h.h3("Stored at"), h.ul(outputs)) if outputs else None,
    )


async def _listed(request: web.Request, job: Job, path: str) -> tuple[JobFile, ...]:
    try:
        return await operations.list_files(context_of(request), job.spec.tenant, job.id, path)
    except GanglineError:
        return ()  # it has none, or they are gone


async def lineage(request: web.Request) -> web.Response:
    """Show what a job was made of."""
    context, tenant = context_of(request), tenant_here(request)
    job = await operations.get_job(context, tenant, reference_of(request))
    found = await operations.lineage(context, tenant, job.id)
    nodes = {node.id: node for node in found.nodes}
    return show(
        request,
        Frame(
            title=f"Where {job.name} came from",
            crumbs=_crumbs(job),
            live=h.div(h.ul(_tree(request, found.nodes[0], nodes, set())), cls="tree"),
            after=commands(("lineage", job.name, "--tenant", tenant)),
            still=True,
        ),
    )


def _tree(request: web.Request, node: LineageNode, nodes: Mapping[str, LineageNode], drawn: set[str]) -> Element:
    """What is below something is what that was made of; what was drawn before has its origins there."""
    facts = ", ".join(f"{name} {fact}" for name, fact in node.facts.items())
    again = node.id in drawn
    drawn.add(node.id)
    tenant = tenant_here(request)
    name: Node = node.name
    if node.kind in ("job", "model"):
        plural, title = f"{node.kind}s", node.name.partition(":")[0]
        name = h.a(node.name, href=address(tenant, plural, title))
    return h.li(
        None if node.kind == "data" else f"{node.kind} ",
        name,
        h.span(f" {facts}" if facts else "", " (as above)" if again else "", cls="faint"),
        h.ul([_tree(request, nodes[each], nodes, drawn) for each in node.origins])
        if node.origins and not again
        else None,
    )


def _crumbs(job: Job) -> tuple[tuple[str, str], ...]:
    tenant = job.spec.tenant
    return ("Jobs", address(tenant, "jobs")), (job.name, address(tenant, "jobs", job.name))


def operations_here() -> list[Operation]:
    """The routes of this module."""
    one = "/tenants/{tenant}/jobs/{job}"
    return [get(Right.READ, f"{one}/files", files), get(Right.READ, f"{one}/lineage", lineage)]
