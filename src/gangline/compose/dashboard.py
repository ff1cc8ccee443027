"""The pages of a private service: on a port of this machine alone, opened when somebody first asks for a link."""

import asyncio
from collections.abc import Callable, Sequence

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.operation import authorizing
from gangline.api.rest import make_app
from gangline.api.rest.context import ContextFor
from gangline.errors import ConflictError, GanglineError, NotFoundError
from gangline.model import Clock, Tenant
from gangline.model.kinds.workspace import Workspace
from gangline.model.team.access import Identity
from gangline.web.application import make_pages
from gangline.web.frame import PREFIX
from gangline.web.gateway import Gateway, attach, divided
from gangline.web.guards import checking_host, reading_only, session_identify
from gangline.web.pages.settings import Setting
from gangline.web.sessions import Sessions
from gangline.wire import DashboardLink


class PrivateDashboard:
    """Serves the pages, and the REST interface that they read, to whoever has a link: the owner."""

    def __init__(
        self,
        context_for: ContextFor,
        *,
        clock: Clock,
        owner: Callable[[], str],
        home: Tenant,
        gateway: Gateway | None = None,
        told: Sequence[Setting] = (),
        recording: Sequence[Middleware] = (),
        behind: Sequence[Middleware] = (),
    ) -> None:
        """``behind`` stands behind the check of who may, of the pages and of the REST interface."""
        self._context_for = context_for
        self._gateway = gateway
        self._told = told
        self._recording = recording
        self._behind = behind
        self._sessions = Sessions(clock)
        self._owner = owner
        self._home = home
        self._runner: web.AppRunner | None = None
        self._opening = asyncio.Lock()

    async def link(self, request: web.Request, port: int) -> DashboardLink:
        """Return a link; the first one opens the port."""
        base = await self._base(port)
        return DashboardLink(address=f"{base}{PREFIX}/enter?code={self._sessions.offer(self._holder)}")

    async def workspace_link(self, request: web.Request, workspace: Workspace, port: int) -> DashboardLink:
        """Return a link to a workspace, on the same port."""
        if self._gateway is None:
            raise NotFoundError("gateway", "of this service")
        return DashboardLink(address=self._gateway.link(workspace, self._holder, base=await self._base(port)))

    async def _base(self, port: int) -> str:
        async with self._opening:
            if self._runner is None:
                self._runner = await self._open(port)
        found: int = self._runner.addresses[0][1]
        if port not in (0, found):
            raise ConflictError(f"the dashboard is on port {found} already; ask without --port, or restart the service")
        return f"http://127.0.0.1:{found}"

    async def close(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _holder(self) -> Identity | None:
        return Identity(name=self._owner(), operator=True)

    async def _open(self, port: int) -> web.AppRunner:
        identify = session_identify(self._sessions)
        gateway = self._gateway
        around = (*divided(gateway), checking_host(), *self._recording)
        app = make_app(
            self._context_for, check=authorizing(identify), around=around, behind=(*self._behind, reading_only)
        )
        attach(app, gateway)
        app.add_subapp(
            PREFIX,
            make_pages(
                self._context_for,
                identify=identify,
                sessions=self._sessions,
                home=self._home,
                around=self._recording,
                gateway=gateway,
                told=self._told,
                behind=self._behind,
            ),
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        except OSError as error:
            await runner.cleanup()
            raise GanglineError(f"cannot listen on port {port} of this machine: {error.strerror}") from error
        return runner
