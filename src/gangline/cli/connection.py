"""From the options of a command to a client."""

import click

from gangline.cli.terminal import say
from gangline.sdk import Client
from gangline.sdk.background import ensure_service
from gangline.settings import Settings


def connect(ctx: click.Context, *, tenant: str | None = None) -> Client:
    """Return a client for the service that the options name: the user's own, started when needed, by default."""
    chosen = ctx.find_root().obj or {}
    settings = Settings.load()
    address = chosen.get("server") or ensure_service(settings, say=say)
    return Client(address, tenant=tenant or chosen.get("tenant"), settings=settings)
