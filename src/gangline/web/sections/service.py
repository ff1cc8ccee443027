"""What a service shows: revisions, replicas, what happened, and a form that sends it a request."""

import json

import aiohttp
from aiohttp import web

from gangline import operations
from gangline.api.rest.context import context_of
from gangline.errors import ConflictError, InvalidInputError
from gangline.kinds.service import SERVICE
from gangline.model.kinds.service import Service
from gangline.model.team.access import Right
from gangline.web.frame import Frame, address, form, may, show, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.parts import command, moment, section, table

_SECONDS = 60
_MOST_BYTES = 1 << 20
_EXAMPLE = '{"instances": [[0.0, 0.0]]}'


async def sections(request: web.Request, service: Service) -> Node:
    """Show revisions, replicas and events."""
    status = service.status
    revisions = [
        (each.number, _standing(service, each.number), each.model or "–", moment(each.created_at), each.failed)
        for each in reversed(status.revisions)
    ]
    traffic: list[tuple[Node, ...]] = [(each.revision, *each.words) for each in status.traffic]
    events = [(moment(each.at), each.reason, each.message) for each in reversed(status.events[-20:])]
    return (
        section(
            "Revisions",
            table(("Revision", "Gets requests", "Model", "Made", "Given up because"), revisions, caption="Revisions"),
            name="revisions",
        ),
        section(
            "Traffic",
            table(
                ("Revision", "Requests/s", "Errors", "Median", "95 of 100 within"),
                traffic,
                caption="What was asked in the last quarter of a minute",
                empty="Nobody asks for anything.",
            ),
            name="traffic",
        ),
        section("Events", table(("When", "What", "Message"), events, caption="Events, newest first"), name="events"),
    )


def _standing(service: Service, number: int) -> str:
    rollout = service.status.rollout
    if number == service.status.current:
        return "yes"
    return "rolling out" if rollout is not None and rollout.revision == number else "no"


async def below(request: web.Request, service: Service) -> Node:
    """Offer the form."""
    return section("Send a request", _form(request, service.name, "", _EXAMPLE), name="ask")


def _form(request: web.Request, name: str, path: str, body: str) -> Element:
    if not may(request, Right.WRITE):
        return h.p("Members of the tenant may send requests from here.", cls="faint")
    tenant = tenant_here(request)
    default = f"v1/models/{name}:predict"
    return form(
        request,
        address(tenant, SERVICE.plural, name, "ask"),
        h.p(h.label("Path ", for_="path"), h.input(id="path", name="path", value=path or default, size=40)),
        h.label("Body, as JSON; empty for a GET", for_="body"),
        h.textarea("\n" + body, id="body", name="body", rows=5, spellcheck="false"),
        h.p(h.button("Send", cls="primary"), " ", command("service", "predict", name, "--tenant", tenant)),
    )


async def ask(request: web.Request) -> web.Response:
    """Send the request of the form and show the answer."""
    tenant, name = tenant_here(request), request.match_info["name"]
    given = await request.post()
    path, body = (str(given.get(each, "")).strip() for each in ("path", "body"))
    service = await operations.get_record(context_of(request), SERVICE, tenant, name)
    if not service.status.address:
        raise ConflictError(f"service '{name}' has no address yet")
    if body:
        try:
            json.loads(body)
        except ValueError as error:
            raise InvalidInputError(f"this is not JSON: {error}", field="body") from error
    status, text = await _send(f"{service.status.address}/{path.lstrip('/')}", body)
    return show(
        request,
        Frame(
            title="Answer",
            crumbs=(("Services", address(tenant, SERVICE.plural)), (name, address(tenant, SERVICE.plural, name))),
            live=section(f"Status {status}", h.pre(text, tabindex="0"), name="answer"),
            after=section("Send another", _form(request, name, path, body), name="ask"),
            still=True,
        ),
    )


async def _send(where: str, body: str) -> tuple[int, str]:
    """Ask the router; it knows the services of this machine and nothing else."""
    limit = aiohttp.ClientTimeout(total=_SECONDS)
    headers = {"Content-Type": "application/json"} if body else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.request("POST" if body else "GET", where, data=body or None, headers=headers) as answer,
        ):
            found = await answer.content.read(_MOST_BYTES)
            return answer.status, found.decode(errors="replace")
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise ConflictError(f"the service does not answer: {error}") from error


forms = {"ask": ask}
