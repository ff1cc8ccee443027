"""The applications of a team's port, and who is believed there."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.auditing import auditing
from gangline.api.bodies import MOST_STREAM_BYTES
from gangline.api.ffdl import make_ffdl_app
from gangline.api.ffdl.application import PREFIX as FFDL_PREFIX
from gangline.api.ffdl.application import ffdl_identify
from gangline.api.identity import Recognize, bearer_identify
from gangline.api.kubernetes import make_kubernetes_app
from gangline.api.limits import Limiter, Limits, limiting
from gangline.api.measuring import measuring
from gangline.api.openid import OpenIdKeys, OpenIdSettings
from gangline.api.operation import CALLER, authorizing
from gangline.api.rest import make_app
from gangline.api.rest.conventions.former_state import looking_before
from gangline.compose.team.compressing import compress
from gangline.model import DEFAULT_TENANT, Clock, CodeLimits, Tenant
from gangline.model.team.access import Identity
from gangline.operations import Caller, OperationContext, identify_token
from gangline.storage.audit import AuditLog
from gangline.storage.interface import Store
from gangline.telemetry import Numbers
from gangline.web.application import make_pages
from gangline.web.frame import PREFIX
from gangline.web.gateway import Gateway, attach, divided, opening
from gangline.web.guards import reading_only, session_identify
from gangline.web.pages.settings import Setting
from gangline.web.sessions import Holder, Sessions, TokenHolder
from gangline.wire import DashboardLink, LoginWays

KUBERNETES_PREFIX = "/kubernetes"


def make_team_app(
    store: Store,
    clock: Clock,
    context_of: Callable[[Caller], OperationContext],
    *,
    audit: AuditLog,
    only: Tenant | None,
    code_limits: CodeLimits,
    openid: OpenIdSettings | None = None,
    limits: Limits | None = None,
    home: Tenant = DEFAULT_TENANT,
    most_upload_bytes: int | None = None,
    outside: Sequence[Middleware] = (),
    numbers: Numbers | None = None,
    again_seconds: float = 5.0,
    gateway: Gateway | None = None,
    told: Sequence[Setting] = (),
) -> web.Application:
    """Build what a team's port serves: the REST interface, the pages, and below a prefix Kubernetes, Katib and kfp.

    ``only`` is the one tenant of a service that cannot keep several apart; ``home`` is the one whose pages an operator
    sees first. ``outside`` stands around everything, and whether a token is still valid is looked up every
    ``again_seconds`` while a request lasts.
    """

    async def by_token(text: str) -> Identity | None:
        return await identify_token(store, clock, text)

    others = () if openid is None else (OpenIdKeys(openid, clock).recognize,)
    ways = [_within(only, way) for way in (by_token, *others)]
    sessions = Sessions(clock)
    identify = bearer_identify(ways)
    login = LoginWays()
    if openid is not None:
        login = LoginWays(issuer=openid.issuer, client_id=openid.client_id, scopes=openid.scopes)

    def context_for(request: web.Request) -> OperationContext:
        return context_of(request[CALLER])

    async def recognize(text: str) -> Identity | None:
        for way in ways:
            if (found := await way(text)) is not None:
                return found
        return None

    async def open_dashboard(request: web.Request, port: int) -> DashboardLink:
        """Lend somebody's token to a browser of theirs."""
        return DashboardLink(address=f"{PREFIX}/enter?code={sessions.offer(holder_of(request))}")

    def holder_of(request: web.Request) -> Holder:
        return TokenHolder(request.headers["Authorization"].partition(" ")[2].strip(), recognize)

    counting = () if numbers is None else (measuring(numbers),)
    inside = (compress, auditing(audit, clock))
    around = (*counting, *outside, *inside)
    behind = (limiting(Limiter(limits or Limits()), clock),)
    in_browser = session_identify(sessions, identify)
    app = make_app(
        context_for,
        code_limits=code_limits,
        check=authorizing(in_browser, again_seconds=again_seconds),
        login=login,
        around=(*counting, *outside, *divided(gateway), *inside),
        behind=(*behind, reading_only),
        open_dashboard=open_dashboard,
        open_workspace=opening(gateway, holder_of),
        numbers=numbers,
    )
    attach(app, gateway)
    pages = make_pages(
        context_for,
        identify=in_browser,
        sessions=sessions,
        home=home,
        recognize=recognize,
        around=around,
        behind=(*behind, looking_before),
        gateway=gateway,
        told=told,
    )
    app.add_subapp(PREFIX, pages)
    check = authorizing(identify, again_seconds=again_seconds)
    app.add_subapp(KUBERNETES_PREFIX, make_kubernetes_app(context_for, check=check, around=around, behind=behind))
    named = authorizing(ffdl_identify(identify, recognize), again_seconds=again_seconds)
    app.add_subapp(
        FFDL_PREFIX,
        make_ffdl_app(context_for, home=home, code_limits=code_limits, within=(*around, named, *behind)),
    )
    if most_upload_bytes is not None:
        app[MOST_STREAM_BYTES] = most_upload_bytes
    return app


def _within(only: Tenant | None, recognize: Recognize) -> Recognize:
    """Leave people no role in another tenant than the one that is served, if there is only one."""

    async def recognized(text: str) -> Identity | None:
        found = await recognize(text)
        if found is None or only is None:
            return found
        roles = {tenant: role for tenant, role in found.roles.items() if tenant == only}
        return replace(found, roles=roles)

    return recognized
