"""The way in and out: one-time links, the log-in form of a team's service, and the files that browsers load."""

from http import HTTPStatus

from aiohttp import web

from gangline.api.identity import MOST_TOKEN_CHARACTERS, Recognize
from gangline.api.operation import IDENTITY, Operation, get, post
from gangline.errors import NotFoundError
from gangline.model.identity import check_name
from gangline.model.team.access import Right
from gangline.web.frame import ASSETS, PREFIX, PRIVATE, Frame, address, show, tenant_here
from gangline.web.guards import cookie_name
from gangline.web.html import Node, h
from gangline.web.sessions import SESSION_SECONDS, Sessions, TokenHolder

SESSIONS: web.AppKey[Sessions] = web.AppKey("sessions", Sessions)
RECOGNIZE: web.AppKey[Recognize | None] = web.AppKey("recognize", object)  # type: ignore[arg-type]  # a callable has no class
_A_YEAR = "public, max-age=31536000, immutable"


async def front(request: web.Request) -> web.StreamResponse:
    """Lead to the jobs of the tenant that is asked for, or of one's own."""
    tenant = request.query.get("tenant") or tenant_here(request)
    check_name(tenant, "tenant")
    raise web.HTTPSeeOther(address(tenant, "jobs"))


async def enter(request: web.Request) -> web.Response:
    """Let the bearer of a one-time link in.

    It answers with a page and not with a redirection: the cookie is sent only to requests that begin on our own site.
    """
    cookie = request.app[SESSIONS].redeem(request.query.get("code", "")) if request.method == "GET" else None
    if cookie is None:
        return login_page(request, "this link was used already, or is too old", HTTPStatus.UNPROCESSABLE_ENTITY)
    return _welcomed(request, cookie)


async def login_form(request: web.Request) -> web.Response:
    """Show how to log in."""
    return login_page(request, None, HTTPStatus.OK)


async def login(request: web.Request) -> web.Response:
    """Log somebody in by the token in the form."""
    recognize = request.app[RECOGNIZE]
    given = (await request.post()).get("token", "")
    token = given.strip() if isinstance(given, str) and len(given) <= MOST_TOKEN_CHARACTERS else ""
    if recognize is None or not token or await recognize(token) is None:
        return login_page(request, "the token is unknown, expired or revoked", HTTPStatus.UNPROCESSABLE_ENTITY)
    return _welcomed(request, request.app[SESSIONS].begin(TokenHolder(token, recognize)))


async def logout(request: web.Request) -> web.Response:
    """End the session."""
    name = cookie_name(request)
    request.app[SESSIONS].end(request.cookies.get(name, ""))
    request.pop(IDENTITY, None)
    response = login_page(request, "You are logged out.", HTTPStatus.OK)
    response.del_cookie(name)
    return response


def _welcomed(request: web.Request, cookie: str) -> web.Response:
    frame = Frame(title="Welcome", live=h.p("You are logged in. ", h.a("Go on", href=f"{PREFIX}/")), still=True)
    response = show(request, frame)
    response.headers["Refresh"] = f"0; url={PREFIX}/"
    response.set_cookie(
        cookie_name(request),
        cookie,
        max_age=int(SESSION_SECONDS),
        path="/",
        httponly=True,
        samesite="Strict",
        secure=request.secure,
    )
    return response


def login_page(request: web.Request, problem: str | None, status: HTTPStatus) -> web.Response:
    """Return the page of somebody who is not logged in."""
    way: Node = h.p("Type ", h.code("gangline dashboard"), " in a terminal and open the link that it prints.")
    if not request.app[PRIVATE]:
        way = h.form(
            h.p(h.label("Token", for_="token"), h.input(id="token", name="token", type="password", autocomplete="off")),
            h.p(h.button("Log in", cls="primary")),
            h.p(
                "Or type ", h.code("gangline dashboard"), " where you are logged in, and open the link that it prints."
            ),
            method="post",
            action=f"{PREFIX}/login",
        )
    shown = h.p(problem, role="status", cls="note") if problem else None
    return show(request, Frame(title="Log in", live=(shown, way), status=status.value, still=True))


async def asset(request: web.Request) -> web.Response:
    """Return a file."""
    name = request.match_info["file"]
    found = request.app[ASSETS].get(name)
    if found is None or found.digest != request.match_info["digest"]:
        raise NotFoundError("file", name)
    headers = {"Cache-Control": _A_YEAR, "Vary": "Accept-Encoding"}
    body = found.content
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        body, headers["Content-Encoding"] = found.compressed, "gzip"
    return web.Response(body=body, content_type=found.media_type, charset="utf-8", headers=headers)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    return [
        get(Right.ASK, "/", front),
        get(Right.ANYONE, "/enter", enter),
        get(Right.ANYONE, "/login", login_form),
        post(Right.ANYONE, "/login", login),
        post(Right.ASK, "/logout", logout),
        get(Right.ANYONE, "/assets/{digest}/{file}", asset),
    ]
