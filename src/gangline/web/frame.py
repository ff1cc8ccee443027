"""What surrounds every page: navigation, who is here, and the part of it that is brought up to date by itself.

A page has one live part. The browser asks for it again and again with the digest of what it shows; it is answered with
nothing new (204) or the part anew, which is laid over the old one without losing focus, selection or place.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from aiohttp import web
from multidict import MultiMapping

from gangline import __version__
from gangline.api.operation import IDENTITY
from gangline.model import Tenant
from gangline.model.team.access import Identity, Right
from gangline.web.assets import Assets
from gangline.web.gateway import Gateway
from gangline.web.guards import CSRF_FIELD, SESSION
from gangline.web.html import Element, Node, Rendered, document, h, render

PREFIX = "/dashboard"
LIVE = "live"
"""The name of the parameter with the digest of the live part."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the navigation; ``path`` is behind the tenant's."""

    group: str
    title: str
    path: str
    right: Right = Right.READ


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One page. ``before`` and ``after`` stay as they are; ``live`` is brought up to date."""

    title: str
    live: Node = None
    before: Node = None
    after: Node = None
    scripts: tuple[str, ...] = ()
    status: int = 200
    crumbs: tuple[tuple[str, str], ...] = field(default=())
    """The pages above this one: title and address."""
    still: bool = False
    """Whether nothing on it changes by itself."""


NAVIGATION: web.AppKey[Sequence[Entry]] = web.AppKey("navigation", tuple)
ASSETS: web.AppKey[Assets] = web.AppKey("assets", Assets)
HOME: web.AppKey[Tenant] = web.AppKey("home", str)  # type: ignore[arg-type]  # a NewType is no class
PRIVATE: web.AppKey[bool] = web.AppKey("private", bool)
"""Whether these are the pages of one user's own service, who gets in by a link."""

ANY_TENANT: web.AppKey[bool] = web.AppKey("any tenant", bool)
"""Whether anybody may ask for any tenant: only the cluster knows who has rights where."""

GATEWAY: web.AppKey[Gateway | None] = web.AppKey("gateway", object)  # type: ignore[arg-type]  # it may be missing


def address(tenant: str, *parts: str, **query: object) -> str:
    """Write the address of a page of a tenant; what is None in the query is left out, a list is repeated."""
    path = "/".join((PREFIX, "tenants", quote(tenant, safe=""), *(quote(part, safe="") for part in parts)))
    several = ((name, value if isinstance(value, list) else [value]) for name, value in query.items())
    given = [(name, str(each)) for name, values in several for each in values if each not in (None, "")]
    return f"{path}?{urlencode(given)}" if given else path


def tenant_here(request: web.Request) -> Tenant:
    """Return the tenant whose pages these are."""
    if "tenant" in request.match_info:
        return Tenant(request.match_info["tenant"])
    identity = request.get(IDENTITY)
    home = request.app[HOME]
    if identity is None or identity.operator or home in identity.roles:
        return home
    return next(iter(sorted(identity.roles)), home)


def show(request: web.Request, frame: Frame) -> web.Response:
    """Answer with a page, or with its live part alone if that is asked for."""
    live = _live_part(request, frame)
    if LIVE in request.query:
        digest = dict(live.attributes)["data-digest"]
        if digest == request.query[LIVE]:
            return web.Response(status=204)
        return _html(request, render(live), frame.status)
    return _html(request, document(_page(request, frame, live)), frame.status)


def _html(request: web.Request, text: str, status: int) -> web.Response:
    response = web.Response(text=text, content_type="text/html", status=status)
    if len(text) > 2048:
        response.enable_compression()
    return response


def _live_part(request: web.Request, frame: Frame) -> Element:
    content = render(frame.live)
    digest = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
    query = [(name, value) for name, value in request.query.items() if name != LIVE]
    asked = f"{request.path}?{urlencode([*query, (LIVE, digest)])}"
    following: dict[str, str] = {}
    if not frame.still:
        following = {
            "data_hx_get": asked,
            "data_hx_trigger": "tick from:body",
            "data_hx_swap": "outerMorph",
            "data_hx_sync": "this:drop",
        }
    return h.div(Rendered(content), id="live", data_digest=digest, **following)


def _page(request: web.Request, frame: Frame, live: Element) -> Element:
    assets = request.app[ASSETS]
    scripts = ["htmx.min.js"] if assets.complete else []
    identity = request.get(IDENTITY)
    crumbs = [(h.a(title, href=where), " / ") for title, where in frame.crumbs]
    return h.html(
        h.head(
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="color-scheme", content="light dark"),
            h.meta(name="htmx-config", content='{"history":false,"defaultTimeout":60000}'),
            h.title(f"{frame.title} · Gangline"),
            h.link(rel="icon", href=assets.address("icon.svg"), type="image/svg+xml"),
            [h.link(rel="stylesheet", href=assets.address(name)) for name in assets.styles],
            [
                h.script(src=assets.address(name), defer=True)
                for name in (*scripts, "live.js", *frame.scripts)
                if name in assets.names
            ],
        ),
        h.body(
            h.a("Skip to content", href="#main", cls="skip"),
            None if identity is None else _banner(request, identity),
            h.div(
                None if identity is None else _navigation(request, identity),
                h.main(
                    h.p("The connection to the service is lost; trying again.", id="lost", role="status", hidden=True),
                    None if assets.complete else _missing(),
                    h.header(h.p(crumbs, cls="crumbs") if crumbs else None, h.h1(frame.title), cls="title"),
                    frame.before,
                    live,
                    frame.after,
                    id="main",
                    tabindex="-1",
                ),
                cls="columns",
            ),
        ),
        lang="en",
    )


def _missing() -> Element:
    return h.p(
        "Live updates and curves are off: the packages htmx and uPlot are not installed here. Everything else works. ",
        "In a checkout, ",
        h.code("make setup"),
        " brings them.",
        cls="note",
        role="status",
    )


def _banner(request: web.Request, identity: Identity) -> Element:
    tenant = tenant_here(request)
    return h.header(
        h.a("Gangline", href=address(tenant, "jobs"), cls="brand"),
        _tenants(tenant, identity, anyone=request.app[ANY_TENANT]),
        h.span(identity.name, cls="who"),
        h.form(
            csrf_field(request),
            h.button("Log out", cls="quiet"),
            method="post",
            action=f"{PREFIX}/logout",
            cls="inline",
        ),
        cls="banner",
    )


def _tenants(tenant: Tenant, identity: Identity, *, anyone: bool) -> Element:
    if identity.operator or anyone:
        return h.form(
            h.label("Tenant", for_="tenant"),
            h.input(id="tenant", name="tenant", value=tenant, size=12),
            h.button("Go", cls="quiet"),
            method="get",
            action=f"{PREFIX}/",
            cls="inline",
        )
    others = [h.a(each, href=address(each, "jobs")) for each in sorted(identity.roles) if each != tenant]
    return h.span("Tenant ", h.strong(tenant), [(" ", each) for each in others], cls="tenants")


def _navigation(request: web.Request, identity: Identity) -> Element:
    tenant = tenant_here(request)
    groups: dict[str, list[Node]] = {}
    for entry in request.app[NAVIGATION]:
        if not identity.may(entry.right, tenant):
            continue
        where = address(tenant, *entry.path.split("/"))
        here = request.path == where or request.path.startswith(f"{where}/")
        link = h.a(entry.title, href=where, aria_current="page" if here else None)
        groups.setdefault(entry.group, []).append(h.li(link))
    return h.nav(
        h.label(
            h.input(type="checkbox", id="menu"), " All pages", for_="menu"
        ),  # the style sheet hides it where there is room
        [(h.h2(group), h.ul(entries)) for group, entries in groups.items()],
        h.p(f"Gangline {__version__}", cls="faint"),
        aria_label="Pages",
    )


def csrf_field(request: web.Request) -> Element:
    """The hidden field that shows that a form is ours."""
    session = request.get(SESSION)
    return h.input(type="hidden", name=CSRF_FIELD, value="" if session is None else session.csrf)


def form(request: web.Request, action: str, *children: Node, **attributes: str | None) -> Element:
    """A form that changes something."""
    return h.form(csrf_field(request), children, method="post", action=action, **attributes)


def may(request: web.Request, right: Right) -> bool:
    """Whether whoever asks has a right in the tenant of the page: what they may not do is not offered."""
    return request[IDENTITY].may(right, tenant_here(request))


def sorted_query(query: MultiMapping[str], **changed: object) -> dict[str, object]:
    """Return a query with some values changed, for a link to the same page."""
    return {**{name: query.getall(name) for name in query if name != LIVE}, **changed}
