"""Lets people in to workspaces: a one-time link for one workspace, then a cookie of that workspace's own host.

Every workspace has a host name of its own, so that a browser keeps its pages apart from those of others and from the
dashboard (docs/decisions/0013): no script of a notebook reads another's answers, and no cookie reaches another host.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline import operations
from gangline.api.errors import status_of
from gangline.api.operation import Handler, caller_with, repeatedly_checked
from gangline.api.rest.dashboard import OpenWorkspace
from gangline.errors import ConflictError, GanglineError, PermissionDeniedError, UnauthenticatedError
from gangline.model import Clock, Tenant
from gangline.model.kinds.workspace import Workspace
from gangline.model.record import RecordId
from gangline.model.team.access import Right
from gangline.operations import Caller, OperationContext
from gangline.router.wires import Sweep
from gangline.web.gateway.forwarding import forward
from gangline.web.guards import HEADERS, READING, from_here
from gangline.web.html import document, h
from gangline.web.sessions import SESSION_SECONDS, Holder, Session, Sessions
from gangline.wire import DashboardLink

ENTER = "/.gangline/enter"
LOCAL = "localhost"
_KEPT_HEADERS = (
    "X-Content-Type-Options",
    "Referrer-Policy",
    "Cross-Origin-Opener-Policy",
    "Cross-Origin-Resource-Policy",
)


@dataclass(frozen=True, slots=True)
class _Door:
    """One workspace that somebody was given a link to."""

    record_id: RecordId
    tenant: Tenant
    name: str
    right: Right
    sessions: Sessions


class Gateway:
    """The gateway of one port. ``address`` is the scheme and host below which each workspace has its own."""

    def __init__(
        self,
        context_of: Callable[[Caller], OperationContext],
        *,
        clock: Clock,
        token_of: Callable[[RecordId], str],
        note_use: Callable[[RecordId], None],
        address: str = "",
        again_seconds: float = 5.0,
    ) -> None:
        self._context_of = context_of
        self._clock = clock
        self._token_of = token_of
        self._note_use = note_use
        self._address = urlsplit(address)
        self._again_seconds = again_seconds
        self._doors: dict[str, _Door] = {}
        self._sweep = Sweep()

    def link(self, workspace: Workspace, holder: Holder, *, base: str) -> str:
        """Return a link that lets its bearer in, once and soon. ``base`` is where this port was reached."""
        if workspace.state != "ready":
            last = workspace.status.problem or workspace.status.notice
            raise ConflictError(f"workspace '{workspace.name}' is {workspace.state}" + (f": {last}" if last else ""))
        scheme, place = self._place(base)
        label = label_of(workspace.id)
        door = self._doors.get(label)
        if door is None:
            door = self._doors[label] = _Door(
                workspace.id,
                workspace.spec.tenant,
                workspace.name,
                workspace.spec.right_to_open,
                Sessions(self._clock),
            )
        self._note_use(workspace.id)
        return f"{scheme}://{label}.{place}{ENTER}?code={door.sessions.offer(holder)}"

    def _place(self, base: str) -> tuple[str, str]:
        if self._address.netloc:
            return self._address.scheme, self._address.netloc
        found = urlsplit(base)
        if found.hostname not in ("127.0.0.1", "::1", LOCAL):
            raise ConflictError(
                "workspaces need a domain of their own to be opened from other machines; "
                "who runs this service sets workspaces_address (docs/workspaces.md)"
            )
        return found.scheme, f"{LOCAL}:{found.port}" if found.port else LOCAL

    async def running(self, app: web.Application) -> AsyncIterator[None]:
        """Look after connections for as long as an application runs (``Application.cleanup_ctx``)."""
        sweeping = asyncio.create_task(self._sweep.run(), name="connections to workspaces")
        yield
        sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await sweeping
        for wire in list(self._sweep.wires):
            wire.abort()

    def label_in(self, request: web.Request) -> str | None:
        """Return the first part of the host name of a workspace; None for a host that is not one."""
        try:
            host = urlsplit(f"//{request.host}").hostname or ""
        except ValueError:
            return None
        label, _, domain = host.partition(".")
        return label if domain in {LOCAL, self._address.hostname} else None

    def middleware(self) -> Middleware:
        """Make what stands around everything else: requests for hosts of workspaces go no further."""

        @web.middleware
        async def divide(request: web.Request, handler: Handler) -> web.StreamResponse:
            label = self.label_in(request)
            return await handler(request) if label is None else await self._answer(request, label)

        return divide

    async def _answer(self, request: web.Request, label: str) -> web.StreamResponse:
        try:
            door = self._doors.get(label)
            if door is None:
                raise UnauthenticatedError("this link is not known here any more")
            if request.path == ENTER:
                return self._enter(request, door)
            return await self._forward(request, door)
        except GanglineError as error:
            return _page(f"{error}. Open the workspace again from the dashboard or the command line.", status_of(error))

    def _enter(self, request: web.Request, door: _Door) -> web.Response:
        cookie = door.sessions.redeem(request.query.get("code", "")) if request.method == "GET" else None
        if cookie is None:
            raise UnauthenticatedError("this link was used already, or is too old")
        # A page and not a redirection: the cookie is sent only to requests that begin on this very host.
        response = _page("Opening the workspace.", 200)
        response.headers["Refresh"] = "0; url=/"
        response.set_cookie(
            _cookie_name(request),
            cookie,
            max_age=int(SESSION_SECONDS),
            path="/",
            httponly=True,
            samesite="Strict",
            secure=self._address.scheme == "https" or request.secure,
        )
        return response

    async def _forward(self, request: web.Request, door: _Door) -> web.StreamResponse:
        name = _cookie_name(request)
        cookie = request.cookies.get(name, "")
        session = door.sessions.find(cookie)
        if session is None:
            raise UnauthenticatedError("you are not logged in to this workspace, or your session has ended")
        websocket = request.headers.get("Upgrade", "").lower() == "websocket"
        if (websocket or request.method not in READING) and not from_here(request, strict=websocket):
            raise PermissionDeniedError("the request came from another site")

        async def check() -> None:
            await self._checked(door, session, cookie)

        address = await self._checked(door, session, cookie)
        if _is_use(request, door, websocket=websocket):
            self._note_use(door.record_id)
        async with repeatedly_checked(request, check, again_seconds=self._again_seconds):
            return await forward(
                request,
                address,
                token=self._token_of(door.record_id),
                own_cookie=name,
                sweep=self._sweep,
                note=lambda: self._note_use(door.record_id),
            )

    async def _checked(self, door: _Door, session: Session, cookie: str) -> str:
        """Return where the program answers, if whoever asks may still use it."""
        identity = await session.holder()
        if identity is None or door.sessions.find(cookie) is None:
            door.sessions.end(cookie)
            raise UnauthenticatedError("your session has ended")
        context = self._context_of(caller_with(identity, door.right, door.tenant))
        return await operations.workspace_address(context, door.tenant, door.name, door.record_id)


def divided(gateway: Gateway | None) -> tuple[Middleware, ...]:
    """What stands around an application whose port has a gateway."""
    return () if gateway is None else (gateway.middleware(),)


def attach(app: web.Application, gateway: Gateway | None) -> None:
    """Let a gateway live as long as an application."""
    if gateway is not None:
        app.cleanup_ctx.append(gateway.running)


def opening(gateway: Gateway | None, holder_of: Callable[[web.Request], Holder]) -> OpenWorkspace | None:
    """Make what lends somebody's login to a browser of theirs, for one workspace."""
    if gateway is None:
        return None

    async def link(request: web.Request, workspace: Workspace, port: int) -> DashboardLink:
        base = f"{request.scheme}://{request.host}"
        return DashboardLink(address=gateway.link(workspace, holder_of(request), base=base))

    return link


def _is_use(request: web.Request, door: _Door, *, websocket: bool) -> bool:
    """Whether a person does something: an open JupyterLab asks for this and that by itself, a TensorBoard does not."""
    if websocket:
        return False  # what is typed into it counts
    navigates = request.headers.get("Sec-Fetch-Mode") == "navigate"
    return navigates or request.method not in READING or door.right is Right.READ


def label_of(record_id: RecordId) -> str:
    """The first part of the host name of a workspace: always the same for one, whatever it is called."""
    return f"w{hashlib.sha256(record_id.encode()).hexdigest()[:20]}"


def _cookie_name(request: web.Request) -> str:
    """Browsers share the cookies of a host between its ports, so it has the port."""
    return f"gangline_workspace_{request.url.port or 0}"


def _page(text: str, status: int) -> web.Response:
    body = h.html(
        h.head(h.meta(charset="utf-8"), h.title("Workspace · Gangline")),
        h.body(h.main(h.h1("Workspace"), h.p(text))),
        lang="en",
    )
    response = web.Response(text=document(body), content_type="text/html", status=status)
    for name in _KEPT_HEADERS:
        response.headers[name] = HEADERS[name]
    response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
    response.headers["Cache-Control"] = "no-store"
    return response
