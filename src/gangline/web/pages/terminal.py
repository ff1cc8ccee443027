"""A terminal in a running replica: a page, and the websocket that its script speaks to.

What is typed comes as binary messages, the size of the terminal as text, two numbers; what the shell writes goes back
as binary messages. A form leads to the page, so that who opens a terminal is in the audit record; the socket takes the
ticket that the page has, once.
"""

import asyncio
import secrets

from aiohttp import WSCloseCode, WSMsgType, web

from gangline import operations
from gangline.api.operation import Operation, get, post
from gangline.api.rest.context import context_of, reference_of
from gangline.errors import GanglineError, NotFoundError, PermissionDeniedError
from gangline.model.team.access import Right
from gangline.web.frame import Frame, address, show, tenant_here
from gangline.web.guards import from_here
from gangline.web.html import h
from gangline.web.parts import command

TICKETS: web.AppKey[dict[str, tuple[str, str, str]]] = web.AppKey("tickets", dict)
"""Terminals that somebody has asked for and not opened yet: tenant, job and replica of each."""
_MOST_TICKETS = 1000
_LONGEST_MESSAGE = 1 << 16
_PING_SECONDS = 20.0


class _BrowserConsole:
    """The side of the person; see ``model.console.Console``."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._typed: asyncio.Queue[bytes] = asyncio.Queue(64)
        self._sizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue(64)

    async def listen(self) -> None:
        """Take in what the browser sends until it is gone."""
        async for message in self._socket:
            if message.type is WSMsgType.BINARY:
                await self._typed.put(message.data)
            elif message.type is WSMsgType.TEXT:
                width, _, height = message.data.partition(" ")
                if width.isdecimal() and height.isdecimal() and len(message.data) < 12:
                    await self._sizes.put((int(width), int(height)))

    async def read(self) -> bytes:
        """Return what was typed next."""
        return await self._typed.get()

    async def write(self, data: bytes, *, error: bool) -> None:
        """Show what the shell wrote."""
        del error
        await self._socket.send_bytes(data)

    async def size(self) -> tuple[int, int]:
        """Return the size when it has changed."""
        return await self._sizes.get()


async def page(request: web.Request) -> web.Response:
    """Show a terminal."""
    context, tenant = context_of(request), tenant_here(request)
    job = await operations.get_job(context, tenant, reference_of(request))
    replica = str((await request.post()).get("replica", ""))
    if replica not in {str(each.id) for each in job.replicas}:
        raise NotFoundError("running replica", replica)
    tickets, ticket = request.app[TICKETS], secrets.token_urlsafe(32)
    while len(tickets) >= _MOST_TICKETS:
        tickets.pop(next(iter(tickets)))
    tickets[ticket] = (tenant, job.id, replica)
    where = address(tenant, "jobs", job.name)
    return show(
        request,
        Frame(
            title=f"Terminal in {replica}",
            crumbs=(("Jobs", address(tenant, "jobs")), (job.name, where)),
            still=True,
            before=(
                h.p("Shift+Tab leaves the terminal. ", h.span("", id="terminal-state", role="status", cls="faint")),
                h.div(
                    h.div(id="terminal-screen", aria_hidden="true"),
                    h.textarea(
                        id="terminal-keys",
                        aria_label="Terminal: what you type goes to the shell",
                        autocapitalize="off",
                        autocomplete="off",
                        spellcheck="false",
                        rows=1,
                    ),
                    id="terminal",
                    data_terminal=f"{where}/terminal/{ticket}",
                ),
                h.p(command("shell", job.name, "-i", replica, "--tenant", tenant)),
            ),
            scripts=("terminal.js",),
        ),
    )


async def socket(request: web.Request) -> web.StreamResponse:
    """Speak to the shell."""
    tenant = tenant_here(request)
    context = context_of(request)
    job = await operations.get_job(context, tenant, reference_of(request))
    tickets, ticket = request.app[TICKETS], request.match_info["ticket"]
    known = tickets.get(ticket)
    if known is None or known[:2] != (tenant, job.id):
        raise NotFoundError(
            "terminal", "of this address", hint="it was opened already; open another from the job's page"
        )
    if not from_here(request, strict=True):
        raise PermissionDeniedError("the request came from another site")
    del tickets[ticket]
    answer = web.WebSocketResponse(heartbeat=_PING_SECONDS, max_msg_size=_LONGEST_MESSAGE)
    await answer.prepare(request)
    console = _BrowserConsole(answer)
    listening = asyncio.ensure_future(console.listen())
    talking = asyncio.ensure_future(operations.interact(context, tenant, job.id, known[2], console))
    try:
        await asyncio.wait({listening, talking}, return_when=asyncio.FIRST_COMPLETED)
        ending = f"the shell has ended with {talking.result()}" if talking.done() else ""
    except (GanglineError, ConnectionError) as error:
        ending = str(error)
    finally:
        for task in (listening, talking):
            task.cancel()
        await asyncio.gather(listening, talking, return_exceptions=True)
    await answer.close(code=WSCloseCode.OK, message=ending.encode()[:120])
    return answer


def operations_here() -> list[Operation]:
    """The routes of this module."""
    one = "/tenants/{tenant}/jobs/{job}/terminal"
    return [post(Right.WRITE, one, page), get(Right.WRITE, f"{one}/{{ticket}}", socket)]
