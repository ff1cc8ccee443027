"""``gangline logout``."""

import click

from gangline.cli import terminal
from gangline.cli.commands.config import write_setting
from gangline.errors import NotFoundError
from gangline.sdk.login.logins import keep_login, read_logins
from gangline.settings import Settings


@click.command("logout")
@click.argument("name", metavar="CONTEXT", required=False)
def command(name: str | None) -> None:
    """Forget a login; commands use this machine's own service again if it was the current one."""
    settings = Settings.load()
    context = name or settings.context
    if context not in read_logins(settings):
        raise NotFoundError("login", context, hint="'gangline config view' shows the current context")
    keep_login(settings, context, None)
    if settings.context == context:
        write_setting("context", None)
    terminal.say(f"logged out of '{context}'; a token of yours stays valid until it expires or is revoked")
