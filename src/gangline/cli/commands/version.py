"""``gangline version``."""

import click

from gangline import __version__


@click.command("version")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show the version of this program, and of the service if one runs."""
    click.echo(f"client  {__version__}")
    from gangline.sdk import Client
    from gangline.sdk.transports.background import address_of, running_process
    from gangline.settings import Settings

    settings = Settings.load()
    server = (ctx.find_root().obj or {}).get("server")
    if server is None and running_process(settings) is None:
        return
    click.echo(f"service {Client(server or address_of(settings), settings=settings).version()}")
