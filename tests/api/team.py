"""A team's service in one process: its application, and tokens of every role in two tenants."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
from aiohttp import web

from gangline import operations
from gangline.api.limits import Limits
from gangline.compose.team.service import make_team_app
from gangline.model import CodeLimits, Tenant
from gangline.model.team.access import Role
from gangline.storage.audit import MemoryAudit
from gangline.web.gateway import Gateway
from tests.operations.fakes import Office

OWN, OTHER = Tenant("vision"), Tenant("speech")
HOUR = 3600.0


class TeamOffice(Office):
    """A service that hands out tokens."""

    def __init__(self, home: Path) -> None:
        super().__init__(home / "code")
        self.audit = MemoryAudit()
        self.object_directory, self.model_directory, self.claim_directory = home / "o", home / "m", home / "c"

    async def token(self, title: str, role: Role, tenant: Tenant | None, *, seconds: float = HOUR) -> str:
        made = await operations.create_token(self.context("root"), title, role=role, tenant=tenant, seconds=seconds)
        return made.text

    def app(
        self,
        *,
        only: Tenant | None = None,
        limits: Limits | None = None,
        most_upload_bytes: int | None = None,
        again_seconds: float = 3600.0,
        gateway: Gateway | None = None,
    ) -> web.Application:
        return make_team_app(
            self.store,
            self.clock,
            lambda caller: replace(self.context(), caller=caller, audit=self.audit),
            audit=self.audit,
            only=only,
            code_limits=CodeLimits(),
            limits=limits or Limits(burst=100_000),
            most_upload_bytes=most_upload_bytes,
            again_seconds=again_seconds,
            gateway=gateway,
        )


@asynccontextmanager
async def served(
    app: web.Application, directory: Path, *, cookies: bool = False
) -> AsyncIterator[aiohttp.ClientSession]:
    """Serve an application on a socket, and return what asks it."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    path = str(directory / "team.sock")
    await web.UnixSite(runner, path).start()
    try:
        connector = aiohttp.UnixConnector(path)
        async with aiohttp.ClientSession(
            "http://team", connector=connector, cookie_jar=None if cookies else aiohttp.DummyCookieJar()
        ) as session:
            yield session
    finally:
        await runner.cleanup()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
