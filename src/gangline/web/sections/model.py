"""What a model shows: its versions, where each came from, and which aliases lead to it."""

from typing import Any

from aiohttp import web

from gangline.model.wording import size
from gangline.web.frame import address, tenant_here
from gangline.web.html import Node, h
from gangline.web.parts import moment, section, table


async def sections(request: web.Request, model: Any) -> Node:
    """Show the versions."""
    tenant = tenant_here(request)
    aliases: dict[int, list[str]] = {}
    for alias, number in dict(model.status.aliases).items():
        aliases.setdefault(number, []).append(alias)
    rows = [
        (
            version.number,
            ", ".join(sorted(aliases.get(version.number, ()))) or "–",
            h.a(version.job, href=address(tenant, "jobs", version.job)) if version.job else "–",
            version.framework or "–",
            size(version.size_bytes),
            moment(version.created_at),
            h.code(version.digest[:16]),
        )
        for version in sorted(model.status.versions, key=lambda each: -each.number)
    ]
    headings = ("Version", "Aliases", "Made by", "Framework", "Size", "Made", "Digest")
    return section("Versions", table(headings, rows, caption="Versions"), name="versions")
