"""``gangline dashboard``."""

import os
import threading
import webbrowser
from contextlib import suppress

import click

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_settings, connect


@click.command("dashboard")
@click.option("--port", type=click.IntRange(1, 65535), help="The port of this machine; any free one if not given.")
@click.option("--no-open", is_flag=True, help="Print the link and open no browser.")
@click.pass_context
def command(ctx: click.Context, /, *, port: int | None, no_open: bool) -> None:
    """Open the web page of the service: jobs, queues, nodes and all the rest, live.

    The link lets in whoever opens it first, within two minutes. The page of your own service is on a port that only
    this machine can reach; from elsewhere, forward it: ssh -L 8471:127.0.0.1:8471 HOST. The page of a cluster is served
    by this command, with your own rights there, until it is interrupted.
    """
    open_browser(connect(ctx).team.dashboard(port=port), no_open=no_open)
    if ctx.find_root().meta.get("gangline clients") and not _logged_in(ctx):
        terminal.say("the page is there until you press Ctrl-C")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


def _logged_in(ctx: click.Context) -> bool:
    """Whether what is asked is a team's service, which has its pages whether or not this command runs."""
    from gangline.sdk.login.logins import find_login

    settings = chosen_settings(ctx)
    return find_login(settings, settings.context) is not None


def open_browser(link: str, *, no_open: bool) -> None:
    """Print a link and, where there is a screen, open it."""
    click.echo(link)
    if not no_open and _has_a_screen() and not webbrowser.open(link):
        terminal.say("no browser could be started; open the link yourself")


def _has_a_screen() -> bool:
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
