"""What handlers read from their requests: who asks, the namespace, the kind of job, and the jobs themselves."""

from collections.abc import AsyncGenerator

from aiohttp import web

from gangline import operations
from gangline.api.bodies import whole_body
from gangline.api.kubernetes.job_objects import is_shown, served_kind
from gangline.api.kubernetes.plain import Plain, decode_object, part, text
from gangline.api.rest.context import CONTEXT_FOR
from gangline.dialects.kubeflow import Kind
from gangline.errors import InvalidInputError, NotFoundError
from gangline.model import Job, Tenant
from gangline.model.identity import check_name
from gangline.operations import OperationContext
from gangline.storage.interface import JobQuery

_PAGE = 500
_MOST_DIGITS = 18
_TRUE = frozenset({"1", "t", "true"})


def context_of(request: web.Request) -> OperationContext:
    """Return the context for whoever asks."""
    return request.app[CONTEXT_FOR](request)


def tenant_of(request: web.Request) -> Tenant:
    """Return the namespace in the path, which is our tenant."""
    namespace = request.match_info["namespace"]
    check_name(namespace, "metadata.namespace")
    return Tenant(namespace)


def name_of(request: web.Request) -> str:
    """Return the name in the path."""
    return request.match_info["name"]


def version_of(request: web.Request) -> str:
    """Return the API version in the path."""
    return request.match_info["version"]


def switched_on(request: web.Request, name: str) -> bool:
    """Whether a switch of the query is on; clients write it in any case."""
    return request.query.get(name, "").lower() in _TRUE


def refuse_watching(request: web.Request) -> None:
    """Answer a watch of what cannot be watched with a refusal, never with a list that its client would misread."""
    if switched_on(request, "watch"):
        raise web.HTTPMethodNotAllowed(request.method, [], text="this cannot be watched; list it again")


def number_in(request: web.Request, name: str) -> int | None:
    """Return a number of the query, if it is given."""
    given = request.query.get(name)
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS):
        raise InvalidInputError(f"'{given}' is not understood", field=name, expected="a whole number")
    return int(given)


def is_trial(request: web.Request) -> bool:
    """Whether a write is only to be tried: nothing may be changed by it."""
    return bool(request.query.get("dryRun"))


async def deletion_is_trial(request: web.Request, *, uid: str, version: str) -> bool:
    """Read the options of a deletion and say whether it is only to be tried; refuse it if another object is meant."""
    body = await whole_body(request)
    options = decode_object(body) if body else {}
    conditions = part(options, "preconditions")
    check_version(conditions, version)
    if (wanted := text(conditions, "uid")) is not None and wanted != uid:
        raise web.HTTPConflict(text=f"the UID in the precondition ({wanted}) is not that of the object ({uid})")
    return is_trial(request) or bool(options.get("dryRun"))


def check_version(sent: Plain, version: str) -> None:
    """Refuse a write that was made for an older version of an object."""
    wanted = text(sent, "resourceVersion")
    if wanted is not None and wanted != version:
        raise web.HTTPConflict(
            text="the object has been modified; please apply your changes to the latest version and try again"
        )


def kind_in(request: web.Request) -> Kind:
    """Return the kind in the path."""
    kind = served_kind(version_of(request), request.match_info["plural"])
    if kind is None:
        raise NotFoundError("path", request.path)
    return kind


async def find_job(request: web.Request, name: str, kind: Kind | None = None) -> Job:
    """Return the Kubeflow job of that name; one that is being deleted is gone for clients, as on a cluster."""
    job = await operations.get_job(context_of(request), tenant_of(request), name)
    if job.name != name or not is_shown(job, kind):
        raise NotFoundError("job" if kind is None else kind.plural, name)
    return job


async def all_jobs(request: web.Request, kind: Kind | None = None) -> AsyncGenerator[Job, None]:
    """Return every Kubeflow job of the namespace, newest first."""
    context, tenant = context_of(request), tenant_of(request)
    after: str | None = None
    while True:
        page = await operations.list_jobs(context, tenant, JobQuery(limit=_PAGE, after=after))
        for job in page.jobs:
            if is_shown(job, kind):
                yield job
        after = page.next
        if after is None:
            return
