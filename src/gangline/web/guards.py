"""What protects the pages: sessions by cookie, CSRF tokens, the Host check against DNS rebinding, and the headers.

``identify`` serves the REST interface as well, where a cookie opens what reads and nothing else: a change needs a form
with its CSRF token, or the bearer's token that no other site can send.
"""

import hmac
import ipaddress
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.bodies import whole_body
from gangline.api.operation import Handler, Identify, operation_of
from gangline.errors import PermissionDeniedError, UnauthenticatedError
from gangline.model.team.access import Identity
from gangline.web.sessions import Session, Sessions

SESSION: web.RequestKey[Session] = web.RequestKey("session", Session)
CSRF_FIELD = "csrf"
READING = frozenset({"GET", "HEAD"})
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LOG_IN = "you are not logged in, or your session has ended"


def cookie_name(request: web.Request) -> str:
    """Return the name of our cookie: browsers share the cookies of a host between its ports, so it has the port."""
    return f"gangline_{request.url.port or 0}"


def session_identify(sessions: Sessions, bearer: Identify | None = None) -> Identify:
    """Make what finds out who asks: by ``bearer``, if there is such a thing here, or by the cookie of a session."""

    async def identify(request: web.Request) -> Identity:
        if bearer is not None and "Authorization" in request.headers:
            return await bearer(request)
        cookie = request.cookies.get(cookie_name(request), "")
        session = sessions.find(cookie)
        if session is None:
            if bearer is not None:
                return await bearer(request)  # it says how to log in
            raise UnauthenticatedError(_LOG_IN)
        found = await session.holder()
        if found is None:
            sessions.end(cookie)
            raise UnauthenticatedError(_LOG_IN)
        request[SESSION] = session
        return found

    return identify


@web.middleware
async def reading_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a cookie change nothing through the REST interface; it stands behind the check of who asks."""
    if SESSION in request and request.method not in READING:
        raise PermissionDeniedError("a browser's session changes things through the forms of the pages alone")
    return await handler(request)


@web.middleware
async def check_form(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a change that did not come from a form of ours; it stands behind the check of who asks."""
    operation = operation_of(request)
    if operation is None or request.method in READING:
        return await handler(request)
    if not from_here(request):
        raise PermissionDeniedError("the form came from another site")
    await whole_body(request)  # it is kept, and read as a form from there
    session = request.get(SESSION)  # whoever shows a token instead cannot be made to by another site
    if session is not None:
        given = (await request.post()).get(CSRF_FIELD, "")
        if not isinstance(given, str) or not _same(given, session.csrf):
            raise PermissionDeniedError("the form is out of date; load the page again")
    return await handler(request)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def from_here(request: web.Request, *, strict: bool = False) -> bool:
    """Whether the browser says that a request is of this very site; ``strict``: and says it, as for websockets."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    if strict:
        return origin is not None and urlsplit(origin).netloc == request.host
    if site is not None and site not in ("same-origin", "none"):
        return False
    return origin is None or urlsplit(origin).netloc == request.host


def checking_host() -> Middleware:
    """Make the check of a private port: who is led here by a name that is not this machine's own is refused.

    A site whose name suddenly stands for 127.0.0.1 (DNS rebinding) would otherwise be of our origin.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not _is_loopback(request.host):
            raise PermissionDeniedError("this page is on your own machine alone; open it as http://127.0.0.1")
        return await handler(request)

    return check


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Put the headers on every answer of the pages."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
