"""Submitting: a file of jobs or of any kind, typed or pasted; what is wrong with it is marked at its line."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

import yaml
from aiohttp import web

from gangline import operations
from gangline.api.operation import Operation, get, post
from gangline.api.rest.context import context_of
from gangline.dialects import document, read
from gangline.dialects.native import job_to_plain
from gangline.errors import GanglineError, InvalidInputError
from gangline.kinds import AnyKind, all_kinds
from gangline.model import DEFAULT_TENANT, Job, JobId, Tenant
from gangline.model.record import RecordId
from gangline.model.team.access import Right
from gangline.operations import OperationContext
from gangline.web.examples import example_of
from gangline.web.frame import Entry, Frame, address, form, show, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.kind_words import one_of
from gangline.web.parts import command

_JOB = """\
apiVersion: gangline.dev/v1
kind: Job
metadata:
  name: hello
spec:
  command: [python3, -c, "print('hello')"]
  resources: {cpu: 500m, memory: 256Mi}
  roles:
    worker: {replicas: 2}
"""


async def page(request: web.Request) -> web.Response:
    """Show the form, filled with an example, or with the file of another job or record."""
    return editor_page(request, await _beginning(request), None)


async def _beginning(request: web.Request) -> str:
    context, tenant, query = context_of(request), tenant_here(request), request.query
    if like := query.get("like"):
        job = await operations.get_job(context, tenant, like)
        plain = job_to_plain(job.spec)
        plain["metadata"]["name"] = f"{job.name[:58]}-{secrets.token_hex(2)}"  # type: ignore[index]  # a job file has one
        return _text(plain)
    kind = next((each for each in all_kinds() if each.name == query.get("kind")), None)
    return _JOB if kind is None else example_of(kind)


def _text(plain: object) -> str:
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return text


async def submit(request: web.Request) -> web.StreamResponse:
    """Take in the file of the form, or show what is wrong with it."""
    given = (await request.post()).get("file", "")
    text = given if isinstance(given, str) else ""
    tenant = tenant_here(request)
    try:
        where = await take_in(context_of(request), tenant, text)
    except GanglineError as error:
        return editor_page(request, text, error)
    raise web.HTTPSeeOther(where)


async def take_in(context: OperationContext, tenant: Tenant, text: str) -> str:
    """Make everything that a file describes, and return the page to look at next."""
    documents = document.parse(text)
    kinds = [_kind_of(value.data) for value in documents]
    if all(kind is None for kind in kinds):
        jobs = await _jobs(context, tenant, text)
        return address(tenant, "jobs", jobs[0].name) if len(jobs) == 1 else address(tenant, "jobs")
    place = address(tenant, "jobs")
    for value, kind in zip(documents, kinds, strict=True):
        if kind is None:
            raise InvalidInputError("jobs and other kinds are in one file", field="kind", expected="a file for each")
        spec = kind.owned_by(kind.format.read(value, {}), tenant)
        if kind.namespaced and spec.tenant != tenant:
            raise _of_another(spec.tenant, tenant)
        made = await operations.create_record(context, kind, RecordId(f"{kind.name}-{secrets.token_hex(8)}"), spec)
        place = address(tenant, kind.plural, made.name)
    return place


def _kind_of(data: object) -> AnyKind | None:
    if not isinstance(data, dict):
        return None
    named = (data.get("apiVersion"), data.get("kind"))
    return next((each for each in all_kinds() if (each.api_version, each.object_kind) == named), None)


async def _jobs(context: OperationContext, tenant: Tenant, text: str) -> Sequence[Job]:
    found = []
    for job in read(text):
        spec = replace(job.spec, tenant=tenant) if job.spec.tenant == DEFAULT_TENANT else job.spec
        if spec.tenant != tenant:
            raise _of_another(spec.tenant, tenant)
        if job.managed_by is not None:
            raise InvalidInputError(f"the job belongs to the controller '{job.managed_by}'", field="managedBy")
        found.append((replace(job, spec=spec), JobId(f"job-{secrets.token_hex(8)}")))
    return [
        await operations.submit(context, job_id, job.spec, halted=job.suspended, notes=job.notes)
        for job, job_id in found
    ]


def _of_another(owner: object, tenant: Tenant) -> InvalidInputError:
    return InvalidInputError(f"it belongs to tenant '{owner}'", field="metadata.tenant", expected=f"'{tenant}'")


def editor_page(request: web.Request, text: str, error: GanglineError | None) -> web.Response:
    """Show the editor with a file in it and, if it was refused, why."""
    tenant = tenant_here(request)
    line = error.line if isinstance(error, InvalidInputError) else None
    problem: Node = None
    if error is not None:
        quoted = text.splitlines()[line - 1] if line is not None and line <= len(text.splitlines()) else None
        problem = h.div(
            h.p(h.strong(f"Line {line}: " if line else ""), str(error).removeprefix(f"{line}: ")),
            None if quoted is None else h.pre(h.mark(quoted)),
            cls="error",
            role="alert",
            id="problem",
        )
    return show(
        request,
        Frame(
            title="Submit",
            status=200 if error is None else 422,
            scripts=("editor.js",),
            still=True,
            before=(
                problem,
                form(
                    request,
                    address(tenant, "submit"),
                    h.label("The file: a job in any dialect, or a record of any kind", for_="file"),
                    _editor(text, line),
                    h.p(h.button("Submit", cls="primary"), " ", command("submit", "-f", "FILE", "--tenant", tenant)),
                ),
                h.p("Or fill in fields: ", h.a("a job", href=address(tenant, "submit", "fields"))),
                h.p(
                    "Start from: ",
                    [(h.a(one_of(each), href=address(tenant, "submit", kind=each.name)), " ") for each in _made()],
                ),
            ),
        ),
    )


def _editor(text: str, line: int | None) -> Element:
    return h.div(
        h.textarea(
            "\n" + text,
            id="file",
            name="file",
            rows=max(16, min(40, text.count("\n") + 3)),
            spellcheck="false",
            autocapitalize="off",
            wrap="off",
            aria_invalid="true" if line else None,
            aria_describedby="problem" if line else None,
            data_line=line,
        ),
        cls="editor",
    )


def _made() -> list[AnyKind]:
    return [each for each in all_kinds() if not each.foreign]


entries = (Entry("Work", "Submit", "submit", Right.WRITE),)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    where = "/tenants/{tenant}/submit"
    return [get(Right.WRITE, where, page), post(Right.WRITE, where, submit)]
