"""What the service was started with, for whoever runs it: read here, changed on the command line."""

from collections.abc import Sequence

from aiohttp import web

from gangline.api.operation import Operation, get
from gangline.model.team.access import Right
from gangline.web.frame import Entry, Frame, show
from gangline.web.html import h
from gangline.web.parts import commands, table

Setting = tuple[str, str, str]
"""Its name, its value in words without secrets, and where the value came from."""

SETTINGS: web.AppKey[Sequence[Setting]] = web.AppKey("settings", tuple)


async def page(request: web.Request) -> web.Response:
    """Show every setting, and whether it was chosen."""
    rows = [
        (h.code(name), h.span(value, cls="reason") if value else "–", source if source == "default" else h.b(source))
        for name, value, source in request.app[SETTINGS]
    ]
    said = "The service reads its settings when it starts. Passwords and keys are not shown."
    empty = "This service is set up by what installed it: see the values of its chart."
    return show(
        request,
        Frame(
            title="Settings",
            before=h.p(said, cls="faint"),
            live=table(("Setting", "Value", "From"), rows, caption="Settings", empty=empty),
            after=commands(("config", "view"), ("config", "set", "NAME", "VALUE")),
            still=True,
        ),
    )


entries = (Entry("Service", "Settings", "settings", Right.OPERATE),)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    return [get(Right.OPERATE, "/tenants/{tenant}/settings", page)]
